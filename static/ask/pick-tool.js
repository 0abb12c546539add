// The field that adds a suggested call by the name of its tool.

import { bind } from "../shell/keys.js";
import { parseExact } from "../forms/exact-json.js";
import { chosen } from "../forms/schema-form.js";
import { visible } from "../shell/visible-text.js";

/**
 * Bind the field, its button and its key, and the call that has failed.
 * @param {string[]} names of the agent's tools
 * @param {(name: string, given?: Record<string, unknown>) => void} addCall
 * @param {(words: string) => void} tell says why there is no such tool; no words hide it
 */
export function startPicker(names, addCall, tell) {
  /** @type {HTMLInputElement} */
  const picker = document.querySelector("[data-pick-tool]");
  const add = () => {
    const { name, words } = chosen(picker.value, names);
    tell(words);
    if (!name) return picker.focus();
    picker.value = "";
    return addCall(name);
  };
  picker.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.ctrlKey && !event.metaKey) add();
  });
  picker.addEventListener("input", (event) => {
    // a pick from the list adds the call; typing continues until Enter
    const isPick = /** @type {InputEvent} */ (event).inputType === "insertReplacementText";
    if (isPick && names.some((name) => visible(name) === picker.value)) add();
  });
  document.querySelector("[data-add-call]").addEventListener("click", add);
  bind("insert-call", () => picker.focus());
  document.querySelector("[data-add-failed]")?.addEventListener("click", () => {
    const failed = parseExact(document.getElementById("failed-call").textContent);
    addCall(failed.name, failed.arguments);
  });
}

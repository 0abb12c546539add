// Earlier answers to similar asks: fetched when opened, chosen by keys, appended to the text with their source.

import { parseExact } from "../forms/exact-json.js";
import { insert } from "./ask-form.js";
import { bind } from "../shell/keys.js";
import { fetchFragment } from "../shell/connection.js";
import { say } from "../shell/toast.js";
import { walk } from "../shell/arrow-keys.js";

/**
 * Return the tools of these calls that this agent does not have, each once.
 * @param {import("../forms/drafts.js").Call[]} calls
 * @param {string[]} names
 */
export function unknownTools(calls, names) {
  return [...new Set(calls.map((call) => call.name))].filter((name) => !names.includes(name));
}

const toolNames = () => parseExact(document.getElementById("tools-data")?.textContent || "[]").map((tool) => tool.name);

function takeUp(button) {
  const calls = parseExact(document.getElementById(button.dataset.calls).textContent);
  const left = unknownTools(calls, toolNames());
  insert(button.querySelector("[data-words]").textContent, { atEnd: true, calls, began: button.dataset.pick });
  if (left.length) say(`Call skipped: the agent has no tool ${left.join(", ")}.`, true);
}

async function show(dialog) {
  const box = dialog.querySelector('[data-part="similar"]');
  dialog.setAttribute("aria-busy", "true");
  try {
    box.replaceWith((await fetchFragment(box.dataset.url)).querySelector('[data-part="similar"]'));
  } catch (error) {
    box.textContent = error.message;
  }
  dialog.removeAttribute("aria-busy");
  dialog.querySelector("[data-pick]")?.focus();
}

export function startSimilar() {
  /** @type {HTMLDialogElement} */
  const dialog = document.getElementById("similar");
  if (!dialog) return;
  bind("similar", () => {
    dialog.showModal();
    show(dialog);
  });
  walk(dialog, "[data-pick]");
  dialog.addEventListener("click", (event) => {
    const button = event.target instanceof Element && event.target.closest("[data-pick]");
    if (!button) return;
    dialog.close();
    takeUp(button);
  });
}

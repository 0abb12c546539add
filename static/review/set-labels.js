// The labels that this reviewer has set on the step in view, or on the selected part of it: their buttons are pressed.

import { life } from "../shell/page-life.js";

const PLACE = ["seq", "path", "start", "end"];

/** Return the values of this label at the place that its form names. @param {HTMLFormElement} form */
function valuesAt(form) {
  const said = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("[data-set]")]);
  const field = (/** @type {string} */ name) => /** @type {HTMLInputElement} */ (form.elements.namedItem(name))?.value ?? "";
  const own = said.find(({ dataset }) => dataset.set === field("schema") && PLACE.every((name) => (dataset[name] ?? "") === field(name)));
  return own ? own.dataset.value.split("\n") : [];
}

/** Press the buttons of what is set here. */
export function drawSet() {
  for (const form of /** @type {NodeListOf<HTMLFormElement>} */ (document.querySelectorAll("form[data-in-place]:has([name=schema])"))) {
    const values = valuesAt(form);
    for (const button of form.querySelectorAll("button[name=value]")) button.setAttribute("aria-pressed", String(values.includes(button.value)));
    if (form.dataset.typed) continue;
    for (const box of form.querySelectorAll("input[type=checkbox]")) box.checked = values.includes(box.value);
  }
}

/** Follow what is saved, and the place that labels apply to. */
export function startSet() {
  for (const kind of ["awm:said", "awm:place"]) document.addEventListener(kind, drawSet, { signal: life() });
}

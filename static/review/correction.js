// The form of a correction. It follows the step in view and starts with its recorded call. After the first change it stays on
// its step, which it names, until it is saved or discarded.

import { entriesOf, parseExact, writeExact } from "../forms/exact-json.js";
import { inProject } from "../shell/address.js";
import { bind } from "../shell/keys.js";

/** @type {{name: string, arguments: Record<string, any>} | null} the call that the form started with */
let recorded = null;
let inView = 0;

const formHere = () => /** @type {HTMLFormElement | null} */ (document.querySelector("[data-correct-form]"));
const boxHere = () => /** @type {HTMLDetailsElement} */ (document.querySelector("[data-correct]"));

/**
 * @param {HTMLFormElement} form
 * @param {string} name
 */
const field = (form, name) => /** @type {HTMLInputElement} */ (form.elements.namedItem(name));

/**
 * @param {HTMLFormElement} form
 * @param {string} mark
 */
const part = (form, mark) => /** @type {HTMLElement} */ (form.querySelector(`[data-correct-${mark}]`));

/**
 * Return the lines that differ between two calls' arguments as [sign, text], with the unchanged ones between.
 * @param {Record<string, any>} before
 * @param {Record<string, any>} after
 */
export function difference(before, after) {
  const lines = [];
  for (const name of new Set([before, after].flatMap(entriesOf).map(([one]) => one))) {
    const [was, is] = [before, after].map((side) => (Object.hasOwn(side, name) ? writeExact(side[name]) : undefined));
    if (was === is) lines.push([" ", `${name} ${is}`]);
    else {
      if (was !== undefined) lines.push(["−", `${name} ${was}`]);
      if (is !== undefined) lines.push(["+", `${name} ${is}`]);
    }
  }
  return lines;
}

/** @param {HTMLFormElement} form */
function drawDifference(form) {
  const box = /** @type {HTMLElement} */ (form.querySelector("[data-diff]"));
  let wanted = null;
  try {
    wanted = parseExact(field(form, "arguments").value);
  } catch {
    // invalid JSON has no difference; the server names the error when it is saved
  }
  box.hidden = recorded === null || wanted === null || typeof wanted !== "object";
  if (box.hidden) return;
  const rows = difference(recorded.arguments, wanted).map(([sign, text]) => {
    const row = document.createElement("div");
    row.className = sign === "+" ? "ad" : sign === "−" ? "rm" : "";
    for (const words of [sign, text]) row.append(Object.assign(document.createElement("span"), { textContent: words }));
    return row;
  });
  box.replaceChildren(...rows);
}

/** Return what a person can change. @param {HTMLFormElement} form */
const written = (form) => JSON.stringify(["kind", "name", "arguments", "text", "why"].map((name) => field(form, name).value));

/** Name the form's step, and say that it stays there. @param {HTMLFormElement} form */
function drawStep(form) {
  const { value: at } = field(form, "seq");
  part(form, "step").textContent = `step ${at}`;
  part(form, "discard").hidden = !form.dataset.typed;
  const elsewhere = part(form, "elsewhere");
  elsewhere.hidden = !form.dataset.typed || at === String(inView);
  elsewhere.textContent = elsewhere.hidden ? "" : `Step ${inView} is in view. Save or discard this correction to correct it.`;
}

/** Start with the recorded call, or empty until it is known. @param {HTMLFormElement} form */
function fill(form) {
  field(form, "name").value = recorded ? recorded.name : "";
  field(form, "arguments").value = recorded ? writeExact(recorded.arguments, "\n") : "";
  form.dataset.began = written(form);
}

/**
 * Fetch the call of a step, and put it into the form unless something was typed.
 * @param {HTMLFormElement} form
 * @param {number} at
 */
async function load(form, at) {
  if (form.dataset.at === String(at)) return;
  form.dataset.at = String(at);
  recorded = null;
  if (!form.dataset.typed) fill(form);
  drawDifference(form);
  let step = null;
  try {
    const answer = await fetch(inProject(`api/v1/episodes/${document.getElementById("main").dataset.episode}/steps/${at}`));
    if (answer.ok) step = parseExact(await answer.text());
  } catch {
    // opening the form again retries
  }
  if (form.dataset.at !== String(at)) return;
  if (!step) delete form.dataset.at;
  recorded = step?.kind === "tool_call" ? { name: step.name, arguments: step.arguments || {} } : null;
  if (!form.dataset.typed) fill(form);
  drawDifference(form);
}

/** Follow the step in view again. @param {HTMLFormElement} form */
function goOn(form) {
  field(form, "seq").value = String(inView);
  if (boxHere().open) load(form, inView);
  drawStep(form);
}

/** Follow another step that came into view. @param {number} at */
export function follow(at) {
  inView = at;
  const form = formHere();
  if (!form) return;
  if (form.dataset.typed) drawStep(form);
  else goOn(form);
}

/** Start again with the recorded call after saving or discarding. @param {HTMLFormElement} form */
export function endCorrection(form) {
  for (const name of ["typed", "at"]) delete form.dataset[name];
  for (const name of ["text", "why"]) field(form, name).value = "";
  /** @type {HTMLSelectElement} */ (form.querySelector("select")).selectedIndex = 0;
  boxHere().open = false;
  goOn(form);
}

/** Restore what was typed on a step before. @param {HTMLFormElement} form */
export function resume(form) {
  form.dataset.typed = "1";
  boxHere().open = true;
  load(form, Number(field(form, "seq").value));
  drawStep(form);
}

export function startCorrection() {
  const [box, form] = [boxHere(), formHere()];
  if (!form) return;
  inView = Number(field(form, "seq").value);
  if (box.open) resume(form); // it was refused
  form.addEventListener("input", () => {
    if (written(form) === form.dataset.began) delete form.dataset.typed;
    else form.dataset.typed = "1";
    drawDifference(form);
    if (form.dataset.typed) drawStep(form);
    else goOn(form);
  });
  box.addEventListener("toggle", () => { if (box.open) load(form, Number(field(form, "seq").value)); });
  part(form, "discard").addEventListener("click", () => {
    endCorrection(form);
    form.dispatchEvent(new Event("change", { bubbles: true })); // it is saved nowhere
  });
  bind("should-have", () => { box.open = true; field(form, "arguments").focus(); });
}

// What a reviewer typed and has not sent, kept on this device per review and person: a reload restores it. A text without a
// field, because someone else claimed the review, can be read and copied.

import { resume } from "./correction.js";
import { Store } from "../forms/drafts.js";
import { life } from "../shell/page-life.js";
import { visible } from "../shell/visible-text.js";

/** @typedef {{form: string, at: number, fields: [string, string][]}} Part what one form holds, and since when */

const FORMS = { verdict: "Verdict", correct: "Correction", comment: "Comment" };
const FIELDS = {
  decision: "Decision", met: "Rubric, met", failure_type: "Failure type", confidence: "Confidence", note: "Note", seq: "Step",
  kind: "Kind", name: "Tool", arguments: "Arguments", text: "Message or question", why: "Why", value: "Text",
};

/** @type {Store | null} */
let store = null;
/** @type {Part[]} what has no field on this page */
let rest = [];
/** @type {Map<string, Part>} what is in the fields of each form */
const known = new Map();

const formsHere = () => /** @type {HTMLFormElement[]} */ ([...document.querySelectorAll("form[data-draft]")]);
const fieldsOf = (/** @type {HTMLFormElement} */ form) => /** @type {HTMLInputElement[]} */ ([
  ...form.querySelectorAll('textarea, select, input:not([type="hidden"]), input[name="seq"]'),
]);
const isBox = (/** @type {HTMLInputElement} */ { type }) => type === "checkbox" || type === "radio";
const isCorrection = (/** @type {HTMLFormElement} */ form) => form.dataset.draft === "correct";

/** @param {HTMLFormElement} form */
function isBlank(form) {
  if (isCorrection(form)) return !form.dataset.typed;
  return fieldsOf(form).every((one) => {
    if (isBox(one)) return !one.checked;
    return one instanceof HTMLSelectElement ? one.selectedIndex < 1 : one.type === "hidden" || !one.value;
  });
}

/** Return the content of a form with the time of its last change. @param {HTMLFormElement} form @returns {Part} */
function partOf(form) {
  const { draft: name = "" } = form.dataset;
  const kept = fieldsOf(form).filter((one) => (isBox(one) ? one.checked : one.type !== "hidden" || isCorrection(form)));
  const fields = kept.map((one) => /** @type {[string, string]} */ ([one.name, one.value]));
  const before = known.get(name);
  if (before && JSON.stringify(before.fields) === JSON.stringify(fields)) return before;
  known.set(name, { form: name, at: Date.now(), fields });
  return known.get(name);
}

/** Save the fields on this device. */
function keep() {
  const parts = [...formsHere().filter((form) => !isBlank(form)).map(partOf), ...rest];
  if (parts.length) store?.keep({ at: Date.now(), parts });
  else store?.drop();
}

/** @param {HTMLFormElement} form @param {Part} part */
function put(form, part) {
  for (const one of fieldsOf(form)) {
    const values = part.fields.filter(([name]) => name === one.name).map(([, value]) => value);
    if (isBox(one)) one.checked = values.includes(one.value);
    else if (values.length) one.value = values[0];
  }
  known.set(part.form, part);
  if (isCorrection(form)) resume(form);
  else form.dataset.typed = "1";
}

/** Return the parts that earlier pages left, the newest first, each once. */
function left() {
  /** @type {Part[]} */
  const all = store.all().flatMap(({ parts }) => (Array.isArray(parts) ? parts : []));
  const parts = new Map();
  for (const part of all.sort((a, b) => b.at - a.at)) {
    const said = JSON.stringify([part.form, part.fields]);
    if (!parts.has(said)) parts.set(said, part);
  }
  return [...parts.values()];
}

/** @param {Part} part */
function written({ form, fields }) {
  const lines = fields.filter(([, value]) => value).map(([name, value]) => `${FIELDS[name] || name}: ${value}`);
  return [FORMS[form] || "Label", ...lines].join("\n");
}

function drawRest() {
  const box = /** @type {HTMLElement | null} */ (document.querySelector("[data-kept]"));
  if (!box) return;
  box.hidden = !rest.length;
  box.querySelector("textarea").value = visible(rest.map(written).join("\n\n"));
}

/** Remove what was typed, because the verdict was given with it. */
export function forget() {
  store?.clear();
  store = null;
}

/** Restore what was typed on this review, and save what is typed from now on. */
export function startDrafts() {
  const main = document.getElementById("main");
  const { draftKey: key = "", given } = main.dataset;
  store = null;
  rest = [];
  known.clear();
  try {
    store = new Store(key, localStorage);
  } catch {
    return; // this browser stores nothing
  }
  for (const part of left()) {
    const form = formsHere().find(({ dataset }) => dataset.draft === part.form);
    if (form && !known.has(part.form)) put(form, part);
    else if (part.form !== "verdict" || given === undefined) rest.push(part);
  }
  store.dropOthers();
  keep();
  drawRest();
  for (const kind of ["input", "change"]) main.addEventListener(kind, keep);
  document.addEventListener("awm:said", keep, { signal: life() });
  document.querySelector("[data-kept-discard]")?.addEventListener("click", () => {
    rest = [];
    keep();
    drawRest();
  });
}

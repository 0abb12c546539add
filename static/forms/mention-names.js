// Names of members after an `@`, in every field with `data-mentions`: a list below the field that arrow keys move through,
// Enter or Tab takes from, and Esc closes. Focus stays in the field.

import { announce } from "../shell/toast.js";
import { visible } from "../shell/visible-text.js";

const SHOWN = 6;
const BEGUN = /(?:^|[^\p{L}\p{N}_@.])@([\p{L}\p{N}_.+-]*)$/u;
const LIST = "mention-names";

/** @typedef {{name: string, title: string}} Member */

/** @type {Promise<Member[]> | null} the members, once a field was in use */
let members = null;
/** @type {HTMLTextAreaElement | null} the field whose list is open */
let open = null;

const list = () => document.getElementById(LIST);
const options = () => /** @type {HTMLElement[]} */ ([...(list()?.children || [])]);

/**
 * Return the name that is being typed at the caret, without the sign before it; null if none is.
 * @param {string} text
 * @param {number} caret
 */
export const begunAt = (text, caret) => BEGUN.exec(text.slice(0, caret))?.[1] ?? null;

/**
 * Return the members whose name, or a word of whose full name, begins with these letters.
 * @param {Member[]} all
 * @param {string} letters
 */
export function matching(all, letters) {
  const wanted = letters.toLowerCase();
  return all.filter(({ name, title }) => [name, ...title.split(" ")].some((word) => word.toLowerCase().startsWith(wanted))).slice(0, SHOWN);
}

/** @param {string} address @returns {Promise<Member[]>} */
async function fetchMembers(address) {
  try {
    const answer = await fetch(address, { credentials: "same-origin", headers: { Accept: "application/json" } });
    if (answer.ok) return (await answer.json()).members;
  } catch {
    // without names a field is a plain field; the next focus asks again
  }
  members = null;
  return [];
}

function close() {
  list()?.remove();
  for (const name of ["aria-controls", "aria-activedescendant"]) open?.removeAttribute(name);
  open = null;
}

/** @param {number} at */
function select(at) {
  options().forEach((one, n) => one.setAttribute("aria-selected", String(n === at)));
  open?.setAttribute("aria-activedescendant", options()[at].id);
  options()[at].scrollIntoView({ block: "nearest" });
}

const selected = () => options().findIndex((one) => one.getAttribute("aria-selected") === "true");

/** Put the selected name in place of the typed letters. */
function take() {
  const [field, { name = "" }] = [open, options()[selected()].dataset];
  const { selectionStart: caret, value } = field;
  field.setRangeText(`${name} `, caret - (begunAt(value, caret) || "").length, caret, "end");
  close();
  field.dispatchEvent(new Event("input", { bubbles: true }));
}

/** @param {Member} member @param {number} n */
function optionOf({ name, title }, n) {
  const option = Object.assign(document.createElement("li"), { id: `${LIST}-${n}`, textContent: `@${visible(name)}` });
  option.setAttribute("role", "option");
  option.dataset.name = name;
  if (title !== name) option.append(" ", Object.assign(document.createElement("small"), { textContent: visible(title) }));
  return option;
}

/** @param {HTMLTextAreaElement} field @param {Member[]} found */
function show(field, found) {
  if (open !== field) close();
  const box = list() || Object.assign(document.createElement("ul"), { id: LIST, className: "names" });
  box.setAttribute("role", "listbox");
  box.setAttribute("aria-label", "Members");
  box.replaceChildren(...found.map(optionOf));
  const label = field.closest("label") || field;
  label.after(box);
  box.style.top = `${/** @type {HTMLElement} */ (label).offsetTop + /** @type {HTMLElement} */ (label).offsetHeight}px`;
  box.style.left = `${field.offsetLeft}px`;
  open = field;
  field.setAttribute("aria-controls", LIST);
  announce(`${found.length} ${found.length === 1 ? "member" : "members"}. Arrow keys choose.`);
  select(0);
  box.scrollIntoView({ block: "nearest" });
}

/** @param {HTMLTextAreaElement} field */
async function suggest(field) {
  if (begunAt(field.value, field.selectionStart) === null) return close();
  const all = await (members ??= fetchMembers(field.dataset.mentions));
  const letters = begunAt(field.value, field.selectionStart); // typing went on meanwhile
  const found = letters === null || document.activeElement !== field ? [] : matching(all, letters);
  if (found.length) show(field, found);
  else close();
}

/** @type {Record<string, () => void>} */
const KEYS = {
  ArrowDown: () => select((selected() + 1) % options().length),
  ArrowUp: () => select((selected() + options().length - 1) % options().length),
  Enter: take,
  Tab: take,
  Escape: close,
};

/** @param {KeyboardEvent} event */
function press(event) {
  const { key, ctrlKey, metaKey, altKey, shiftKey, isComposing } = event;
  if (!open || event.target !== open || isComposing || ctrlKey || metaKey || altKey || shiftKey || !KEYS[key]) return;
  event.preventDefault();
  event.stopPropagation(); // Esc would leave the field, arrows the step
  KEYS[key]();
}

/** @param {Event} event */
const fieldOf = ({ target }) => /** @type {HTMLTextAreaElement | null} */ (target instanceof Element ? target.closest("textarea[data-mentions]") : null);

/** Listen once for all fields of the page, also those that come later. */
function start() {
  document.addEventListener("keydown", press, { capture: true });
  document.addEventListener("focusin", (event) => {
    const field = fieldOf(event);
    if (!field) return;
    field.setAttribute("aria-autocomplete", "list");
    field.setAttribute("aria-haspopup", "listbox");
    members ??= fetchMembers(field.dataset.mentions);
  });
  for (const kind of ["input", "click"]) {
    document.addEventListener(kind, (event) => {
      const field = fieldOf(event);
      if (field) suggest(field);
    });
  }
  document.addEventListener("focusout", close);
  document.addEventListener("pointerdown", (event) => {
    if (event.target instanceof Element && event.target.closest(`#${LIST}`)) event.preventDefault(); // the field keeps its focus
  });
  document.addEventListener("click", (event) => {
    const option = event.target instanceof Element ? event.target.closest(`#${LIST} [role=option]`) : null;
    if (!open || !option) return;
    select(options().indexOf(/** @type {HTMLElement} */ (option)));
    take();
  });
}

if (typeof document !== "undefined" && document.body) start();

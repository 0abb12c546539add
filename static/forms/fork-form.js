// The form that forks an episode: the call as fields by the tool's schema, pre-filled with the recorded one. Without scripts the
// arguments are JSON in a text field, which these fields write. The agent wrote the schema and the call: see `schema-form.js`.

import { parseExact, writeExact } from "./exact-json.js";
import { clock } from "../shell/clock.js";
import { grouped } from "../shell/numbers.js";
import { fieldsFor, read, shapeOf, textsIn } from "./schema-form.js";

/**
 * Return the arguments with which a tool's fields begin: the recorded ones of the recorded tool.
 * @param {{name: string, arguments: Record<string, unknown>}} recorded
 * @param {string} name
 * @returns {Record<string, unknown>}
 */
export const beginsWith = (recorded, name) => (recorded.name === name ? recorded.arguments : {});

/**
 * Return what all branches of a fork take together, of something that each takes; unknown for a number that is none.
 * @param {string} each
 * @param {string} tries
 * @param {(total: number) => string} [written]
 */
export const inAll = (each, tries, written = grouped) => (/^[1-9]\d*$/.test(tries.trim()) ? written(2 * Number(tries) * Number(each)) : "?");

/** Return how long work takes, as `people/text/in_words.py` writes it. @param {number} seconds */
export const duration = (seconds) => (seconds >= 1 ? clock(seconds) : "<1\u00a0s");

/** Add up again what all branches take. @param {HTMLFormElement} form */
function startCost(form) {
  const tries = /** @type {HTMLInputElement} */ (form.elements.namedItem("tries"));
  tries.addEventListener("input", () => {
    for (const one of /** @type {NodeListOf<HTMLElement>} */ (form.querySelectorAll("[data-each]"))) {
      one.textContent = inAll(one.dataset.each, tries.value, one.dataset.unit ? duration : grouped);
    }
  });
}

/** @param {HTMLFormElement} form */
function startFork(form) {
  const recorded = parseExact(document.getElementById("fork-call").textContent);
  const tools = new Map(recorded.tools.map((tool) => [tool.name, shapeOf(tool.input_schema)]));
  const [box, fits] = ["[data-fields]", "[data-fits]"].map((one) => /** @type {HTMLElement} */ (form.querySelector(one)));
  const raw = /** @type {HTMLElement} */ (form.querySelector("[data-raw]"));
  const name = /** @type {HTMLSelectElement} */ (form.elements.namedItem("name"));
  const written = /** @type {HTMLTextAreaElement} */ (form.elements.namedItem("arguments"));

  /** @type {Record<string, unknown>} */
  let began = {};
  const write = () => {
    const { arguments: given, problems } = read(textsIn(box), tools.get(name.value), began);
    fits.textContent = problems[0] ? `${problems[0]}.` : "Fits the tool's schema.";
    fits.classList.toggle("bad", problems.length > 0);
    written.value = writeExact(given);
  };
  const draw = (given) => {
    const shape = tools.get(name.value);
    // a call that the fields cannot hold stays JSON
    const fitsFields = shape && Object.keys(given).every((one) => Object.hasOwn(shape.properties, one));
    for (const part of [box, fits]) part.hidden = !fitsFields;
    raw.hidden = Boolean(fitsFields);
    if (!fitsFields) return;
    began = given;
    box.replaceChildren(fieldsFor(shape, given));
    write();
  };
  const show = () => {
    const kind = new FormData(form).get("kind");
    for (const part of /** @type {NodeListOf<HTMLElement>} */ (form.querySelectorAll("[data-kind]"))) part.hidden = part.dataset.kind !== kind;
  };
  const typed = () => {
    try {
      return parseExact(written.value);
    } catch {
      return null; // it was refused as invalid JSON, and stays to be corrected
    }
  };
  const first = typed();
  if (first && typeof first === "object") draw(first);
  show();
  name.addEventListener("change", () => draw(beginsWith(recorded, name.value)));
  box.addEventListener("input", write);
  form.addEventListener("change", show);
}

const form = /** @type {HTMLFormElement | null} */ (globalThis.document?.querySelector("[data-fork-form]"));
if (form) startCost(form);
// a correction has its own action
if (form?.elements.namedItem("name")) startFork(form);

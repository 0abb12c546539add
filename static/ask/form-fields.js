// The fields of a form on the page: nested objects and lists, options by title, checkboxes, dates, and what does not fit at each.
// What is drawn and what the texts say is `../forms/form-plan.js`. The agent wrote names, titles and values: they are set as text.

import { fieldAt, fieldsOf, defaultsOf, isNullAtFirst, keyOf, localOf, nameOf, nullOf, pathOf, planOf, readPlan, textOf, withoutRow, zonedOf } from "../forms/form-plan.js";
import { grow, helpOf, inWords, turnedWords, typeOf } from "../forms/schema-form.js";
import { parseExact, writeExact } from "../forms/exact-json.js";
import { print } from "../shell/keys.js";
import { visible } from "../shell/visible-text.js";
import { filterOf, filterOfLabels, matches, needsFilter } from "./option-filter.js";
import { bindDigits, digitOf, DIGITS, make } from "./part-digits.js";

/** @typedef {import("../forms/form-plan.js").Field} Field */

const DATES = { date: /^\d{4}-\d\d-\d\d$/, time: /^\d\d:\d\d(:\d\d)?$/ };

/** Return the kind of input in which a text can be a date or a time; empty for none. */
function dateInput({ schema }, text) {
  if (typeOf(schema) !== "string") return "";
  if (schema.format === "date-time") return !text || localOf(text) ? "datetime-local" : "";
  const shape = Object.hasOwn(DATES, schema.format ?? "") ? DATES[schema.format] : null;
  return shape && (!text || shape.test(text)) ? schema.format : "";
}

/** Return the text of a control; a time that was not changed is the text that it was. */
function textIn(control) {
  if (control.type !== "datetime-local" || !control.value) return control.value;
  return new Date(control.value).getTime() === new Date(localOf(control.dataset.was || "")).getTime() ? control.dataset.was : zonedOf(control.value);
}

/** Return the control of one value, filled with a text. @param {Field} field @param {string} text */
function controlOf(field, text) {
  const made = field.options ? selectOf(field, text) : field.schema && typedOf(field, text);
  made.dataset.argument = field.key;
  made.setAttribute("aria-required", String(field.required));
  return made;
}

function typedOf(field, text) {
  const kind = dateInput(field, text);
  if (kind) {
    const input = Object.assign(document.createElement("input"), { type: kind }); // without a step no seconds are asked for
    input.value = kind === "datetime-local" ? localOf(text) : text;
    if (text) input.dataset.was = text;
    return input;
  }
  const type = typeOf(field.schema);
  if (type === "integer" || type === "number") return Object.assign(document.createElement("input"), { inputMode: "decimal", value: text, className: "mono" });
  const isJson = type === "array" || type === "object";
  return Object.assign(document.createElement("textarea"), { rows: isJson ? 2 : 1, placeholder: isJson ? (type === "array" ? "[ ]" : "{ }") : "", value: text, dir: "auto", className: isJson ? "mono" : "" });
}

function selectOf(field, text) {
  const select = document.createElement("select");
  const own = field.options.some(({ value }) => inWords(value) === text) || !text ? [] : [{ value: text, title: text }];
  const all = [{ value: "", title: "" }, ...field.options, ...own];
  const fill = (filter) => {
    const { value } = select;
    const left = all.filter(({ value: one, title }) => one === "" || inWords(one) === value || matches(filter, title));
    select.replaceChildren(...left.map(({ value: one, title }) => new Option(visible(title), inWords(one))));
    select.value = value;
    return left.filter(({ value: one, title }) => one !== "" && matches(filter, title));
  };
  fill("");
  select.value = text;
  return Object.assign(select, { fill });
}

function headOf(field, tag) {
  const head = make(tag, "", visible(field.title));
  if (typeof field.path.at(-1) === "number") return head;
  head.append(...(field.required ? [Object.assign(make("b", "req", " *"), { title: "required" })] : [" (optional)"]));
  return head;
}

/** Return the box in which null is chosen. @param {Field} field @param {boolean} isNull */
function nullBox(field, isNull) {
  const label = make("label", "check");
  const input = Object.assign(document.createElement("input"), { type: "checkbox", checked: isNull });
  input.dataset.null = nullOf(field.path);
  label.append(input, " No value");
  return label;
}

/** Draw one field, filled from texts. @param {Field} field @param {Record<string, string> | null} texts */
function draw(field, texts) {
  const text = texts ? texts[field.key] ?? "" : textOf(field);
  const element = field.kind === "leaf" ? leaf(field, text) : field.kind === "many" ? many(field, text) : nested(field, texts);
  element.dataset.key = field.key;
  const help = field.kind === "leaf" && !field.options ? helpOf({ ...field.schema, ...(dateInput(field, text) && { format: undefined }) }) : typeof field.schema.description === "string" ? visible(field.schema.description.slice(0, 300)) : "";
  if (help) element.append(make("small", "", help));
  if (field.nullable) element.append(nullBox(field, texts ? Boolean(texts[nullOf(field.path)]) : isNullAtFirst(field)));
  return element;
}

function leaf(field, text) {
  const control = controlOf(field, text);
  const name = make("label", "f");
  name.append(headOf(field, "span"), control);
  const element = make("div", "formfield");
  if (field.options && needsFilter(field.options.length)) {
    const take = () => { [, select.value] = [...select.options].map(({ value }) => value); select.dispatchEvent(new Event("input", { bubbles: true })); select.focus(); };
    const select = /** @type {any} */ (control);
    element.append(filterOf(field.options.length, (filter) => select.fill(filter).length, take));
  }
  element.prepend(name);
  return element;
}

function many(field, text) {
  const group = make("fieldset", "options sheet nested");
  group.dataset.many = field.key;
  group.append(headOf(field, "legend"));
  const chosen = new Set(text ? parseExact(text).map(inWords) : []);
  const labels = field.options.map(({ value, title }) => {
    const label = /** @type {HTMLLabelElement} */ (make("label", "option part"));
    const words = make("span", "words", visible(title));
    words.dir = "auto";
    label.dataset.words = title;
    label.append(Object.assign(document.createElement("input"), { type: "checkbox", value: inWords(value), checked: chosen.has(inWords(value)) }), words);
    return label;
  });
  group.append(...labels);
  if (!needsFilter(labels.length)) return group;
  group.querySelector("legend").after(filterOfLabels(labels));
  return group;
}

function nested(field, texts) {
  const group = make("fieldset", "nested");
  group.append(headOf(field, "legend"));
  const grid = make("div", field.kind === "list" ? "formrows" : "callgrid");
  for (const part of field.parts) grid.append(field.kind === "list" ? rowOf(part, texts) : draw(part, texts));
  group.append(grid);
  if (field.left) group.append(make("p", "meta", `${field.left} more fields are not shown.`));
  if (field.kind !== "list") return group;
  const add = Object.assign(make("button", "btn sm", `Add to ${visible(field.title)}`), { type: "button", disabled: !field.canAdd });
  add.dataset.addRow = field.key;
  group.append(add);
  return group;
}

function rowOf(part, texts) {
  const row = make("div", "formrow");
  row.dataset.row = part.key;
  const remove = Object.assign(make("button", "btn quiet sm", "Remove"), { type: "button" });
  remove.setAttribute("aria-label", `Remove row ${part.title}`);
  row.append(draw(part, texts), remove);
  return row;
}

/** The fields of a form, as the typed part of an answer. */
export class Form {
  /**
   * @param {HTMLElement} box
   * @param {{response_schema?: object}} typed
   * @param {() => void} changed
   */
  constructor(box, typed, changed) {
    this.schema = typed.response_schema;
    this.box = make("section", "callcard part");
    this.changed = changed;
    /** @type {Map<string, {words: string, text: string}>} what the server refused, as long as its text stays */
    this.blamed = new Map();
    this.tried = false;
    this.bad = 0; // fields with a part of a date
    box.append(this.box);
    this.box.addEventListener("input", () => { this.#mark(); changed(); });
    this.box.addEventListener("keyup", () => { // a part of a date is no input for the browser
      const bad = [...this.box.querySelectorAll("input[data-argument]")].filter((input) => /** @type {HTMLInputElement} */ (input).validity.badInput).length;
      if (bad === this.bad) return;
      this.bad = bad;
      this.#mark();
      changed();
    });
    this.box.addEventListener("click", ({ target }) => {
      if (!(target instanceof HTMLElement)) return;
      if (target.dataset.addRow) this.#add(pathOf(target.dataset.addRow));
      else if (target.matches(".formrow>button")) this.#remove(pathOf(target.parentElement.dataset.row));
    });
    this.restore({});
    bindDigits((place) => this.#controls()[place], (control) => control.focus());
  }

  #controls() {
    return /** @type {HTMLElement[]} */ ([...this.box.querySelectorAll("[data-argument], [data-many] .option:first-of-type input")]);
  }

  #texts() {
    /** @type {Record<string, string>} */
    const texts = {};
    for (const one of /** @type {NodeListOf<HTMLElement>} */ (this.box.querySelectorAll("[data-argument], [data-many], [data-null], [data-row]"))) {
      const { argument, many: key, null: nothing, row } = one.dataset;
      if (argument) texts[argument] = textIn(one);
      else if (key) texts[key] = this.#chosen(one, key);
      else if (nothing) Object.assign(texts, /** @type {HTMLInputElement} */ (one).checked ? { [nothing]: "1" } : {});
      else texts[row] ??= "";
    }
    return texts;
  }

  #chosen(group, key) {
    const words = new Set([...group.querySelectorAll("input:checked")].map((input) => /** @type {HTMLInputElement} */ (input).value));
    const values = fieldAt(this.plan, pathOf(key)).options.map(({ value }) => value).filter((value) => words.has(inWords(value)));
    return values.length ? writeExact(values) : "";
  }

  /** Draw the form again, with the rows that its texts have. */
  #draw(texts) {
    this.plan = planOf(this.schema, this.begunWith, texts);
    const grid = make("div", "callgrid");
    for (const part of this.plan.parts) grid.append(draw(part, texts));
    if (!this.plan.parts.length) grid.append("This form has no fields.");
    if (this.plan.left) grid.append(`${this.plan.left} more fields are not shown.`);
    this.box.replaceChildren(grid);
    for (const [number, control] of this.#controls().slice(0, DIGITS.length).entries()) {
      control.closest("[data-key]").querySelector("span, legend").append(" ", digitOf(number + 1, "not-s"));
    }
    this.#mark();
    print();
  }

  /** @param {import("../forms/form-plan.js").Path} list */
  #add(list) {
    const row = [...list, fieldAt(this.plan, list).parts.length];
    this.#draw({ ...this.#texts(), [keyOf(row)]: "" });
    /** @type {HTMLElement} */ (this.#elementOf(keyOf(row)).querySelector("[data-argument], input"))?.focus();
    this.changed();
  }

  #remove(row) {
    const left = withoutRow(this.#texts(), this.begunWith, row);
    this.begunWith = left.begun;
    if (Object.keys(left.begun).length) this.value = left.begun; // kept with the draft: rows and values stay side by side
    this.#draw(left.texts);
    /** @type {HTMLElement} */ (this.#elementOf(keyOf(row.slice(0, -1))).querySelector(":scope>[data-add-row]")).focus();
    this.changed();
  }

  /** Return the value of the fields and why some don't fit. A date of which a part is typed has no text, and is no empty one. */
  #read() {
    const { value, reasons } = readPlan(this.plan, this.#texts());
    for (const input of /** @type {NodeListOf<HTMLInputElement>} */ (this.box.querySelectorAll("input[data-argument]"))) {
      if (input.validity.badInput) reasons.set(input.dataset.argument, "is not complete");
    }
    return { value, reasons };
  }

  #elementOf(key) {
    return /** @type {HTMLElement[]} */ ([...this.box.querySelectorAll("[data-key]")]).find((one) => one.dataset.key === key) || this.box;
  }

  /** Show at every field what does not fit, once it was tried, and what draws nothing or is null. */
  #mark() {
    const texts = this.#texts();
    const { reasons } = this.#read();
    for (const element of /** @type {NodeListOf<HTMLElement>} */ (this.box.querySelectorAll("[data-key]"))) {
      const { key } = element.dataset;
      const blamed = this.blamed.get(key);
      if (blamed && (blamed.text ?? "") !== (texts[key] ?? "")) this.blamed.delete(key);
      const why = (this.tried && reasons.get(key)) || this.blamed.get(key)?.words || "";
      const control = /** @type {HTMLInputElement} */ (element.querySelector(":scope>label>[data-argument]"));
      const turned = control ? turnedWords(control.value) : "";
      sayAt(element, why ? `${visible(fieldAt(this.plan, pathOf(key)).title)} ${why}` : turned);
      element.querySelector(":scope [data-argument], :scope input")?.setAttribute("aria-invalid", String(Boolean(why)));
      const nothing = /** @type {HTMLInputElement} */ (element.querySelector(":scope>.check>[data-null]"));
      if (control) control.disabled = Boolean(nothing?.checked);
      if (control instanceof HTMLTextAreaElement) grow(control);
    }
  }

  /** @returns {{texts: Record<string, string>, value?: Record<string, unknown>} | null} */
  draft() {
    const texts = this.#texts();
    return writeExact(texts) === writeExact(this.begun) ? null : { texts, ...(Object.keys(this.value).length ? { value: this.value } : {}) };
  }

  restore({ texts = null, value = {} }) {
    this.value = value;
    this.begunWith = Object.keys(value).length ? value : defaultsOf(this.schema);
    this.#draw(texts);
    if (!texts) this.begun = this.#texts();
  }

  read() {
    const { value, reasons } = this.#read();
    const [[key, why] = ["", ""]] = reasons;
    const size = new Set([...reasons.keys(), ...this.blamed.keys()]).size;
    const more = size > 1 ? `; ${size - 1} more ${size > 2 ? "fields don't" : "field doesn't"} fit` : "";
    return { decision: { value }, problem: why ? `${nameOf(this.plan, pathOf(key))} ${why}${more}.` : "" };
  }

  /** Show all that does not fit, from now on. */
  showWrong() {
    this.tried = true;
    this.#mark();
  }

  /** Return the first field that does not fit, else the first one. @returns {HTMLElement | undefined} */
  wrong() {
    const { reasons } = this.#read();
    const first = fieldsOf(this.plan).find(({ key }) => reasons.has(key) || this.blamed.has(key));
    const element = first && this.#elementOf(first.key);
    return /** @type {HTMLElement} */ (element?.querySelector("[data-argument], input, button")) || this.#controls()[0];
  }

  /**
   * Show what the server refuses now at its fields.
   * @param {{path: (string | number)[], words: string}[]} places
   */
  blame(places) {
    const texts = this.#texts();
    this.blamed.clear();
    for (const { path, words } of places) {
      const { key, path: at } = fieldAt(this.plan, path);
      const rest = path.slice(at.length).join(" › ");
      this.blamed.set(key, { words: visible(rest ? `${rest} ${words}` : words), text: texts[key] });
    }
    this.#mark();
  }
}

/** @param {HTMLElement} element @param {string} words */
function sayAt(element, words) {
  let wrong = /** @type {HTMLElement} */ (element.querySelector(":scope>[data-wrong]"));
  if (!wrong && !words) return;
  if (!wrong) {
    wrong = make("small", "bad");
    wrong.dataset.wrong = "";
    element.append(wrong);
  }
  wrong.textContent = words;
  wrong.hidden = !words;
}

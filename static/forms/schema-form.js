// A form made from a tool's JSON Schema: one call of one tool, its arguments as fields, checked while a person types.
// Pure functions first (tested under Node), then the elements. Owns the hidden field with the calls as JSON.
// The agent wrote the schema: only a bounded part of it is read, and its texts are cleaned before they are shown.

import { visible } from "../shell/visible-text.js";
import { compared, entriesOf, isNumber, ordered, parseExact, unfixed, writeExact } from "./exact-json.js";

const ARGUMENTS = 100;
const CHOICES = 500; // above this number a value is typed, not chosen
const WORDS = 300;
const ROWS = 12;
const KNOWN = new Set(["string", "integer", "number", "boolean", "array", "object"]);

/**
 * The part of a JSON Schema that is read. The agent wrote it, so any of it can be missing or have another type.
 * @typedef {{type?: any, enum?: any[], anyOf?: any, oneOf?: any, items?: any, properties?: any, required?: any,
 *   description?: any, title?: any, default?: any, [more: string]: any}} Schema
 */

const listOf = (value) => (Array.isArray(value) ? value : []);

/** Return the types that a schema lets pass, in its order. @param {Schema} schema */
export function typesOf(schema) {
  const forms = listOf(schema.anyOf || schema.oneOf).slice(0, ARGUMENTS);
  const options = [schema.type, ...forms.map((one) => one?.type)].flatMap((type) => (Array.isArray(type) ? type.slice(0, ARGUMENTS) : type));
  return options.filter((type) => KNOWN.has(type));
}

/**
 * Return the type of a field; of a union the first that is not null.
 * @param {Schema} [schema]
 */
export const typeOf = (schema = {}) => (Array.isArray(schema.enum) ? "enum" : typesOf(schema)[0] || "string");

/** Return the types that a value has. */
const typesOfValue = (value) => (isNumber(value) ? ["integer", "number"] : [Array.isArray(value) ? "array" : typeof value]);

/** Return a choice as the form shows and sends it. */
export const inWords = (one) => (typeof one === "string" ? one : writeExact(one));

const withLineEnds = (text) => text.replace(/\r\n?/g, "\n");

/** Return whether a field has the text of a value: no one touched it. A field ends its lines with one line feed. */
export const isTextOf = (text, value) => withLineEnds(text) === withLineEnds(inWords(value));

/**
 * Return the value of a field's text; `undefined` leaves the argument out. Throw an error with words for people.
 * A field that began with a value keeps it until its text is another one, and then its type, if that fits.
 * @param {string} text
 * @param {Schema} [schema]
 * @param {unknown} [began]
 */
export function valueOf(text, schema = {}, began) {
  if (began !== undefined && isTextOf(text, began)) return began;
  const like = Array.isArray(schema.enum) ? undefined : typesOf(schema).find((type) => typesOfValue(began).includes(type));
  try {
    return valueAs(text, like || typeOf(schema), schema);
  } catch (error) {
    if (!like || like === typeOf(schema)) throw error;
    return valueAs(text, typeOf(schema), schema);
  }
}

function valueAs(text, type, schema) {
  if (type === "enum") return choiceOf(text, schema.enum);
  if (type === "string") return text === "" ? undefined : text;
  if (text.trim() === "") return undefined;
  if (type === "boolean") return text === "true" || (text === "false" ? false : refuse("true or false"));
  if (type === "integer" || type === "number") return numberOf(text.trim(), type);
  try {
    return parseExact(text, { fixed: true });
  } catch (error) {
    throw new Error(`JSON (${type}): ${error.message}`);
  }
}

const refuse = (words) => { throw new Error(words); };

/** Return a typed number digit by digit. */
function numberOf(text, type) {
  if (type === "integer" && !/^-?(0|[1-9]\d*)(\.0+)?$/.test(text)) throw new Error(/^-?0\d+$/.test(text) ? "a whole number without zeros before it" : "a whole number");
  if (!/^-?(0|[1-9]\d*)(\.\d+)?(e[+-]?\d+)?$/i.test(text)) throw new Error("a number, such as 0.5");
  const why = unfixed(text);
  if (why) throw new Error(`a number that can be sent: ${why}`);
  return parseExact(text);
}

function choiceOf(text, choices) {
  if (text === "") return undefined;
  const at = choices.findIndex((one) => inWords(one) === text);
  if (at < 0) throw new Error(`one of its ${choices.length} choices`);
  return choices[at];
}

const limitOf = (schema, name) => (isNumber(schema[name]) ? schema[name] : undefined);
const sizeOf = (schema, name) => Number(limitOf(schema, name) ?? NaN); // compares as false without a limit

/**
 * Return why a value of the right type does not fit, or nothing. The environment checks patterns.
 * @param {unknown} value
 * @param {Schema} [schema]
 */
export function misfit(value, schema = {}) {
  const [low, high] = [limitOf(schema, "minimum"), limitOf(schema, "maximum")];
  if (isNumber(value) && low !== undefined && compared(value, low) < 0) return `at least ${low}`;
  if (isNumber(value) && high !== undefined && compared(value, high) > 0) return `at most ${high}`;
  const [short, long] = [sizeOf(schema, "minLength"), sizeOf(schema, "maxLength")];
  if (typeof value === "string" && [...value].length < short) return `at least ${short} characters long`;
  if (typeof value === "string" && [...value].length > long) return `at most ${long} characters long`;
  if (Array.isArray(value) && sizeOf(schema, "minItems") > value.length) return `a list of at least ${schema.minItems}`;
  return "";
}

const FORMATS = { date: "date, such as 2026-11-27", "date-time": "time, such as 2026-11-27T09:00:00Z", email: "mail address" };
const TYPES = { integer: "whole number", number: "number", array: "JSON list", object: "JSON object", boolean: "true or false" };

/**
 * Return a field's help in one line: the tool's words, the type, limits and the default.
 * @param {Schema} [schema]
 */
export function helpOf(schema = {}) {
  const [low, high] = [limitOf(schema, "minimum"), limitOf(schema, "maximum")];
  const range = low !== undefined && high !== undefined ? `${low} to ${high}` : low !== undefined ? `from ${low}` : high !== undefined ? `to ${high}` : "";
  const standard = schema.default !== undefined && schema.default !== null ? `else ${writeExact(schema.default).slice(0, WORDS)}` : "";
  const described = typeof schema.description === "string" ? schema.description.slice(0, WORDS).replace(/\.$/, "") : "";
  const parts = [described, TYPES[typeOf(schema)] || "", range, own(FORMATS, schema.format) || schema.format || "", standard];
  return parts.filter((one) => one && typeof one === "string").map(visible).join("; ");
}

/**
 * Return `{arguments, problems, wrong, reasons}` of the texts by argument; problems name the argument and what is wanted, `wrong`
 * is the first argument with one, and `reasons` has each by its argument. An argument whose text is still that of the value that it began with is that value.
 * @param {Record<string, string>} texts
 * @param {Schema} [schema]
 * @param {Record<string, unknown>} [began]
 */
export function read(texts, schema = {}, began = {}) {
  const [given, problems, required] = [[], [], new Set(listOf(schema.required))];
  /** @type {string | undefined} */
  let wrong;
  /** @type {Map<string, string>} */
  const reasons = new Map();
  for (const [name, one] of entriesOf(schema.properties || {})) {
    const before = problems.length;
    try {
      const value = valueOf(own(texts, name) ?? "", one, own(began, name));
      const why = value === undefined ? "" : misfit(value, one);
      if (why) problems.push(`${visible(name)} must be ${why}`);
      if (value !== undefined) given.push([name, value]);
      else if (required.has(name)) problems.push(`${visible(name)} is missing`);
    } catch (error) {
      problems.push(`${visible(name)} must be ${error.message}`);
    }
    if (problems.length > before) {
      wrong ??= name;
      reasons.set(name, problems[before]);
    }
  }
  return { arguments: ordered(given), problems, wrong, reasons };
}

/** Return a value by a name that the agent chose: `constructor` counts only if it was given. */
const own = (values, name) => (Object.hasOwn(values, name) ? values[name] : undefined);

/**
 * Return the one tool that a person typed, or words on why there is none: a whole name, or a part that one name has. Names
 * are compared as they are shown.
 * @param {string} typed
 * @param {string[]} names
 */
export function chosen(typed, names) {
  const part = typed.trim().toLowerCase();
  if (!part) return { name: "", words: "Enter part of a tool name." };
  const shown = new Map(names.map((name) => [name, visible(name).toLowerCase()]));
  const whole = names.find((name) => shown.get(name) === part);
  const found = whole ? [whole] : names.filter((name) => shown.get(name).includes(part));
  if (found.length === 1) return { name: found[0], words: "" };
  if (!found.length) return { name: "", words: `No tool name contains "${visible(typed.trim())}".` };
  return { name: "", words: `${found.length} tools match: ${found.slice(0, 6).map(visible).join(", ")}${found.length > 6 ? " and more" : ""}.` };
}

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/**
 * Return the part of a schema that the form shows. What should be an object or a list counts as empty if it is neither.
 * Of many arguments the required ones come first. `left` are those without a field.
 */
export function shapeOf(schema) {
  const all = entriesOf(isObject(schema?.properties) ? schema.properties : {});
  const needed = new Set(listOf(schema?.required));
  const some = all.length > ARGUMENTS ? [...all].sort(([one], [other]) => Number(needed.has(other)) - Number(needed.has(one))).slice(0, ARGUMENTS) : all;
  return {
    properties: ordered(some.map(([name, one]) => [name, isObject(one) ? one : {}])),
    required: some.map(([name]) => name).filter((name) => needed.has(name)),
    left: all.length - some.length,
  };
}

function field(name, schema, required, value) {
  const label = document.createElement("label");
  label.className = "f";
  const words = document.createElement("span");
  words.textContent = visible(name) + (required ? "" : " (optional)");
  label.append(words, control(name, schema, value));
  const help = helpOf(schema);
  if (help) {
    const hint = document.createElement("small");
    hint.textContent = help;
    label.append(hint);
  }
  const warning = document.createElement("small");
  warning.className = "bad";
  warning.dataset.turned = "";
  warning.hidden = true;
  label.append(warning);
  return label;
}

/** Return a warning if a text does not look as it will be sent: a field shows control characters as they are. */
export function turnedWords(text) {
  const codes = visible(text);
  return codes === text ? "" : `holds characters that draw nothing or turn lines around: ${codes.slice(0, WORDS)}`;
}

/** Return the control of an argument; it can hold the value that it begins with, whether the schema allows it or not. */
function control(name, schema, value) {
  const type = typeOf(schema);
  if (type === "boolean" || (type === "enum" && schema.enum.length <= CHOICES)) {
    const select = document.createElement("select");
    const choices = type === "boolean" ? [true, false] : schema.enum;
    const beside = value === undefined || value === "" || choices.some((one) => inWords(one) === inWords(value)) ? [] : [value];
    for (const one of ["", ...choices, ...beside]) select.append(new Option(visible(inWords(one)), inWords(one)));
    return named(select, name);
  }
  if (type === "object" || type === "array") {
    const area = document.createElement("textarea");
    area.rows = 2;
    area.placeholder = type === "array" ? "[ ]" : "{ }";
    return named(area, name);
  }
  if (type === "string" || type === "enum" || /[\r\n]/.test(inWords(value ?? ""))) {
    const area = document.createElement("textarea"); // an input drops line breaks
    area.rows = 1;
    return named(area, name);
  }
  const input = document.createElement("input");
  input.inputMode = "decimal";
  return named(input, name);
}

/** Give a field as many rows as its text has lines. */
export function grow(field_) {
  if (field_ instanceof HTMLTextAreaElement) field_.rows = Math.min(ROWS, Math.max(Number(field_.dataset.rows ||= String(field_.rows)), field_.value.split("\n").length));
}

function warn(label) {
  const [warning, words] = [label.querySelector("[data-turned]"), turnedWords(label.querySelector("[data-argument]").value)];
  if (warning.textContent !== words) warning.textContent = words;
  warning.hidden = !words;
}

function named(control_, name) {
  control_.className = "mono";
  control_.dataset.argument = name;
  return control_;
}

/**
 * Return the fields of a shape (`shapeOf`), filled with what is given.
 * @param {{properties: Record<string, Schema>, required: string[], left: number}} shape
 * @param {Record<string, unknown>} given
 * @param {string} [without] words for a shape without fields
 */
export function fieldsFor(shape, given, without = "This tool takes no arguments.") {
  const grid = document.createElement("div");
  grid.className = "callgrid";
  for (const [argument, one] of entriesOf(shape.properties)) {
    const value = own(given, argument);
    const label = field(argument, one, shape.required.includes(argument), value);
    /** @type {HTMLInputElement} */
    const input = label.querySelector("[data-argument]");
    if (value !== undefined) input.value = inWords(value);
    grid.append(label);
  }
  if (!grid.children.length) grid.append(without);
  if (shape.left) grid.append(`${shape.left} more arguments are not shown.`);
  return grid;
}

/**
 * Return the texts of the fields in an element by argument; warnings and heights follow them.
 * @param {Element} box
 */
export function textsIn(box) {
  /** @type {Record<string, string>} */
  const texts = {};
  for (const one of /** @type {NodeListOf<HTMLInputElement>} */ (box.querySelectorAll("[data-argument]"))) texts[one.dataset.argument] = one.value;
  for (const label of box.querySelectorAll("label.f:has([data-argument])")) warn(label);
  for (const one of box.querySelectorAll("textarea[data-argument]")) grow(one);
  return texts;
}

/**
 * Return the field of an argument, or the first one.
 * @param {Element} box
 * @param {string} [name]
 */
export function fieldIn(box, name) {
  const all = /** @type {NodeListOf<HTMLInputElement>} */ (box.querySelectorAll("[data-argument]"));
  return [...all].find((one) => one.dataset.argument === name) || all[0];
}

/**
 * Return what a draft keeps of the fields of a call: texts digit by digit, and values that no one touched, unless they are texts.
 * @param {Record<string, string>} texts
 * @param {Record<string, any>} began
 */
export const draftOf = (texts, began) => ordered(Object.entries(texts).filter(([, text]) => text !== "").map(([name, text]) => {
  const value = own(began, name);
  return [name, value !== undefined && isTextOf(text, value) ? value : text];
}));

/** The builder: `box` shows calls, `tools` are `{name, input_schema}`, `onChange(calls, problems)` receives every change. */
export class CallBuilder {
  constructor(box, tools, onChange) {
    this.box = box;
    this.tools = new Map(tools.map((tool) => [tool.name, shapeOf(tool.input_schema)]));
    this.onChange = onChange;
    /** @type {WeakMap<Element, Record<string, any>>} the values that a card began with */
    this.began = new WeakMap();
    /** @type {WeakMap<Element, Map<string, {words: string, text: string}>>} what the server refused in a card, as long as its text stays */
    this.blamed = new WeakMap();
    box.addEventListener("input", () => this.changed());
    box.addEventListener("click", (event) => {
      if (!(event.target instanceof Element) || !event.target.closest("[data-remove]")) return;
      event.target.closest("[data-call]").remove();
      this.changed();
    });
  }

  /**
   * @param {string} name
   * @param {Record<string, any>} [given]
   * @param {Record<string, any>} [began] those of `given` that are values; the others are texts that a person typed
   */
  add(name, given = {}, began = given) {
    const schema = this.tools.get(name);
    if (!schema) return;
    const card = document.createElement("div");
    card.className = "part callform";
    card.dataset.call = name;
    this.began.set(card, began);
    const head = document.createElement("div");
    head.className = "row";
    const title = document.createElement("b");
    title.className = "mono";
    title.textContent = visible(name);
    const fits = document.createElement("span");
    fits.className = "chip push";
    fits.dataset.fits = "";
    const remove = document.createElement("button");
    Object.assign(remove, { type: "button", className: "btn quiet sm", textContent: "Remove" });
    remove.setAttribute("aria-label", `Remove the call to ${visible(name)}`);
    remove.dataset.remove = "";
    head.append(title, fits, remove);
    card.append(head);
    card.append(fieldsFor(schema, given));
    this.box.append(card);
    this.changed();
    return card;
  }

  read() {
    const cards = [...this.box.querySelectorAll("[data-call]")];
    return cards.map((card) => {
      const texts = textsIn(card);
      const began = this.began.get(card);
      const { arguments: given, reasons } = read(texts, this.tools.get(card.dataset.call), began);
      for (const [name, { words, text }] of this.blamed.get(card) || []) if (texts[name] === text && !reasons.has(name)) reasons.set(name, words);
      const [problems, [wrong]] = [[...reasons.values()], reasons.keys()];
      const fits = card.querySelector("[data-fits]");
      fits.textContent = problems.join("; ") || "fits the tool's schema";
      fits.classList.toggle("good", !problems.length);
      fits.classList.toggle("bad", problems.length > 0);
      return { name: card.dataset.call, arguments: given, problems, texts, began, at: problems.length ? fieldIn(card, wrong) : undefined };
    });
  }

  /**
   * Show what the server refuses now, each in its card, and return the first field that does not fit.
   * @param {{call: string, path: (string | number)[], said: string}[]} places
   */
  blame(places) {
    const cards = [...this.box.querySelectorAll("[data-call]")];
    this.blamed = new WeakMap();
    for (const { call, path, said } of places) {
      const [card, name] = [cards[Number(call)], String(path[0] ?? "")];
      if (!card) continue;
      if (!this.blamed.has(card)) this.blamed.set(card, new Map());
      this.blamed.get(card).set(name, { words: visible(said), text: textsIn(card)[name] });
    }
    this.changed();
    return this.read().find(({ at }) => at)?.at;
  }

  /** Return the calls as typed, valid or not, for the draft. */
  texts() {
    return this.read().map(({ name, texts, began }) => ({ name, arguments: draftOf(texts, began) }));
  }

  changed() {
    const calls = this.read();
    this.onChange(calls.map(({ name, arguments: given }) => ({ name, arguments: given })), calls.flatMap((call) => call.problems));
  }

  restore(calls) {
    this.box.replaceChildren();
    for (const { name, arguments: given = {} } of calls) this.add(name, given, ordered(entriesOf(given).filter(([, value]) => typeof value !== "string")));
    this.changed();
  }
}

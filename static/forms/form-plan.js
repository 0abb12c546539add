// A form's schema as a tree of fields, and the value that their texts say. Pure; the elements are in `../ask/form-fields.js`.
// The agent wrote the schema: only a bounded part of it is drawn, and the rest is a field of JSON. The server checks everything again.
//
// A draft keeps one text for each field by its key: the name of a field, or below another one its path as JSON. A path that ends
// with null says that the field is null. A value that no one touched stays the value that it was.

import { entriesOf, isNumber, ordered, parseExact, writeExact } from "./exact-json.js";
import { inWords, isTextOf, misfit, typeOf, typesOf, valueOf } from "./schema-form.js";
import { visible } from "../shell/visible-text.js";

const [FIELDS, DEPTH, ROWS, HOPS] = [100, 8, 100, 40];
export const OPTIONS = 50; // above this number several options are rows, not checkboxes
const UNIONS = ["anyOf", "oneOf"];

/**
 * @typedef {import("./schema-form.js").Schema} Schema
 * @typedef {(string | number | null)[]} Path
 * @typedef {{value: any, title: string}} Option
 * @typedef {{kind: "object" | "list" | "many" | "leaf", path: Path, key: string, title: string, required: boolean, nullable: boolean, schema: Schema,
 *   options?: Option[], parts?: Field[], begun: any, left?: number, canAdd?: boolean}} Field
 */

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value) && !isNumber(value);
const own = (values, name) => (values !== null && typeof values === "object" && Object.hasOwn(values, name) ? values[name] : undefined);
const listOf = (value) => (Array.isArray(value) ? value : []);

/** Return the key of a path. @param {Path} path */
export const keyOf = (path) => (path.length === 1 && typeof path[0] === "string" && !path[0].startsWith("[") ? path[0] : JSON.stringify(path));

/** Return the path of a key; the name of a field in a draft of an earlier version is one, too. @param {string} key @returns {Path} */
export function pathOf(key) {
  if (!key.startsWith("[")) return [key];
  try {
    return parseExact(key);
  } catch {
    return [key];
  }
}

/** Return the key that says that a field is null. @param {Path} path */
export const nullOf = (path) => JSON.stringify([...path, null]);

/** Return a schema without references, which name places of the same document. @param {any} schema @param {any} root @returns {Schema} */
export function followed(schema, root) {
  let made = {};
  for (let hop = 0, at = schema; hop < HOPS && isObject(at); hop += 1) {
    const { $ref: ref, ...rest } = at;
    made = { ...rest, ...made };
    if (typeof ref !== "string" || !ref.startsWith("#")) break;
    at = ref.slice(2).split("/").filter(Boolean).reduce((inner, part) => own(inner, plainOf(part).replaceAll("~1", "/").replaceAll("~0", "~")), root);
  }
  return made;
}

/** @param {string} part */
function plainOf(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // a sign of its own
  }
}

/** Return the options that a schema names, with titles; none if it is no list of values. @param {Schema} schema @returns {Option[]} */
function optionsOf(schema) {
  if (Array.isArray(schema.enum)) return schema.enum.map((value, at) => ({ value, title: titleOf(listOf(schema.enumNames)[at], value) }));
  if (Object.hasOwn(schema, "const")) return [{ value: schema.const, title: titleOf(schema.title, schema.const) }];
  return schema.type === "null" ? [{ value: null, title: "No value" }] : [];
}

const titleOf = (title, value) => (typeof title === "string" && title ? title : value === null ? "No value" : inWords(value));

/**
 * Return a schema as it is drawn: references followed, a union of values as options, and a union with null as what else it is.
 * @param {any} schema
 * @param {any} root
 * @returns {{schema: Schema, options: Option[], nullable: boolean}}
 */
export function drawn(schema, root) {
  let made = followed(schema, root);
  if (listOf(made.allOf).length === 1) made = { ...followed(made.allOf[0], root), ...made, allOf: undefined };
  const union = UNIONS.find((name) => Array.isArray(made[name]));
  const parts = union ? made[union].slice(0, 500).map((part) => followed(part, root)) : [];
  const named = parts.map(optionsOf);
  if (parts.length && named.every((some) => some.length)) return { schema: made, options: named.flat(), nullable: false };
  const others = parts.filter((part) => part.type !== "null");
  if (parts.length && others.length === 1) made = { ...others[0], ...made, [union]: undefined };
  const nullable = others.length < parts.length || listOf(made.type).includes("null");
  const options = optionsOf(made);
  if (!options.length && typeOf(made) === "boolean" && typesOf(made).length === 1) options.push({ value: true, title: "Yes" }, { value: false, title: "No" });
  if (options.length && nullable && options.every(({ value }) => value !== null)) options.push({ value: null, title: "No value" });
  return { schema: made, options, nullable: nullable && !options.length };
}

/** Return how many rows the lists of a draft have, by the key of each list. @param {Record<string, string>} texts */
function rowsOf(texts) {
  /** @type {Map<string, number>} */
  const rows = new Map();
  for (const path of Object.keys(texts).map(pathOf)) {
    path.forEach((part, at) => {
      const key = keyOf(path.slice(0, at));
      if (typeof part === "number" && at) rows.set(key, Math.max(rows.get(key) || 0, part + 1));
    });
  }
  return rows;
}

/** Return what a form begins with where nothing was decided: the defaults of its fields. @param {any} schema @param {any} root */
export function defaultsOf(schema, root = schema, depth = 0) {
  const { schema: made } = drawn(schema, root);
  const needed = new Set(listOf(made.required));
  const begun = [];
  for (const [name, part] of entriesOf(isObject(made.properties) ? made.properties : {}).slice(0, FIELDS)) {
    const { schema: field } = drawn(part, root);
    if (field.default !== undefined) begun.push([name, field.default]);
    else if (needed.has(name) && isObject(field.properties) && depth < DEPTH) {
      const inner = defaultsOf(part, root, depth + 1);
      if (Object.keys(inner).length) begun.push([name, inner]);
    }
  }
  return ordered(begun);
}

/**
 * Return the tree of a form's fields.
 * @param {any} schema
 * @param {any} begun the value that the form begins with
 * @param {Record<string, string> | null} [texts] of a draft, whose rows count
 * @returns {Field}
 */
export function planOf(schema, begun, texts = null) {
  const [rows, room] = [texts && rowsOf(texts), { left: FIELDS }];
  /** @param {any} part @param {Path} path @param {{required: boolean, was: any, depth: number}} how @returns {Field} */
  const field = (part, path, { required, was, depth }) => {
    const { schema: made, options, nullable } = drawn(part, schema);
    const name = path.at(-1);
    const title = typeof made.title === "string" && made.title && typeof name !== "number" ? made.title : typeof name === "number" ? `${name + 1}` : String(name ?? "");
    const base = { path, key: keyOf(path), title, required, nullable, schema: made, begun: was };
    const isFree = was === undefined || was === null;
    if (!options.length && depth < DEPTH && isObject(made.properties) && !listOf(made.anyOf || made.oneOf).length && (isFree || isObject(was))) {
      const [parts, left] = fields(made, path, was, depth);
      return { ...base, kind: "object", parts, left };
    }
    if (typeOf(made) === "array" && !options.length && isObject(made.items) && !made.prefixItems && (isFree || Array.isArray(was))) {
      const { options: many } = drawn(made.items, schema);
      const kept = listOf(was).map(inWords);
      const fits = new Set(kept).size === kept.length && kept.every((one) => many.some(({ value }) => inWords(value) === one));
      if (many.length && many.length <= OPTIONS && fits) return { ...base, kind: "many", options: many };
      if (depth < DEPTH) {
        const count = Math.min(rows?.get(base.key) ?? (texts ? 0 : was?.length ?? (required ? Number(made.minItems) || 0 : 0)), ROWS);
        const parts = Array.from({ length: count }, (_, at) => field(made.items, [...path, at], { required: true, was: own(was, at), depth: depth + 1 }));
        return { ...base, kind: "list", parts, canAdd: count < Math.min(Number(made.maxItems ?? ROWS), ROWS) };
      }
    }
    return { ...base, kind: "leaf", ...(options.length ? { options } : {}) };
  };
  /** @returns {[Field[], number]} */
  const fields = (made, path, was, depth) => {
    const needed = new Set(listOf(made.required));
    const named = entriesOf(made.properties);
    const beside = entriesOf(was || {}).filter(([name]) => !Object.hasOwn(made.properties, name)).map(([name, value]) => [name, likeValue(value)]);
    const all = [...named, ...beside];
    const some = all.length > room.left ? [...all].sort(([one], [other]) => Number(needed.has(other)) - Number(needed.has(one))).slice(0, Math.max(0, room.left)) : all;
    room.left -= some.length;
    return [some.map(([name, part]) => field(part, [...path, name], { required: needed.has(name), was: own(was, name), depth: depth + 1 })), all.length - some.length];
  };
  const root = followed(schema, schema);
  const [parts, left] = fields({ ...root, properties: isObject(root.properties) ? root.properties : {} }, [], begun, 0);
  return { kind: "object", path: [], key: "", title: "", required: true, nullable: false, schema: root, begun, parts, left };
}

/** Return the schema of a value that no schema names. */
const likeValue = (value) => ({ type: Array.isArray(value) ? "array" : isNumber(value) ? "number" : isObject(value) ? "object" : typeof value === "boolean" ? "boolean" : "string" });

/** Return the text that a field begins with. @param {Field} field */
export function textOf({ kind, begun }) {
  if (begun === undefined || begun === null) return "";
  return kind === "many" ? writeExact(begun) : inWords(begun);
}

/** Return whether a field begins as null. @param {Field} field */
export const isNullAtFirst = ({ nullable, begun }) => nullable && begun === null;

/**
 * Return the value of a form's texts and why some fields don't fit, by key, in the order of the fields.
 * @param {Field} plan
 * @param {Record<string, string>} texts
 * @returns {{value: any, reasons: Map<string, string>}}
 */
export function readPlan(plan, texts) {
  /** @type {Map<string, string>} */
  const reasons = new Map();
  const filled = new Set();
  for (const [key, text] of Object.entries(texts)) if (text !== "") pathOf(key).forEach((_, at, path) => filled.add(keyOf(path.slice(0, at + 1))));
  /** @param {Field} field */
  const valueIn = (field) => {
    if (field.nullable && texts[nullOf(field.path)]) return null;
    const isIn = field.required || field.begun !== undefined || filled.has(field.key);
    if (field.kind === "object") return isIn ? objectOf(field) : undefined;
    if (field.kind === "list") return isIn && !(isBlank(field) && !field.required && field.begun === undefined) ? listIn(field) : undefined;
    const value = field.kind === "many" ? chosenIn(field, isIn) : leafOf(field);
    if (value === undefined && field.required && !reasons.has(field.key)) reasons.set(field.key, "is missing");
    return value;
  };
  const isBlank = (field) => !field.parts.some((part) => filled.has(part.key));
  const objectOf = (field) => {
    const made = field.parts.map((part) => [part.path.at(-1), valueIn(part)]).filter(([, value]) => value !== undefined);
    const drawnNames = new Set(field.parts.map((part) => part.path.at(-1)));
    return ordered([...made, ...entriesOf(field.begun || {}).filter(([name]) => !drawnNames.has(name))]);
  };
  const listIn = (field) => {
    const values = field.parts.map((part) => valueIn(part));
    const why = misfit(values, field.schema);
    if (why) reasons.set(field.key, `must be ${why}`);
    return values.map((value) => (value === undefined ? null : value)); // the rows behind one without a value keep their places
  };
  const chosenIn = (field, isIn) => {
    const text = texts[field.key] ?? "";
    if (field.begun !== undefined && text === textOf(field)) return field.begun;
    const words = text ? parseExact(text).map(inWords) : [];
    const values = field.options.filter(({ value }) => words.includes(inWords(value))).map(({ value }) => value);
    const why = isIn ? misfit(values, field.schema) : "";
    if (why) reasons.set(field.key, `must be ${why}`);
    return values.length || (field.begun !== undefined && field.begun !== null) || (field.required && !field.schema.minItems) ? values : undefined;
  };
  const leafOf = (field) => {
    const [text, was] = [texts[field.key] ?? "", field.begun === null ? undefined : field.begun];
    try {
      const value = field.options && !(was !== undefined && isTextOf(text, was)) ? optionIn(field.options, text) : valueOf(text, field.schema, was);
      const why = value === undefined ? "" : misfit(value, field.schema);
      if (why) reasons.set(field.key, `must be ${why}`);
      return value;
    } catch (error) {
      reasons.set(field.key, `must be ${error.message}`);
      return undefined;
    }
  };
  return { value: objectOf(plan), reasons };
}

function optionIn(options, text) {
  if (text === "") return undefined;
  const option = options.find(({ value }) => inWords(value) === text);
  if (!option) throw new Error(`one of its ${options.length} choices`);
  return option.value;
}

/** Return every field of a plan, each before those in it. @param {Field} plan @returns {Field[]} */
export const fieldsOf = (plan) => [plan, ...(plan.parts || []).flatMap(fieldsOf)];

/**
 * Return the field for which words about a path are: the longest path that is drawn.
 * @param {Field} plan
 * @param {Path} path
 */
export function fieldAt(plan, path) {
  const keys = new Map(fieldsOf(plan).map((field) => [field.key, field]));
  for (let end = path.length; end > 0; end -= 1) {
    const field = keys.get(keyOf(path.slice(0, end)));
    if (field) return field;
  }
  return plan;
}

/** Return the name of a field with those that it is in, as a person reads it. @param {Field} plan @param {Path} path */
export function nameOf(plan, path) {
  const titles = path.map((_, at) => fieldAt(plan, path.slice(0, at + 1)).title);
  return visible(titles.join(" › "));
}

/**
 * Return texts and value without one row of a list: those behind it move up.
 * @param {Record<string, string>} texts
 * @param {any} begun
 * @param {Path} row
 */
export function withoutRow(texts, begun, row) {
  const [list, place] = [row.slice(0, -1), /** @type {number} */ (row.at(-1))];
  const isIn = (path) => path.length >= row.length && list.every((part, at) => path[at] === part) && typeof path[list.length] === "number";
  const behind = (path) => isIn(path) && /** @type {number} */ (path[list.length]) > place;
  const moved = Object.entries(texts).map(([key, text]) => /** @type {[Path, string]} */ ([pathOf(key), text]))
    .filter(([path]) => !(isIn(path) && path[list.length] === place))
    .map(([path, text]) => [keyOf(behind(path) ? path.with(list.length, /** @type {number} */ (path[list.length]) - 1) : path), text]);
  /** @param {any} value @param {any[]} path */
  const cut = (value, path) => {
    const [part, ...rest] = path;
    if (!rest.length) return Array.isArray(value) ? value.toSpliced(part, 1) : value;
    const inner = own(value, part);
    if (inner === undefined) return value;
    return Array.isArray(value) ? value.with(part, cut(inner, rest)) : ordered(entriesOf(value).map(([name, one]) => [name, name === part ? cut(one, rest) : one]));
  };
  return { texts: Object.fromEntries(moved), begun: cut(begun, row) };
}

/** Return a time of this place as one with its offset, and the time of this place of one with an offset. */
export const zonedOf = (local) => {
  const at = new Date(local);
  const minutes = -at.getTimezoneOffset();
  const two = (number) => String(Math.trunc(Math.abs(number))).padStart(2, "0");
  return `${local.length === 16 ? `${local}:00` : local}${minutes ? `${minutes < 0 ? "-" : "+"}${two(minutes / 60)}:${two(minutes % 60)}` : "Z"}`;
};

/** @param {string} text */
export function localOf(text) {
  const at = new Date(text);
  if (!/T.*(Z|[+-]\d\d:?\d\d)$/i.test(text) || Number.isNaN(at.getTime())) return "";
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

// JSON as it was written: a number that JavaScript would change stays text, and names stay in their order, of which JavaScript
// moves those of digits to the front. Everything that a person sends back is read and written here. Pure.
//
// The server reads whole numbers of any length, and decimals as doubles. A decimal that a double changes is refused where a
// person typed it (`fixed`), and so is a name that comes twice: one of its values would be lost.

const SPACE = /[ \t\n\r]*/y;
const STRING = /"(?:[^"\\]|\\.)*"/ys;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const WORD = /true|false|null/y;
const MARKS = /[[\]{},:]/y;
const WHOLE = /^-?\d+$/;

/** A number as it is written, which no JavaScript number is written as. */
export class Exact {
  /** @param {string} text */
  constructor(text) { this.text = text; }
  toString() { return this.text; }
}

/** @type {WeakMap<object, string[]>} the names of objects whose order JavaScript would change */
const ORDERS = new WeakMap();

/**
 * Return an object of fields in their order, which `entriesOf` and `writeExact` follow. A copy has lost it.
 * @param {Iterable<any[]>} fields names with values
 * @returns {Record<string, any>}
 */
export function ordered(fields) {
  const known = new Map(/** @type {Iterable<[string, any]>} */ (fields));
  const made = Object.fromEntries(known);
  const names = [...known.keys()];
  if (Object.keys(made).some((name, at) => name !== names[at])) ORDERS.set(made, names);
  return made;
}

/**
 * Return the fields of an object in the order in which they were written.
 * @param {object} value
 * @returns {[string, any][]}
 */
export function entriesOf(value) {
  const names = (ORDERS.get(value) || []).filter((name) => Object.hasOwn(value, name));
  const known = new Set(names);
  return [...names, ...Object.keys(value).filter((name) => !known.has(name))].map((name) => [name, value[name]]);
}

/**
 * Return a number in the form [sign, digits, exponent], in which equal numbers are equal.
 * @param {string} text
 */
function plainOf(text) {
  const [, sign, whole, part = "", power = "0"] = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/i.exec(text) || ["", "", "0"];
  const digits = `${whole}${part}`.replace(/^0+/, "");
  const kept = digits.replace(/0+$/, "");
  return kept ? `${sign}${kept}e${BigInt(power) - BigInt(part.length) + BigInt(digits.length - kept.length)}` : "0";
}

/**
 * Return why the server would not keep a number, or nothing.
 * @param {string} text
 */
export function unfixed(text) {
  const number = Number(text);
  if (!Number.isFinite(number)) return `${text} is out of range`;
  if (WHOLE.test(text) || plainOf(String(number)) === plainOf(text)) return "";
  return `${text} has more digits than a number keeps (${number})`;
}

/** @param {string} text */
const numberOf = (text) => (String(Number(text)) === text ? Number(text) : new Exact(text));

/**
 * Parse JSON; numbers that JavaScript would write in another way are `Exact`. With `fixed` throw for a number that the server
 * would change and for a name that comes twice. Throw a SyntaxError with words for people.
 * @param {string} text
 * @param {{fixed?: boolean}} [how]
 * @returns {any}
 */
export function parseExact(text, { fixed = false } = {}) {
  let at = 0;
  /** @param {RegExp} what */
  const take = (what) => {
    what.lastIndex = at;
    const found = what.exec(text);
    if (!found) return "";
    at = what.lastIndex;
    return found[0];
  };
  const refuse = (words) => { throw new SyntaxError(words); };
  const mark = (wanted) => {
    take(SPACE);
    const before = at;
    if (take(MARKS) === wanted) return true;
    at = before;
    return false;
  };
  const needs = (wanted) => mark(wanted) || refuse(`"${wanted}" is missing at character ${at + 1}`);
  const string = () => {
    take(SPACE);
    return JSON.parse(take(STRING) || refuse(`a text in quotes is missing at character ${at + 1}`));
  };
  const value = () => {
    take(SPACE);
    if (text[at] === '"') return string();
    if (mark("[")) {
      const items = [];
      if (!mark("]")) {
        do items.push(value()); while (mark(","));
        needs("]");
      }
      return items;
    }
    if (mark("{")) {
      const fields = new Map();
      if (!mark("}")) {
        do {
          const name = string();
          if (fixed && fields.has(name)) refuse(`the name "${name}" comes twice`);
          needs(":");
          fields.set(name, value());
        } while (mark(","));
        needs("}");
      }
      return ordered(fields);
    }
    const word = take(WORD);
    if (word) return JSON.parse(word);
    const number = take(NUMBER) || refuse(`a value is missing at character ${at + 1}`);
    const why = fixed && unfixed(number);
    return why ? refuse(why) : numberOf(number);
  };
  try {
    const found = value();
    take(SPACE);
    return at < text.length ? refuse(`nothing can follow at character ${at + 1}`) : found;
  } catch (error) {
    throw error instanceof RangeError ? new SyntaxError("it nests too deeply") : error;
  }
}

/**
 * Write JSON in one line as `JSON.stringify` does, or indented; exact numbers and orders as they are.
 * @param {any} value
 * @param {string} [line] what a new line begins with
 * @returns {string}
 */
export function writeExact(value, line = "") {
  if (value instanceof Exact) return value.text;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const inside = line && `${line}  `;
  const colon = line ? ": " : ":";
  const [opens, closes] = Array.isArray(value) ? "[]" : "{}";
  const parts = Array.isArray(value)
    ? value.map((one) => writeExact(one ?? null, inside))
    : entriesOf(value).filter(([, one]) => one !== undefined).map(([name, one]) => `${JSON.stringify(name)}${colon}${writeExact(one, inside)}`);
  return parts.length ? `${opens}${inside}${parts.join(`,${inside}`)}${line}${closes}` : opens + closes;
}

/**
 * Return -1, 0 or 1 for a number below, equal to or above another; whole ones are compared by all of their digits.
 * @param {number | Exact} one
 * @param {number | Exact} other
 */
export function compared(one, other) {
  const [a, b] = [String(one), String(other)];
  const [x, y] = WHOLE.test(a) && WHOLE.test(b) ? [BigInt(a), BigInt(b)] : [Number(a), Number(b)];
  return x < y ? -1 : x > y ? 1 : 0;
}

/** Return whether a value is a number, exact or not. */
export const isNumber = (value) => typeof value === "number" || value instanceof Exact;

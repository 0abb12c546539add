// Places in a step: which letters of the stored text a stretch of the page shows, and where the page shows a place.
//
// The stored step is read as JSON with positions, and the text of the page is read beside it, letter by letter, as the
// server draws it (`episodes/show/step_cards.py`). Where they differ there are no places: a place is exact or refused.
// Letters are code points, as on the server. Pure.

import { visible } from "../shell/visible-text.js";

/**
 * @typedef {{path: string, start?: number, end?: number}} Place
 * @typedef {{kind: string, from: number, to: number, parent: Node | null, name: string | number, tree: Tree, items?: Node[], members?: {key: Node, value: Node}[]}} Node
 * @typedef {{text: string, base: string, within: string, points: Uint32Array | null}} Tree `base`: the path of the root; `within`: of the text that holds it, if one does
 * @typedef {{at: number, size: number, node: Node, from?: number, to?: number}} Unit a letter on the page: its position there, and in its text
 */

/** The page does not show the stored value as the server draws it. */
export class Unlike extends Error {}

const NAME = /^[A-Za-z_][\w-]*$/;
const ATOM = /-?\d[\d.eE+-]*|true|false|null|NaN|-?Infinity/y;
const NUMBER = /-?\d[\d.eE+-]*/y;
const SPACE = /[ \t\n\r]*/y;
const STRING = /"(?:[^"\\]|\\.)*"/ys;
const ESCAPED = { '"': '"', "\\": "\\", "/": "/", b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" };
const ESCAPES = { '"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t" };
const LONGEST = 500;

/**
 * Return the path of a field or an entry; empty for a name that no path can have.
 * @param {string} path
 * @param {string | number} name
 */
export function under(path, name) {
  if (typeof name === "number") return path && `${path}[${name}]`;
  const found = NAME.test(name) ? `${path}.${name}` : `${path}["${name}"]`;
  const fits = NAME.test(name) || (name && [...name].length <= 200 && !/["\\]/.test(name) && visible(name) === name);
  return path && fits && found.length <= LONGEST ? found : "";
}

/** @param {Node} node @returns {string} */
export const pathOf = (node) => (node.parent ? under(pathOf(node.parent), node.name) : node.tree.base);

/**
 * Parse JSON into nodes with positions. Throw `Unlike` if the text is not JSON.
 * @param {string} text
 * @param {string} [base]
 * @param {string} [within]
 */
export function parse(text, base = "$", within = "") {
  /** @type {Tree} */
  const tree = { text, base, within, points: null };
  let at = 0;
  /** @param {RegExp} what */
  const take = (what) => {
    what.lastIndex = at;
    const found = what.exec(text);
    if (!found) throw new Unlike();
    at = what.lastIndex;
  };
  const is = (char) => {
    take(SPACE);
    if (text[at] !== char) return false;
    at += 1;
    return true;
  };
  /** @returns {Node} */
  const read = (parent, name) => {
    take(SPACE);
    /** @type {Node} */
    const node = { kind: "atom", from: at, to: at, parent, name, tree };
    if (text[at] === '"') {
      node.kind = "string";
      take(STRING);
    } else if (is("[")) {
      [node.kind, node.items] = ["list", []];
      if (!is("]")) do node.items.push(read(node, node.items.length)); while (is(",") || !is("]"));
    } else if (is("{")) {
      [node.kind, node.members] = ["object", []];
      if (!is("}")) do node.members.push(member(node)); while (is(",") || !is("}"));
    } else take(ATOM);
    node.to = at;
    return node;
  };
  const member = (node) => {
    const key = read(node, "");
    if (key.kind !== "string" || !is(":")) throw new Unlike();
    return { key, value: read(node, textOf(key)) };
  };
  const root = read(null, "");
  take(SPACE);
  if (at < text.length) throw new Unlike();
  return root;
}

/**
 * Yield the letters of a JSON string with their positions in the JSON text.
 * @param {Node} node
 * @returns {Generator<{char: string, from: number, to: number}>}
 */
function* letters({ tree: { text }, from, to }) {
  const unit = (at) => {
    if (text[at] !== "\\") return [text[at], at + 1];
    if (text[at + 1] === "u") return [String.fromCharCode(parseInt(text.slice(at + 2, at + 6), 16)), at + 6];
    return [ESCAPED[text[at + 1]] ?? text[at + 1], at + 2];
  };
  for (let at = from + 1; at < to - 1;) {
    let [char, next] = unit(at);
    if (/^[\ud800-\udbff]$/.test(char) && next < to - 1) {
      const [low, after] = unit(next);
      if (/^[\udc00-\udfff]$/.test(low)) [char, next] = [char + low, after];
    }
    yield { char, from: at, to: next };
    at = next;
  }
}

/** @param {Node} node */
export const textOf = (node) => Array.from(letters(node), ({ char }) => char).join("");

/**
 * Return the node at a path of a step, or null.
 * @param {Node} root
 * @param {string} path
 * @returns {Node | null}
 */
export function nodeAt(root, path) {
  if (pathOf(root) === path) return root;
  const inside = root.items || root.members?.map(({ value }) => value) || [];
  for (const node of inside) {
    const own = pathOf(node);
    if (own === path) return node;
    if (own && path.startsWith(own) && ".[".includes(path[own.length])) return nodeAt(node, path);
  }
  return null;
}

/** @param {string} char */
const inJson = (char) => ESCAPES[char] ?? (char < " " ? `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}` : visible(char));

/** The text of the page, read from its beginning; it can end early if the page shows the beginning of a long value. */
class Reading {
  /**
   * @param {string} shown
   * @param {boolean} cut values may end early, too: the step came in its cut form
   */
  constructor(shown, cut) {
    this.shown = shown;
    this.cut = cut;
    this.at = 0;
    /** @type {Unit[]} */
    this.units = [];
  }

  get over() { return this.at >= this.shown.length; }

  see(text) { return this.shown.startsWith(text, this.at); }

  /** @param {string} text @param {Node} node */
  eat(text, node, from = undefined, to = undefined) {
    const part = text.slice(0, this.shown.length - this.at);
    if (!this.see(part)) throw new Unlike();
    this.units.push({ at: this.at, size: part.length, node, from, to });
    this.at += part.length;
  }

  /** Read a sign around values; within a text it belongs to the text. */
  sign(text, node, from, to) {
    const inner = Boolean(node.tree.within);
    this.eat(text, node, inner ? from : undefined, inner ? to : undefined);
  }

  /** Read a text with its line ends as HTML has them. @param {Node} node */
  plain(node) {
    let n = 0;
    let before = "";
    for (const { char, from, to } of letters(node)) {
      if (this.over) return;
      // the first line end of a <pre> is not shown, and a line ends with one sign
      const silent = char === "\n" && (before === "\r" || (n === 0 && !this.see("\n")));
      const inner = Boolean(node.tree.within);
      this.eat(silent ? "" : char === "\r" ? "\n" : visible(char), node, inner ? from : n, inner ? to : n + 1);
      [n, before] = [n + 1, char];
    }
    if (!this.over) throw new Unlike();
  }

  /** @param {Node} node @param {Node} [owner] the value that a key belongs to */
  string(node, owner = node) {
    const inner = Boolean(node.tree.within);
    this.sign('"', owner, node.from, node.from + 1);
    let n = 0;
    for (const { char, from, to } of letters(node)) {
      if (this.over) return;
      if (this.cut && this.see('"')) break;
      if (inner) this.eat(inJson(char), owner, from, to);
      else if (owner === node) this.eat(inJson(char), node, n, n + 1);
      else this.eat(inJson(char), owner);
      n += 1;
    }
    if (!this.over) this.sign('"', owner, node.to - 1, node.to);
  }

  /**
   * Read JSON as Python writes it, in one line or indented.
   * @param {Node} node
   * @param {string | null} line what a new line begins with; null in one line
   */
  json(node, line) {
    if (this.over) return;
    if (node.kind === "string") this.string(node);
    else if (node.kind === "atom") this.#atom(node);
    else this.#entries(node, line, node.items ? "[]" : "{}");
  }

  /** Read a number, which can be written in another way: 1.50 as 1.5. */
  #atom(node) {
    const raw = node.tree.text.slice(node.from, node.to);
    NUMBER.lastIndex = this.at;
    const found = /\d/.test(raw) ? NUMBER.exec(this.shown)?.[0] : raw;
    if (!found) throw new Unlike();
    this.sign(found, node, node.from, node.to);
  }

  #entries(node, line, brackets) {
    const [opens, closes] = brackets;
    const all = node.items ? node.items.map((value) => ({ key: null, value })) : node.members;
    const inside = line === null ? null : `${line}  `;
    this.sign(opens, node, node.from, node.from + 1);
    let last = node.from + 1;
    for (let n = 0; n < all.length; n += 1) {
      const { key, value } = all[n];
      if (this.over) return;
      if (this.cut && (this.see(closes) || (line !== null && this.see(line + closes)))) break;
      this.sign((n ? "," : "") + (inside ?? (n ? " " : "")), node, last, last);
      if (key && !this.over) this.string(key, value);
      if (key && !this.over) this.sign(": ", value, key.to, key.to);
      this.json(value, inside);
      last = value.to;
    }
    if (this.over) return;
    const ends = this.cut && this.see(closes) ? "" : all.length && line !== null ? line : "";
    this.sign(ends + closes, node, node.to - 1, node.to);
  }
}

const attempt = (act) => {
  try {
    return act();
  } catch (error) {
    if (error instanceof Unlike || error instanceof RangeError) return null; // too deep to read
    throw error;
  }
};

/**
 * Return what `shown` shows of a node, letter by letter; null if that can't be told.
 * @param {string} shown
 * @param {Node} node
 * @param {{part?: string, cut?: boolean}} [how]
 * @returns {Unit[] | null}
 */
export function unitsOf(shown, node, { part = "", cut = false } = {}) {
  for (const text of shown.endsWith("…") ? [shown, shown.slice(0, -1)] : [shown]) {
    for (const draw of drawings(node, part)) {
      const units = text && attempt(() => draw(text, cut));
      if (units) return units;
    }
  }
  return null;
}

/** @param {Node} node @returns {((text: string, cut: boolean) => Unit[])[]} the ways in which the server draws it */
function drawings(node, part) {
  const read = (act) => (text, cut) => {
    const reading = new Reading(text, cut);
    act(reading);
    if (!reading.over) throw new Unlike();
    return reading.units;
  };
  const json = [read((reading) => reading.json(node, null)), read((reading) => reading.json(node, "\n"))];
  if (node.kind !== "string") return json;
  const plain = read((reading) => reading.plain(node));
  return [part ? (text) => stretch(text, node, part) : plain, plain, json[0], ...inner(node, read)];
}

/** Read JSON in a text as JSON; its letters are those of the text. */
function inner(node, read) {
  const root = innerOf(node);
  return root ? [read((reading) => reading.json(root, "\n"))] : [];
}

/**
 * Return the JSON in a text as nodes; null if the text is not JSON.
 * @param {Node} node
 */
export function innerOf(node) {
  const text = node.kind === "string" && !node.tree.within ? textOf(node) : "";
  return /^\s*[[{]/.test(text) ? attempt(() => parse(text, "", pathOf(node))) : null;
}

/** Return the first line of an error, what follows it (both trimmed), or the end of a long text. */
function stretch(shown, node, part) {
  const all = new Reading(Array.from(letters(node), ({ char }) => (char === "\r" ? "\n" : visible(char))).join(""), false);
  let n = 0;
  for (const { char } of letters(node)) {
    all.eat(char === "\r" ? "\n" : visible(char), node, n, n + 1);
    n += 1;
  }
  const lead = all.shown.length - all.shown.trimStart().length;
  const from = part === "end" ? all.shown.lastIndexOf(shown) : all.shown.indexOf(shown, part === "line" ? lead : all.shown.indexOf("\n", lead) + 1);
  if (from < 0 || (part === "line" && from !== lead) || (part === "end" && from + shown.length < all.shown.length)) throw new Unlike();
  const units = all.units.filter(({ at, size }) => at >= from && at + size <= from + shown.length);
  return units.map((unit) => ({ ...unit, at: unit.at - from }));
}

/**
 * Return the node of a cell of a returned table: the list of objects is `node`, its only field, or JSON in its text.
 * @param {Node} node
 * @param {number} row
 * @param {number} column
 * @returns {Node | null}
 */
export function cellOf(node, row, column) {
  const value = innerOf(node) || node;
  const lists = value.members?.map((one) => one.value).filter(({ kind }) => kind === "list") || [];
  const list = value.kind === "list" ? value : lists.length === 1 ? lists[0] : null;
  if (!list?.items.every(({ kind }) => kind === "object")) return null;
  const named = list.items.flatMap(({ members }) => members.map(({ key }) => textOf(key)));
  const wanted = [...new Set(named)][column];
  return list.items[row]?.members.find(({ key }) => textOf(key) === wanted)?.value || null;
}

/**
 * Return the place of a whole value. Throw `Unlike` if no path can name it.
 * @param {Node} node
 * @returns {Place}
 */
export function placeOfNode(node) {
  const { within } = node.tree;
  if (within) return { path: within, start: point(node.tree, node.from), end: point(node.tree, node.to) };
  const path = pathOf(node);
  if (!path) throw new Unlike();
  return { path };
}

/** Return the number of code points before a position. @param {Tree} tree */
function point(tree, at) {
  if (!tree.points) {
    tree.points = new Uint32Array(tree.text.length + 1);
    for (let n = 1; n <= tree.text.length; n += 1) {
      const low = tree.text.codePointAt(n - 2) > 0xffff; // the second half of a pair
      tree.points[n] = tree.points[n - 1] + (low ? 0 : 1);
    }
  }
  return tree.points[at];
}

/**
 * Return the place of the letters `from` to `to` of the page: letters of one text, else the smallest value with all of them.
 * Null for no letters.
 * @param {Unit[]} units
 * @param {number} from
 * @param {number} to
 * @returns {Place | null}
 */
export function placeOf(units, from, to) {
  const chosen = units.filter(({ at, size }) => size && at < to && at + size > from);
  if (!chosen.length) return null;
  const [{ node }] = chosen;
  const { tree } = node;
  if (tree.within) {
    const ends = chosen.filter((unit) => unit.to > unit.from);
    if (!ends.length) return null;
    return { path: tree.within, start: point(tree, ends[0].from), end: point(tree, ends.at(-1).to) };
  }
  const own = chosen.filter((unit) => unit.from !== undefined);
  if (own.length && chosen.every((unit) => unit.node === node)) {
    return { ...placeOfNode(node), start: own[0].from, end: own.at(-1).to };
  }
  return placeOfNode(chosen.map((unit) => unit.node).reduce(common));
}

/** @param {Node} a @param {Node} b */
function common(a, b) {
  const above = new Set();
  for (let node = a; node; node = node.parent) above.add(node);
  let node = b;
  while (!above.has(node)) node = node.parent;
  return node;
}

/**
 * Return the stretches [from, to] of the page that show a place.
 * @param {Unit[]} units
 * @param {Place} place
 * @returns {[number, number][]}
 */
export function stretchesOf(units, { path, start = null, end = null }) {
  /** @type {[number, number][]} */
  const found = [];
  for (const { at, size, node, from, to } of units) {
    const { tree } = node;
    const own = tree.within || pathOf(node);
    const inside = start === null
      ? own === path || (own.startsWith(path) && ".[".includes(own[path.length]))
      : own === path && from !== undefined && (tree.within ? point(tree, from) : from) < end && (tree.within ? point(tree, to) : to) > start;
    if (!inside || !size) continue;
    if (found.at(-1)?.[1] === at) found.at(-1)[1] = at + size;
    else found.push([at, at + size]);
  }
  return found;
}

/**
 * Return the values of a node that are shown, each once: the whole, then its parts in order.
 * @param {Unit[]} units
 * @param {Node} top
 * @returns {Place[]}
 */
export function valuesIn(units, top) {
  const parts = new Set();
  for (const { node } of units) for (let one = node; one !== top && one.parent; one = one.parent) parts.add(one);
  const order = [...parts].sort((a, b) => a.from - b.from || b.to - a.to);
  return [top, ...order].flatMap((node) => attempt(() => [placeOfNode(node)]) || []);
}

/**
 * Return the lines of a text with several, trimmed; none for a blank one.
 * @param {Node} node
 * @returns {Place[]}
 */
export function linesOf(node) {
  const { path } = placeOfNode(node);
  const size = (text) => [...text].length;
  const found = [];
  let at = 0;
  for (const line of textOf(node).split("\n")) {
    const start = at + size(line) - size(line.trimStart());
    if (line.trim()) found.push({ path, start, end: start + size(line.trim()) });
    at += size(line) + 1;
  }
  return found.length > 1 ? found : [];
}

/**
 * Return the letters of a place as stored; null if it names no text.
 * @param {Node} root
 * @param {Place} place
 */
export function written(root, { path, start = 0, end = Infinity }) {
  const node = nodeAt(root, path);
  return node?.kind === "string" ? [...textOf(node)].slice(start, end).join("") : null;
}

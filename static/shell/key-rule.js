// The one rule of keys: which press runs what, which keys are drawn, and where the focus is. docs/keys.md says it in words.
//
// 1. A press belongs to the item on which its key went down, and to nothing after it: not to an item that was swapped in since, nor
//    to one that no one has seen yet.
// 2. A panel that asks for a decision (`[data-panel]`) takes digits only with the focus in it.
// 3. What is drawn is what works now: `working` says it for the caps, the key line and the sheet, and for every press.
// 4. After a swap, a refusal and a dialog the focus is in the field or part that was meant (`keepFocus`, `focusPart`).

import { KEYS } from "./key-map.js";
import { isByAlt, namesOf } from "./key-names.js";

/** @typedef {import("./key-map.js").Key} Key */

/**
 * @typedef {object} Around where a press falls, and what is drawn for
 * @property {any} [item] what is on the page: another item is another object
 * @property {number} [since] when this item can have been read; earlier presses were meant for the one before
 * @property {boolean} inField whether letters are typed where the focus is
 * @property {boolean} [onButton] whether Enter and Space press what has the focus
 * @property {boolean} inDialog
 * @property {boolean} loading whether the next item is on its way
 */

const PAIR_MS = 1200;
const REST_MS = 500; // some keyboards repeat a held key as single presses
const LATE_MS = 5000; // a press that waited longer for its page tells the time wrong
const MODIFIERS = ["Shift", "Control", "Alt", "AltGraph", "Meta", "CapsLock"];

/**
 * Return the keys of one page, its own first, but for those that come before them.
 * @param {string} page
 * @param {Key[]} [registry]
 */
export function keysOf(page, registry = KEYS) {
  const own = registry.filter((key) => key.page.split(" ").includes(page));
  const everywhere = registry.filter((key) => key.page === "*");
  return [...everywhere.filter((key) => key.first), ...own, ...everywhere.filter((key) => !key.first)];
}

/**
 * Return whether a key works where the focus is: bare keys not in fields, and none in dialogs and while the next item loads.
 * @param {{inField?: boolean, onlyField?: boolean, first?: boolean}} key
 * @param {Around} around
 */
function worksIn(key, { inField, inDialog, loading }) {
  return !inDialog && (!loading || Boolean(key.first)) && (inField ? Boolean(key.inField) : !key.onlyField);
}

/**
 * Return whether a press does nothing for a key, by where it falls or as it is typed: with Alt only signs are keys.
 * @param {KeyboardEvent} event
 * @param {{inField?: boolean, onlyField?: boolean}} key
 * @param {Around} around
 */
export function isIgnored(event, key, around) {
  if (event.defaultPrevented || event.isComposing) return true;
  if ((event.getModifierState?.("AltGraph") || event.altKey) && !isByAlt(event)) return true;
  return !worksIn(key, around);
}

/**
 * Return the keys that work now, each with the spellings that run it: of two with one spelling the first of the map has it.
 * @param {Key[]} keys
 * @param {(id: string) => boolean} usable
 * @param {Around} around
 * @returns {Key[]}
 */
export function working(keys, usable, around) {
  const taken = new Set(around.onButton ? ["Enter", "Space"] : []);
  return keys.filter((key) => worksIn(key, around) && usable(key.id)).flatMap((key) => {
    const left = key.keys.filter((spelling) => !taken.has(spelling));
    for (const spelling of left) taken.add(spelling);
    return left.length ? [{ ...key, keys: left }] : [];
  });
}

/**
 * Return whether a press was meant for an item before the one on the page: it went down then, or is held since.
 * @param {KeyboardEvent} event
 * @param {Around} around
 * @param {{on: Map<string, any>, last: string, at: number}} down by code, the item on which a key went down; the last one, and when
 */
function isStale(event, { item, since = 0 }, down) {
  const { code, timeStamp: at, repeat } = event;
  const isHeld = repeat || (code === down.last && at - down.at < REST_MS);
  Object.assign(down, { last: code, at });
  if (isHeld && down.on.get(code) !== item) return repeat || down.on.has(code);
  down.on.set(code, item);
  return at < since;
}

/**
 * Return a function that takes key events and returns the ID that ran. Pure except for `run`.
 * @param {{page: string, registry?: Key[], usable: (id: string) => boolean, run: (id: string, event: KeyboardEvent) => any,
 *   surroundings: (event: KeyboardEvent) => Around}} on
 */
export function dispatcher({ page, registry = KEYS, usable, run, surroundings }) {
  let [first, firstAt, firstOn] = ["", 0, /** @type {unknown} */ (null)];
  const down = { on: new Map(), last: "", at: 0 };
  return function press(/** @type {KeyboardEvent} */ event) {
    if (MODIFIERS.includes(event.key)) return null; // it belongs to the key that follows
    const names = namesOf(event);
    const around = surroundings(event);
    if (isStale(event, around, down)) return null;
    const isPair = first && firstOn === around.item && event.timeStamp - firstAt < PAIR_MS;
    const pairs = isPair ? names.map((name) => `${first} ${name}`) : [];
    first = "";
    const mine = working(keysOf(page, registry), usable, around).filter((key) => !isIgnored(event, key, around));
    const key = [...pairs, ...names].map((name) => mine.find(({ keys }) => keys.includes(name))).find(Boolean);
    const begun = names.find((name) => mine.some(({ keys }) => keys.some((spelling) => spelling.startsWith(`${name} `))));
    if (begun && !pairs.some((name) => key?.keys.includes(name))) [first, firstAt, firstOn] = [begun, event.timeStamp, around.item];
    return !key || run(key.id, event) === false ? null : key.id;
  };
}

// --- the item on the page

/** The item that presses belong to, and when it can have been read. */
let turn = { item: /** @type {unknown} */ (null), since: 0 };

/** Return when the item on the page can have been read. */
export const readableSince = () => (performance.now() - turn.since > LATE_MS ? 0 : turn.since);

/** Presses from before this page listened were meant for another page. */
export function listens() {
  turn.since = performance.now();
}

/**
 * Take another item as that of the page. Its keys wake once it was painted, and are drawn then.
 * @param {HTMLElement} item
 */
export function opened(item) {
  if (turn.item === item) return;
  const mine = { item, since: Infinity };
  turn = mine;
  document.body.dataset.fresh = "";
  const wake = () => {
    mine.since = performance.now();
    if (turn === mine) delete document.body.dataset.fresh;
  };
  requestAnimationFrame(() => requestAnimationFrame(wake)); // the second frame comes when the first is on the screen
}

// --- the focus

const FIELDS = "input:not([type=checkbox]):not([type=radio]), textarea, select, [contenteditable]";

/** @param {Element | null} element */
export const isField = (element) => Boolean(element?.closest(FIELDS));

/** Return whether the focus is in this part of the page. @param {string} part */
export const hasFocus = (part) => Boolean(document.activeElement?.closest(part));

/** Return whether the focus is nowhere. */
export const isLost = () => !document.activeElement || document.activeElement === document.body;

/** @param {HTMLElement | null | undefined} element */
export const focusPart = (element) => element?.focus({ preventScroll: true });

/**
 * Note where the focus is before something that may take it away. The function that is returned gives it back, or to what
 * `otherwise` returns, unless something else has it. A button that was pressed is no place to go on from.
 * @param {() => HTMLElement | null | undefined} [otherwise]
 */
export function keepFocus(otherwise = () => document.getElementById("main")) {
  const had = document.activeElement?.closest("button, a") ? null : /** @type {HTMLElement} */ (document.activeElement);
  return () => {
    if (!isLost() && !document.activeElement.closest("button, a")) return;
    focusPart(had);
    if (!had || isLost()) focusPart(otherwise());
  };
}

/** Leave a field for the part that it is in, so that the keys of that part work. @param {HTMLElement} field */
export function leaveField(field) {
  const ask = document.getElementById("list") && field.closest("main"); // beside the list, whose keys work if the focus is nowhere
  field.blur();
  // not into a panel that decides immediately
  focusPart(/** @type {HTMLElement | null} */ (field.closest("[tabindex='-1']:not(main)") || document.querySelector('[data-panel=""]') || ask));
}

/** A press that means nothing here was meant for elsewhere: the next one decides nothing in a panel that decides immediately. */
export function astray(/** @type {KeyboardEvent} */ event) {
  if (event.key.length > 1 || event.ctrlKey || event.metaKey || isField(/** @type {Element} */ (event.target))) return;
  if (hasFocus("[data-panel=once]")) focusPart(document.getElementById("main"));
}

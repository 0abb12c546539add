// Keys: from the map (`key-map.js`) to the handlers, every printed <kbd>, the key line, the sheet (?) and the command palette.
// A page binds a handler with `bind(id, fn)`, or has an element with `data-act="id"`, which is then clicked.
// A key without either is printed nowhere. Keys work once all modules of the page have run.

import { KEYS } from "./key-map.js";
import { whenOver } from "./page-life.js";

/** @typedef {import("./key-map.js").Key} Key */

const NAMES = { Escape: "Esc", ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓", Shift: "⇧" };
const PAIR_MS = 1200;
const HINTS = 5; // in the key line; the sheet has all of them
const GROUPS = ["List", "Ask", "Review", "Steps", "Go to", "General"];

/**
 * Return the heading of the sheet that a key is listed under.
 * @param {Key} key
 */
export function groupOf({ id, page }) {
  if (id.startsWith("go-") || id === "newest-ask") return "Go to";
  if (/home|queue|episodes|curriculum/.test(page)) return "List";
  if (/^reviews?$/.test(page)) return "Review";
  if (/live|replay/.test(page)) return "Steps";
  return /^(ask|link)/.test(page) ? "Ask" : "General";
}

/**
 * Return the keys of one page, its own first.
 * @param {string} page
 * @param {Key[]} [registry]
 */
export function keysOf(page, registry = KEYS) {
  const own = registry.filter((key) => key.page.split(" ").includes(page));
  return [...own, ...registry.filter((key) => key.page === "*")];
}

const MODIFIERS = ["Shift", "Control", "Alt", "AltGraph", "Meta", "CapsLock"];
const SIGN = /^[!-/:-@[-\u0060{-~]$/; // ASCII without letters and digits
const SIGNS = { BracketLeft: "[", BracketRight: "]", Semicolon: ";", Slash: "/", Period: "." };

/**
 * Return the letter, digit or sign that the place of a key has on a US keyboard, or "".
 * @param {string} [code]
 */
function placeOf(code = "") {
  return /^(?:Key|Digit)(.)$/.exec(code)?.[1].toLowerCase() || SIGNS[code] || "";
}

/**
 * Return whether a sign was typed with the help of Alt: by AltGr, which is Ctrl and Alt on Windows, or by Option on a Mac.
 * Alt with the sign's own key on a US keyboard is a shortcut of the browser or the system.
 * @param {KeyboardEvent} event
 */
export function isByAlt(event) {
  const { key, code, altKey, ctrlKey, metaKey } = event;
  if (!SIGN.test(key) || metaKey) return false;
  if (event.getModifierState?.("AltGraph")) return true;
  return altKey && placeOf(code) !== key && (ctrlKey || /[[\]{}@\\|~#/]/.test(key));
}

/**
 * Return the names of a key event in the map: "Ctrl+Enter", "Shift+N", "?", "Space". Letters are compared without case, so
 * Caps Lock changes nothing. The place of the key counts where a layout has no Latin letter or digit on it, and where
 * it has another sign or an accent in place of a bracket.
 * @param {KeyboardEvent} event
 */
export function namesOf(event) {
  const { key, code, shiftKey } = event;
  if (isByAlt(event)) return [key]; // its place and the keys beside it say nothing more
  const isAscii = /^[!-~]$/.test(key);
  const isNamed = key.length > 1 && key !== "Dead";
  const bases = [isAscii || isNamed ? key : key === " " ? "Space" : placeOf(code) || key];
  // AZERTY has its digits above signs, and German has + where ] is
  if (SIGN.test(key) && !shiftKey && /^(Digit|Bracket)/.test(code)) bases.push(placeOf(code));
  return [...new Set(bases)].map((base) => {
    const isLetter = base.length === 1 && base.toLowerCase() !== base.toUpperCase();
    const isShifted = shiftKey && (isLetter || base.length > 1);
    const cased = !isLetter ? base : isShifted ? base.toUpperCase() : base.toLowerCase();
    return `${event.ctrlKey || event.metaKey ? "Ctrl+" : ""}${isShifted ? "Shift+" : ""}${cased}`;
  });
}

/**
 * Return the caps of a spelling: "Ctrl+Enter" -> ["Ctrl", "Enter"], "g q" -> ["g", "q"].
 * @param {string} keys
 */
export function capsOf(keys) {
  return keys.split(/[ +]/).map((cap) => NAMES[cap] || cap);
}

/**
 * Return whether a key does nothing here: bare keys in fields, and all in dialogs and while the next item loads, and with
 * Alt unless a sign is typed by it.
 * @param {KeyboardEvent} event
 * @param {{inField?: boolean, onlyField?: boolean}} key
 * @param {{inField: boolean, inDialog: boolean, loading: boolean}} around
 */
export function isIgnored(event, key, { inField, inDialog, loading }) {
  if (event.defaultPrevented || event.isComposing) return true;
  if ((event.getModifierState?.("AltGraph") || event.altKey) && !isByAlt(event)) return true;
  if (inDialog || loading) return true;
  return inField ? !key.inField : Boolean(key.onlyField);
}

/**
 * Return a function that takes key events and returns the ID that ran. Pure except for `run`. A press belongs to the item on
 * which it went down: a key that is held into the next one does nothing there, nor does the second key of a pair.
 */
export function dispatcher({ page, registry = KEYS, usable, run, surroundings, now = Date.now }) {
  let first = "";
  let firstAt = 0;
  let firstOn = null;
  const down = new Map(); // by code, the item on which a key went down
  return function press(event) {
    if (MODIFIERS.includes(event.key)) return null; // it belongs to the key that follows
    const names = namesOf(event);
    const around = surroundings(event);
    if (event.repeat && down.get(event.code) !== around.item) return null;
    down.set(event.code, around.item);
    const isPair = first && firstOn === around.item && now() - firstAt < PAIR_MS;
    const pairs = isPair ? names.map((name) => `${first} ${name}`) : [];
    first = "";
    const mine = keysOf(page, registry).filter((key) => usable(key.id) && !isIgnored(event, key, around));
    const found = [...pairs, ...names].map((name) => mine.find((key) => key.keys.includes(name))).find(Boolean);
    const begun = names.find((name) => mine.some((key) => key.keys.some((one) => one.startsWith(`${name} `))));
    if (begun && !pairs.some((name) => found?.keys.includes(name))) [first, firstAt, firstOn] = [begun, now(), around.item];
    return !found || run(found.id, event) === false ? null : found.id;
  };
}

const handlers = new Map();

/**
 * Bind a handler to a key. Return false to leave the event unhandled.
 * @param {string} id
 * @param {(event: Event) => any} handler
 */
export function bind(id, handler) {
  if (!KEYS.some((key) => key.id === id)) throw new Error(`no key called ${id}`);
  handlers.set(id, handler);
  whenOver(() => { if (handlers.get(id) === handler) handlers.delete(id); });
}

/**
 * Unbind a key and remove it from every printed list.
 * @param {string} id
 */
export function unbind(id) {
  handlers.delete(id);
}

function targetOf(id) {
  /** @type {NodeListOf<HTMLButtonElement>} links, too, which are never disabled */
  const all = document.querySelectorAll(`[data-act="${id}"]`);
  const found = [...all];
  return found.find((element) => !element.disabled && !element.closest("[hidden], [inert]")) || null;
}

function usable(id) {
  return handlers.has(id) || targetOf(id) !== null;
}

function run(id, event) {
  const handler = handlers.get(id);
  if (handler && handler(event) === false) return false;
  if (!handler) targetOf(id).click();
  event.preventDefault();
  return true;
}

function surroundings(event) {
  const target = event.target instanceof Element ? event.target : document.body;
  const button = target.closest("button, a[href], summary, [role=tab]");
  const presses = button && ["Enter", " "].includes(event.key) && !event.ctrlKey && !event.metaKey;
  return {
    item: document.getElementById("main"),
    inField: Boolean(target.closest("input:not([type=checkbox]):not([type=radio]), textarea, select, [contenteditable]")) || Boolean(presses),
    inDialog: Boolean(document.querySelector("dialog[open]")),
    loading: document.body.hasAttribute("aria-busy"),
  };
}

/**
 * Return <kbd> caps as an element.
 * @param {string} keys
 */
export function caps(keys) {
  const box = document.createDocumentFragment();
  for (const cap of capsOf(keys)) {
    const kbd = document.createElement("kbd");
    kbd.textContent = cap;
    box.append(kbd);
  }
  return box;
}

function printCaps(mine) {
  for (const slot of document.querySelectorAll("[data-cap]")) {
    const key = mine.find((one) => one.id === slot.dataset.cap);
    slot.replaceChildren();
    if (key) slot.append(caps(key.keys[0]));
  }
}

function printLine(mine) {
  const line = document.querySelector("[data-keyline]");
  if (!line) return;
  // what does not fit is cut from the end, so the key of the sheet comes first
  const first = mine.filter((key) => key.line).sort((a, b) => Number(b.id === "help") - Number(a.id === "help"));
  const spans = first.slice(0, HINTS).map((key) => {
    const span = document.createElement("span");
    span.append(caps(key.keys[0]), ` ${key.words}`);
    return span;
  });
  line.replaceChildren(...spans);
}

function entryOf(key) {
  const [dt, dd] = [document.createElement("dt"), document.createElement("dd")];
  dt.append(...key.keys.flatMap((one, n) => (n ? [" or ", caps(one)] : [caps(one)])));
  dd.textContent = key.words;
  return [dt, dd];
}

function printSheet(mine) {
  const sheet = document.querySelector("[data-keysheet]");
  if (!sheet) return;
  sheet.replaceChildren(...GROUPS.flatMap((group) => {
    const keys = mine.filter((key) => groupOf(key) === group);
    const list = Object.assign(document.createElement("dl"), { className: "vocab" });
    list.append(...keys.flatMap(entryOf));
    return keys.length ? [Object.assign(document.createElement("h3"), { textContent: group }), list] : [];
  }));
}

/** Return the keys that have a command on this page now. */
export function usableKeys() {
  return keysOf(document.body.dataset.page || "plain").filter((key) => usable(key.id));
}

/**
 * Run the command of a key.
 * @param {string} id
 */
export function act(id) {
  if (usable(id)) run(id, new Event("act"));
}

/** Print the keys that work on this page now. Call again when buttons appear or leave. */
export function print() {
  if (!listening) return; // every printed key works
  const mine = usableKeys();
  printCaps(mine);
  printLine(mine);
  printSheet(mine);
}

/** Bind the keys of every page, and listen. */
export function start() {
  /** @type {HTMLDialogElement} */
  const sheet = document.getElementById("keys");
  bind("help", () => sheet?.showModal());
  bind("leave", (event) => event.target instanceof HTMLElement && event.target.blur());
  for (const [id, label] of [["go-home", "Home"], ["go-queue", "Queue"], ["go-episodes", "Episodes"], ["go-review", "Review"], ["go-runs", "Runs"], ["go-exports", "Exports"], ["go-connect", "Connect"], ["go-curriculum", "Curriculum"]]) {
    const link = [...document.querySelectorAll('nav[aria-label="Main"] a, .menu-list a')].find((a) => a.textContent.trim() === label);
    if (link) bind(id, () => link.click());
  }
  const field = document.querySelector("[data-search]");
  if (field) bind("search", () => field.focus());
  // by then all modules of the page have run: an earlier key could click a button without its handler
  if (document.readyState === "complete") listen();
  else document.addEventListener("DOMContentLoaded", listen, { once: true });
}

let listening = false;
/** @type {((event: KeyboardEvent) => string | null) | null} */
let press = null;

/**
 * Press the main button of an open dialog by Ctrl+Enter, as it sends on pages.
 * @param {KeyboardEvent} event
 */
function sendDialog(event) {
  const isSend = event.key === "Enter" && (event.ctrlKey || event.metaKey) && !event.altKey && !event.repeat && !event.isComposing;
  /** @type {HTMLButtonElement | null} */
  const main = isSend && !event.defaultPrevented ? document.querySelector("dialog[open] button.main") : null;
  if (!main) return;
  event.preventDefault();
  main.click();
}

function listen() {
  listening = true;
  press = dispatcher({ page: document.body.dataset.page || "plain", usable, run, surroundings });
  document.addEventListener("keydown", (event) => {
    press(event);
    sendDialog(event);
  });
  document.addEventListener("click", (event) => {
    const id = event.target instanceof Element && event.target.closest("[data-act]")?.dataset.act;
    if (!id || !handlers.has(id)) return;
    event.preventDefault();
    handlers.get(id)(event);
  });
  print();
}

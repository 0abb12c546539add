// The registry of keys: it feeds the handlers, every printed <kbd>, the key line, the sheet (?) and the command palette.
// A page binds a handler with `bind(id, fn)`, or has an element with `data-act="id"`, which is then clicked.
// A key without either is printed nowhere. Keys work once all modules of the page have run.

import { whenOver } from "./page-life.js";

/** @typedef {{id: string, keys: string, words: string, page: string, line?: boolean, inField?: boolean}} Key */

/** @type {Key[]} page is "*" or names separated by spaces; keys "g q" is a pair, "Ctrl+Enter" a chord */
export const KEYS = [
  { id: "go-home", keys: "g h", words: "home", page: "*" },
  { id: "go-queue", keys: "g q", words: "queue", page: "*" },
  { id: "go-episodes", keys: "g e", words: "episodes", page: "*" },
  { id: "go-review", keys: "g r", words: "review", page: "*" },
  { id: "go-runs", keys: "g u", words: "runs", page: "*" },
  { id: "go-exports", keys: "g x", words: "exports", page: "*" },
  { id: "go-connect", keys: "g o", words: "connect", page: "*" },
  { id: "go-curriculum", keys: "g c", words: "curriculum", page: "*" },
  { id: "next", keys: "Shift+N", words: "claim next ask", page: "*", line: true },
  { id: "newest-ask", keys: "Ctrl+Shift+J", words: "newest ask", page: "*", inField: true },
  { id: "duty", keys: "Shift+A", words: "switch Available/Away", page: "*" },
  { id: "search", keys: "/", words: "search", page: "*", line: true },
  { id: "down", keys: "j", words: "next row", page: "home queue episodes curriculum", line: true },
  { id: "up", keys: "k", words: "previous row", page: "home queue episodes curriculum", line: true },
  { id: "open", keys: "Enter", words: "open", page: "episodes curriculum", line: true },
  { id: "take", keys: "Enter", words: "claim and open", page: "home queue", line: true },
  { id: "claim", keys: "c", words: "claim", page: "home queue ask review", line: true },
  { id: "release-row", keys: "r", words: "release", page: "home queue", line: true },
  { id: "pass-row", keys: "p", words: "decline", page: "queue" },
  { id: "hand-row", keys: "t", words: "transfer", page: "queue" },
  { id: "unfold", keys: "o", words: "show group", page: "home queue" },
  { id: "choose", keys: "x", words: "select", page: "queue" },
  { id: "choose-down", keys: "Shift+J", words: "extend selection down", page: "queue" },
  { id: "choose-up", keys: "Shift+K", words: "extend selection up", page: "queue" },
  { id: "bulk", keys: "b", words: "bulk actions", page: "queue" },
  { id: "views", keys: "Shift+V", words: "saved views", page: "queue", line: true },
  { id: "show-new", keys: ".", words: "show new rows", page: "home queue" },
  { id: "unselect", keys: "Escape", words: "clear selection", page: "home queue episodes curriculum" },
  { id: "hold", keys: "h", words: "hold a phase", page: "curriculum", line: true },
  { id: "copy-snapshot", keys: "i", words: "copy snapshot ID", page: "curriculum", line: true },
  { id: "turns-after", keys: "]", words: "generations of the next step", page: "curriculum", line: true },
  { id: "turns-before", keys: "[", words: "generations of the step before", page: "curriculum", line: true },
  { id: "build", keys: "Ctrl+Enter", words: "build export", page: "exports", line: true, inField: true },
  { id: "send", keys: "Ctrl+Enter", words: "send and next", page: "ask", line: true, inField: true },
  { id: "send-watch", keys: "Ctrl+Shift+Enter", words: "send and watch", page: "ask", line: true, inField: true },
  { id: "insert-call", keys: "i", words: "insert call", page: "ask", line: true },
  { id: "write", keys: "w", words: "write answer", page: "ask" },
  { id: "draft", keys: "d", words: "model draft", page: "ask", line: true },
  { id: "use-draft", keys: "a", words: "insert the draft", page: "ask" },
  { id: "redraft", keys: "Shift+D", words: "new draft with a hint", page: "ask" },
  { id: "replies", keys: ";", words: "quick replies", page: "ask", line: true },
  { id: "similar", keys: "h", words: "earlier answers", page: "ask", line: true },
  { id: "tables", keys: "t", words: "tables", page: "ask replay" },
  { id: "verifier", keys: "v", words: "verifier", page: "ask", line: true },
  { id: "hand-up", keys: "u", words: "transfer", page: "ask" },
  { id: "hand-model", keys: "l", words: "send to model", page: "ask" },
  { id: "amend", keys: "e", words: "edit answer", page: "ask", line: true },
  { id: "take-back", keys: "z", words: "withdraw answer", page: "ask", line: true },
  { id: "tag-needed", keys: "1", words: "toggle: question was needed", page: "ask" },
  { id: "tag-answerable", keys: "2", words: "toggle: question was answerable", page: "ask" },
  { id: "tag-late", keys: "3", words: "toggle: asked too late", page: "ask" },
  { id: "pass", keys: "p", words: "decline", page: "ask" },
  { id: "keep", keys: "y", words: "save as annotation", page: "ask", line: true },
  { id: "discard", keys: "n", words: "discard", page: "ask", line: true },
  { id: "leave", keys: "Escape", words: "leave field, press again to release", page: "ask", inField: true },
  { id: "save", keys: "Ctrl+Enter", words: "save", page: "desk curriculum", line: true, inField: true },
  { id: "pause", keys: "Space", words: "pause my view", page: "live", line: true },
  { id: "follow", keys: "f", words: "follow", page: "live", line: true },
  { id: "newest", keys: "Shift+G", words: "newest", page: "live", line: true },
  { id: "step-down", keys: "j", words: "next step", page: "live", line: true },
  { id: "step-up", keys: "k", words: "previous step", page: "live", line: true },
  { id: "context-down", keys: "]", words: "next step", page: "ask", line: true },
  { id: "context-up", keys: "[", words: "previous step", page: "ask", line: true },
  { id: "open-all", keys: "o", words: "open all", page: "live ask replay review", line: true },
  { id: "replay", keys: "r", words: "replay", page: "live" },
  { id: "back", keys: "ArrowLeft", words: "previous step", page: "replay review", line: true },
  { id: "forth", keys: "ArrowRight", words: "next step", page: "replay review", line: true },
  { id: "back-mark", keys: "Shift+ArrowLeft", words: "previous write, ask or error", page: "replay review" },
  { id: "forth-mark", keys: "Shift+ArrowRight", words: "next write, ask or error", page: "replay review", line: true },
  { id: "forth-ask", keys: "q", words: "next ask", page: "replay", line: true },
  { id: "back-ask", keys: "Shift+Q", words: "previous ask", page: "replay" },
  { id: "forth-error", keys: "e", words: "next error", page: "replay", line: true },
  { id: "back-error", keys: "Shift+E", words: "previous error", page: "replay" },
  { id: "forth-write", keys: "w", words: "next write", page: "replay" },
  { id: "back-write", keys: "Shift+W", words: "previous write", page: "replay" },
  { id: "forth-said", keys: "l", words: "next label or comment", page: "replay" },
  { id: "back-said", keys: "Shift+L", words: "previous label or comment", page: "replay" },
  { id: "first", keys: "Home", words: "first step", page: "live replay review", line: true },
  { id: "last", keys: "End", words: "last step", page: "live replay review", line: true },
  { id: "play", keys: "Space", words: "play", page: "replay review", line: true },
  { id: "complete", keys: "Ctrl+Enter", words: "give verdict, then next", page: "review", line: true, inField: true },
  { id: "complete-next", keys: "Ctrl+Shift+Enter", words: "give verdict and open next", page: "review", line: true, inField: true },
  { id: "accept", keys: "a", words: "accept", page: "review", line: true },
  { id: "reject", keys: "x", words: "reject", page: "review", line: true },
  { id: "label-1", keys: "1", words: "label 1", page: "review", line: true },
  { id: "label-2", keys: "2", words: "label 2", page: "review" },
  { id: "label-3", keys: "3", words: "label 3", page: "review" },
  { id: "label-4", keys: "4", words: "label 4", page: "review" },
  { id: "label-5", keys: "5", words: "label 5", page: "review" },
  { id: "label-6", keys: "6", words: "label 6", page: "review" },
  { id: "label-7", keys: "7", words: "label 7", page: "review" },
  { id: "label-8", keys: "8", words: "label 8", page: "review" },
  { id: "label-9", keys: "9", words: "label 9", page: "review" },
  { id: "next-value", keys: "]", words: "label the next value of the step", page: "review" },
  { id: "previous-value", keys: "[", words: "label the previous value", page: "review" },
  { id: "letters", keys: "v", words: "select letters of the value", page: "review" },
  { id: "whole-step", keys: "Escape", words: "label the whole step again", page: "review" },
  { id: "failure-1", keys: "s", words: "reject, failure type 1", page: "review" },
  { id: "failure-2", keys: "d", words: "reject, failure type 2", page: "review" },
  { id: "failure-3", keys: "f", words: "reject, failure type 3", page: "review" },
  { id: "failure-4", keys: "h", words: "reject, failure type 4", page: "review" },
  { id: "failure-5", keys: "j", words: "reject, failure type 5", page: "review" },
  { id: "failure-6", keys: "k", words: "reject, failure type 6", page: "review" },
  { id: "failure-7", keys: "l", words: "reject, failure type 7", page: "review" },
  { id: "failure-8", keys: "u", words: "reject, failure type 8", page: "review" },
  { id: "failure-9", keys: "i", words: "reject, failure type 9", page: "review" },
  { id: "should-have", keys: "w", words: "should have done", page: "review", line: true },
  { id: "note", keys: "n", words: "note", page: "review" },
  { id: "verdict", keys: "g v", words: "verdict", page: "review" },
  { id: "undo", keys: "z", words: "undo label or note", page: "review" },
  { id: "decline-review", keys: "Shift+P", words: "decline", page: "review" },
  { id: "next-review", keys: "Enter", words: "review next", page: "reviews", line: true },
  { id: "palette", keys: "Ctrl+k", words: "search commands and pages", page: "*", inField: true },
  { id: "help", keys: "?", words: "keyboard shortcuts", page: "*", line: true },
];

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
  return page === "ask" ? "Ask" : "General";
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

/**
 * Return the name of a key event in the registry: "Ctrl+Enter", "Shift+N", "?", "Space".
 * @param {KeyboardEvent} event
 */
export function nameOf(event) {
  const key = event.key === " " ? "Space" : event.key;
  const letter = key.length === 1 && key.toLowerCase() !== key.toUpperCase();
  const shift = event.shiftKey && (letter || key.length > 1);
  const base = letter && shift ? key.toUpperCase() : key;
  return `${event.ctrlKey || event.metaKey ? "Ctrl+" : ""}${shift ? "Shift+" : ""}${base}`;
}

/**
 * Return the caps of a registry entry: "Ctrl+Enter" -> ["Ctrl", "Enter"], "g q" -> ["g", "q"].
 * @param {string} keys
 */
export function capsOf(keys) {
  return keys.split(/[ +]/).map((cap) => NAMES[cap] || cap);
}

/**
 * Return whether a key does nothing here: bare keys in fields, and all in dialogs, with AltGr and while the next item loads.
 * @param {KeyboardEvent} event
 * @param {{inField?: boolean}} key
 * @param {{inField: boolean, inDialog: boolean, loading: boolean}} around
 */
export function isIgnored(event, key, { inField, inDialog, loading }) {
  if (event.defaultPrevented || event.isComposing) return true;
  if (event.getModifierState?.("AltGraph") || event.altKey) return true;
  if (inDialog || loading) return true;
  return inField && !key.inField;
}

/** Return a function that takes key events and returns the ID that ran. Pure except for `run`. */
export function dispatcher({ page, registry = KEYS, usable, run, surroundings, now = Date.now }) {
  let first = "";
  let firstAt = 0;
  return function press(event) {
    const name = nameOf(event);
    const pair = first && now() - firstAt < PAIR_MS ? `${first} ${name}` : "";
    first = "";
    const mine = keysOf(page, registry).filter((key) => usable(key.id));
    const found = mine.find((key) => key.keys === pair) || mine.find((key) => key.keys === name);
    if (found) {
      if (isIgnored(event, found, surroundings(event))) return null;
      return run(found.id, event) === false ? null : found.id;
    }
    if (mine.some((key) => key.keys.startsWith(`${name} `)) && !isIgnored(event, { inField: false }, surroundings(event))) {
      [first, firstAt] = [name, now()];
    }
    return null;
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
    if (key) slot.append(caps(key.keys));
  }
}

function printLine(mine) {
  const line = document.querySelector("[data-keyline]");
  if (!line) return;
  // what does not fit is cut from the end, so the key of the sheet comes first
  const first = mine.filter((key) => key.line).sort((a, b) => Number(b.id === "help") - Number(a.id === "help"));
  const spans = first.slice(0, HINTS).map((key) => {
    const span = document.createElement("span");
    span.append(caps(key.keys), ` ${key.words}`);
    return span;
  });
  line.replaceChildren(...spans);
}

function entryOf(key) {
  const [dt, dd] = [document.createElement("dt"), document.createElement("dd")];
  dt.append(caps(key.keys));
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

function listen() {
  listening = true;
  const press = dispatcher({ page: document.body.dataset.page || "plain", usable, run, surroundings });
  document.addEventListener("keydown", press);
  document.addEventListener("click", (event) => {
    const id = event.target instanceof Element && event.target.closest("[data-act]")?.dataset.act;
    if (!id || !handlers.has(id)) return;
    event.preventDefault();
    handlers.get(id)(event);
  });
  print();
}

// One registry of keys: it feeds the handlers, every printed <kbd>, the key line and the ? sheet.
// A page binds a handler with bind(id, fn), or carries an element with data-act="id", which is then clicked.
// A key without either is printed nowhere.

/** @typedef {{id: string, keys: string, words: string, page: string, line?: boolean, inField?: boolean}} Key */

/** @type {Key[]} page is "*" or names separated by spaces; keys "g q" is a pair, "Ctrl+Enter" a chord */
export const KEYS = [
  { id: "go-home", keys: "g n", words: "now", page: "*" },
  { id: "go-queue", keys: "g q", words: "queue", page: "*" },
  { id: "go-episodes", keys: "g e", words: "episodes", page: "*" },
  { id: "go-exports", keys: "g x", words: "exports", page: "*" },
  { id: "go-connect", keys: "g o", words: "connect", page: "*" },
  { id: "next", keys: "Shift+N", words: "next for me", page: "*", line: true },
  { id: "newest-ask", keys: "Ctrl+Shift+J", words: "newest ask", page: "*", inField: true },
  { id: "duty", keys: "Shift+A", words: "on duty or away", page: "*" },
  { id: "search", keys: "/", words: "search", page: "*", line: true },
  { id: "down", keys: "j", words: "next row", page: "home queue episodes", line: true },
  { id: "up", keys: "k", words: "row before", page: "home queue episodes", line: true },
  { id: "open", keys: "Enter", words: "open", page: "episodes", line: true },
  { id: "take", keys: "Enter", words: "claim and open", page: "home queue", line: true },
  { id: "claim", keys: "c", words: "claim", page: "home queue ask", line: true },
  { id: "release-row", keys: "r", words: "release", page: "home queue", line: true },
  { id: "pass-row", keys: "p", words: "pass", page: "queue", line: true },
  { id: "hand-row", keys: "t", words: "hand over", page: "queue", line: true },
  { id: "unfold", keys: "o", words: "unfold the group", page: "home queue" },
  { id: "choose", keys: "x", words: "choose", page: "queue", line: true },
  { id: "choose-down", keys: "Shift+J", words: "choose on, downwards", page: "queue" },
  { id: "choose-up", keys: "Shift+K", words: "choose on, upwards", page: "queue" },
  { id: "bulk", keys: "b", words: "act on the chosen", page: "queue", line: true },
  { id: "views", keys: "Shift+V", words: "saved views", page: "queue", line: true },
  { id: "show-new", keys: ".", words: "show new rows", page: "home queue" },
  { id: "unselect", keys: "Escape", words: "let go of the row", page: "home queue episodes" },
  { id: "build", keys: "Ctrl+Enter", words: "build export", page: "exports", line: true, inField: true },
  { id: "send", keys: "Ctrl+Enter", words: "send and next", page: "ask", line: true, inField: true },
  { id: "send-watch", keys: "Ctrl+Shift+Enter", words: "send and watch", page: "ask", line: true, inField: true },
  { id: "insert-call", keys: "i", words: "insert call", page: "ask", line: true },
  { id: "write", keys: "w", words: "write advice", page: "ask", line: true },
  { id: "draft", keys: "d", words: "model draft", page: "ask", line: true },
  { id: "use-draft", keys: "a", words: "insert the draft", page: "ask" },
  { id: "redraft", keys: "Shift+D", words: "another draft, with a hint", page: "ask" },
  { id: "replies", keys: ";", words: "quick replies", page: "ask", line: true },
  { id: "similar", keys: "h", words: "earlier answers", page: "ask", line: true },
  { id: "tables", keys: "t", words: "tables", page: "ask" },
  { id: "verifier", keys: "v", words: "verifier", page: "ask", line: true },
  { id: "hand-up", keys: "u", words: "hand up", page: "ask", line: true },
  { id: "hand-model", keys: "l", words: "hand to the model", page: "ask", line: true },
  { id: "amend", keys: "e", words: "amend", page: "ask", line: true },
  { id: "take-back", keys: "z", words: "take back", page: "ask", line: true },
  { id: "tag-needed", keys: "1", words: "the question was needed, was not", page: "ask" },
  { id: "tag-answerable", keys: "2", words: "it could be answered, could not", page: "ask" },
  { id: "tag-late", keys: "3", words: "it was asked too late, in time", page: "ask" },
  { id: "pass", keys: "p", words: "pass", page: "ask", line: true },
  { id: "keep", keys: "y", words: "keep as annotation", page: "ask", line: true },
  { id: "discard", keys: "n", words: "discard", page: "ask", line: true },
  { id: "leave", keys: "Escape", words: "leave field, again: release", page: "ask", line: true, inField: true },
  { id: "save", keys: "Ctrl+Enter", words: "save", page: "desk", line: true, inField: true },
  { id: "pause", keys: "Space", words: "pause my view", page: "live", line: true },
  { id: "follow", keys: "f", words: "follow", page: "live", line: true },
  { id: "newest", keys: "Shift+G", words: "newest", page: "live", line: true },
  { id: "step-down", keys: "j", words: "next step", page: "live", line: true },
  { id: "step-up", keys: "k", words: "step before", page: "live", line: true },
  { id: "context-down", keys: "]", words: "next step", page: "ask", line: true },
  { id: "context-up", keys: "[", words: "step before", page: "ask", line: true },
  { id: "open-all", keys: "o", words: "open all", page: "live ask replay", line: true },
  { id: "replay", keys: "r", words: "replay", page: "live" },
  { id: "back", keys: "ArrowLeft", words: "step before", page: "replay", line: true },
  { id: "forth", keys: "ArrowRight", words: "next step", page: "replay", line: true },
  { id: "back-mark", keys: "Shift+ArrowLeft", words: "write, ask or error before", page: "replay" },
  { id: "forth-mark", keys: "Shift+ArrowRight", words: "next write, ask or error", page: "replay", line: true },
  { id: "first", keys: "Home", words: "first step", page: "live replay", line: true },
  { id: "last", keys: "End", words: "last step", page: "live replay", line: true },
  { id: "play", keys: "Space", words: "play", page: "replay", line: true },
  { id: "palette", keys: "Ctrl+k", words: "find a deed or a place", page: "*", inField: true },
  { id: "help", keys: "?", words: "all keys", page: "*", line: true },
];

const NAMES = { Escape: "Esc", ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓", Shift: "⇧" };
const PAIR_MS = 1200;

/**
 * Keys of one page, its own first.
 * @param {string} page
 * @param {Key[]} [registry]
 */
export function keysOf(page, registry = KEYS) {
  const own = registry.filter((key) => key.page.split(" ").includes(page));
  return [...own, ...registry.filter((key) => key.page === "*")];
}

/**
 * What a key event is called in the registry: "Ctrl+Enter", "Shift+N", "?", "Space".
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
 * Caps to print for a registry entry: "Ctrl+Enter" -> ["Ctrl", "Enter"], "g q" -> ["g", "q"].
 * @param {string} keys
 */
export function capsOf(keys) {
  return keys.split(/[ +]/).map((cap) => NAMES[cap] || cap);
}

/**
 * Bare keys are dead in fields, in dialogs, with AltGr and while the next item loads.
 * @param {KeyboardEvent} event
 * @param {{inField?: boolean}} key
 * @param {{inField: boolean, inDialog: boolean, loading: boolean}} around
 */
export function isDead(event, key, { inField, inDialog, loading }) {
  if (event.defaultPrevented || event.isComposing) return true;
  if (event.getModifierState?.("AltGraph") || event.altKey) return true;
  if (inDialog || loading) return true;
  return inField && !key.inField;
}

/** The dispatcher: pure but for what `run` does. Feed it events with press(); it answers the id that ran. */
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
      if (isDead(event, found, surroundings(event))) return null;
      return run(found.id, event) === false ? null : found.id;
    }
    if (mine.some((key) => key.keys.startsWith(`${name} `)) && !isDead(event, { inField: false }, surroundings(event))) {
      [first, firstAt] = [name, now()];
    }
    return null;
  };
}

const handlers = new Map();

/**
 * Give a key its deed. A deed that answers false did not take the key.
 * @param {string} id
 * @param {(event: Event) => any} handler
 */
export function bind(id, handler) {
  if (!KEYS.some((key) => key.id === id)) throw new Error(`no key called ${id}`);
  handlers.set(id, handler);
}

/**
 * Take the key away again, from the handlers and from every printed line.
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
 * <kbd> caps as an element.
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
  // what does not fit is left out from the end, and the way to all keys must not be that
  const first = mine.filter((key) => key.line).sort((a, b) => Number(b.id === "help") - Number(a.id === "help"));
  const spans = first.map((key) => {
    const span = document.createElement("span");
    span.append(caps(key.keys), ` ${key.words}`);
    return span;
  });
  line.replaceChildren(...spans);
}

function printSheet(mine) {
  const sheet = document.querySelector("[data-keysheet]");
  if (!sheet) return;
  sheet.replaceChildren(...mine.flatMap((key) => {
    const [dt, dd] = [document.createElement("dt"), document.createElement("dd")];
    dt.append(caps(key.keys));
    dd.textContent = key.words;
    return [dt, dd];
  }));
}

/** The keys that have a deed on this page now. */
export function usableKeys() {
  return keysOf(document.body.dataset.page || "plain").filter((key) => usable(key.id));
}

/**
 * Do what a key does, without the key.
 * @param {string} id
 */
export function act(id) {
  if (usable(id)) run(id, new Event("act"));
}

/** Print what works on this page now. Call again when buttons came or went. */
export function print() {
  if (!listening) return; // what is printed works
  const mine = usableKeys();
  printCaps(mine);
  printLine(mine);
  printSheet(mine);
}

/** Listen. */
export function start() {
  /** @type {HTMLDialogElement} */
  const sheet = document.getElementById("keys");
  bind("help", () => sheet?.showModal());
  for (const [id, label] of [["go-home", "Now"], ["go-queue", "Queue"], ["go-episodes", "Episodes"], ["go-exports", "Exports"], ["go-connect", "Connect"]]) {
    const link = [...document.querySelectorAll('nav[aria-label="Main"] a')].find((a) => a.textContent.trim() === label);
    if (link) bind(id, () => link.click());
  }
  const field = document.querySelector("[data-search]");
  if (field) bind("search", () => field.focus());
  // all modules of the page have run by then: a key before that would meet a button whose deed nobody knows yet
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

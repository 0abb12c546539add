// Keys: from the map (`key-map.js`) to the handlers, every printed <kbd>, the key line, the sheet (?) and the command palette.
// A page binds a handler with `bind(id, fn)`, or has an element with `data-act="id"`, which is then clicked.
// A key without either is printed nowhere, and one that does not work at this moment is not drawn (`key-rule.js`). Keys work once
// all modules of the page have run.

import { KEYS } from "./key-map.js";
import { astray, dispatcher, isField, keysOf, leaveField, listens, readableSince, working } from "./key-rule.js";
import { whenOver } from "./page-life.js";

/** @typedef {import("./key-map.js").Key} Key */

const NAMES = { Escape: "Esc", ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓", PageUp: "Page ↑", PageDown: "Page ↓", Shift: "⇧" };
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
 * Return the caps of a spelling: "Ctrl+Enter" -> ["Ctrl", "Enter"], "g q" -> ["g", "q"].
 * @param {string} keys
 */
export function capsOf(keys) {
  return keys.split(/[ +]/).map((cap) => NAMES[cap] || cap);
}

const handlers = new Map();

/**
 * Bind a handler to a key. Return false to leave the event unhandled. Where `when` says no, the key does nothing and is not drawn.
 * @param {string} id
 * @param {(event: Event) => any} handler
 * @param {() => boolean} [when]
 */
export function bind(id, handler, when = () => true) {
  if (!KEYS.some((key) => key.id === id)) throw new Error(`no key called ${id}`);
  const bound = { handler, when };
  handlers.set(id, bound);
  whenOver(() => { if (handlers.get(id) === bound) handlers.delete(id); });
}

/**
 * Unbind a key and remove it from every printed list.
 * @param {string} id
 */
export function unbind(id) {
  handlers.delete(id);
}

/** Return the elements that are clicked, the first of each ID. */
function targets() {
  const found = new Map();
  for (const element of /** @type {NodeListOf<HTMLButtonElement>} links, too, which are never disabled */ (document.querySelectorAll("[data-act]"))) {
    const { act: id } = element.dataset;
    if (!found.has(id) && !element.disabled && !element.closest("[hidden], [inert]")) found.set(id, element);
  }
  return found;
}

const hasCommand = (clicked = targets()) => (/** @type {string} */ id) => handlers.has(id) || clicked.has(id);
const usableIn = (clicked = targets()) => (/** @type {string} */ id) => (handlers.has(id) ? handlers.get(id).when() : clicked.has(id));

function run(id, event) {
  const bound = handlers.get(id);
  if (bound && bound.handler(event) === false) return false;
  if (!bound) targets().get(id).click();
  event.preventDefault();
  return true;
}

const PRESSED = "button, a[href], summary, [role=tab]";

/**
 * Return where a press falls that is made at an element.
 * @param {Element | null} element
 * @returns {import("./key-rule.js").Around}
 */
function aroundAt(element) {
  return { inField: isField(element), onButton: Boolean(element?.closest(PRESSED)), inDialog: false, loading: false };
}

/** Return what a press belongs to: the list beside the item, unless the focus is in the item. @param {Element} element */
const itemAt = (element) => element.closest("#list, #main") || document.getElementById("list") || document.getElementById("main");

const surroundings = (/** @type {KeyboardEvent} */ event) => ({
  ...aroundAt(event.target instanceof Element ? event.target : document.body),
  item: itemAt(event.target instanceof Element ? event.target : document.body),
  since: itemAt(event.target instanceof Element ? event.target : document.body)?.id === "list" ? 0 : readableSince(),
  inDialog: Boolean(document.querySelector("dialog[open]")),
  loading: document.body.hasAttribute("aria-busy"),
});

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

/**
 * Draw the caps of keys that work now. The others keep their room, so that nothing moves when the cursor enters a field.
 * @param {Key[]} mine
 */
function printCaps(mine) {
  const has = hasCommand();
  for (const slot of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-cap]"))) {
    const { cap: id } = slot.dataset;
    const awake = mine.find((key) => key.id === id);
    const drawn = awake || (has(id) && pageKeys(slot).find((key) => key.id === id));
    const spelling = drawn ? drawn.keys[0] : "";
    if (slot.textContent !== capsOf(spelling).join("")) slot.replaceChildren(...(spelling ? [caps(spelling)] : []));
    if (slot.hasAttribute("data-asleep") !== Boolean(drawn && !awake)) slot.toggleAttribute("data-asleep");
  }
}

function printLine(mine) {
  const line = /** @type {HTMLElement | null} */ (document.querySelector("[data-keyline]"));
  if (!line) return;
  // what does not fit is cut from the end, so the key of the sheet comes first
  const first = mine.filter((key) => key.line).sort((a, b) => Number(b.id === "help") - Number(a.id === "help")).slice(0, HINTS);
  const spans = first.map((key) => {
    const span = document.createElement("span");
    span.append(caps(key.keys[0]), ` ${key.words}`);
    return span;
  });
  const words = spans.map((span) => span.textContent).join("");
  if (line.textContent !== words) line.replaceChildren(...spans);
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

/** Return the page that keys are of at an element: an ask beside a list has its own. @param {Element | null} [at] */
const pageAt = (at) => /** @type {HTMLElement | null} */ ((at || document.body).closest("[data-page]"))?.dataset.page || "plain";

/** @param {Element | null} [at] */
const pageKeys = (at) => keysOf(pageAt(at));

/**
 * Return the keys that work now, at the element with the focus or at another.
 * @param {Element | null} [element]
 */
export const workingKeys = (element = document.activeElement) => working(pageKeys(element), usableIn(), aroundAt(element));

/** Return the keys that have a command on this page now, outside of fields. */
export const usableKeys = () => workingKeys(document.body);

/**
 * Run the command of a key.
 * @param {string} id
 */
export function act(id) {
  if (usableIn()(id)) run(id, new Event("act"));
}

/** Print the keys that work now. It is done again when parts of the page, or the focus, change. */
export function print() {
  if (!listening || document.querySelector("dialog[open]")) return; // every printed key works; the page behind a dialog waits
  const mine = workingKeys();
  printCaps(mine);
  printLine(mine);
}

let isDue = false;

function printSoon() {
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(() => {
    isDue = false;
    print();
  });
}

/** Print again whenever commands come or go. */
function keepPrinted() {
  const attributeFilter = ["data-act", "data-cap", "disabled", "hidden", "inert", "open", "aria-selected", "data-gone"];
  new MutationObserver(printSoon).observe(document.body, { childList: true, subtree: true, attributeFilter });
  for (const kind of ["focusin", "focusout"]) document.addEventListener(kind, printSoon);
}

/** Bind the keys of every page, and listen. */
export function start() {
  /** @type {HTMLDialogElement} */
  const sheet = document.getElementById("keys");
  bind("help", () => {
    printSheet(usableKeys());
    sheet.showModal();
  }, () => Boolean(sheet));
  bind("leave", (event) => event.target instanceof HTMLElement && leaveField(event.target));
  for (const [id, label] of [["go-home", "Home"], ["go-queue", "Queue"], ["go-episodes", "Episodes"], ["go-review", "Review"], ["go-runs", "Runs"], ["go-exports", "Exports"], ["go-connect", "Connect"], ["go-curriculum", "Curriculum"], ["go-metrics", "Metrics"]]) {
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

/**
 * Return the button that sends a plain form from its text: its main one, or its only one, unless that deletes.
 * @param {HTMLFormElement | null | undefined} form
 * @returns {HTMLButtonElement | undefined}
 */
export function sendsForm(form) {
  const own = /** @type {HTMLButtonElement[]} */ ([...(form?.elements ?? [])].filter((one) => one.matches("button")));
  const buttons = own.filter((one) => one.type === "submit");
  const [button, ...more] = buttons.filter((one) => buttons.length === 1 || one.classList.contains("main"));
  return more.length || button?.disabled || button?.classList.contains("warn") ? undefined : button;
}

/** Return what Ctrl+Enter sends where no command of the page has it: an open dialog, or the plain form of a text. */
function senderAt(/** @type {HTMLElement} */ at) {
  if (document.querySelector("dialog[open]")) return document.querySelector("dialog[open] button.main");
  const isPlain = at.matches("textarea") && !pageKeys(at).some(({ keys }) => keys.includes("Ctrl+Enter"));
  return isPlain && !document.body.hasAttribute("aria-busy") ? sendsForm(/** @type {HTMLTextAreaElement} */ (at).form) : null;
}

/**
 * Press the button of an open dialog or of a plain form by Ctrl+Enter, as it sends on pages.
 * @param {KeyboardEvent} event
 */
function sendPlain(event) {
  const isSend = event.key === "Enter" && (event.ctrlKey || event.metaKey) && !event.altKey && !event.repeat && !event.isComposing;
  const button = isSend && !event.defaultPrevented && event.target instanceof HTMLElement ? senderAt(event.target) : null;
  if (!button) return;
  event.preventDefault();
  /** @type {HTMLButtonElement} */ (button).click();
}

function listen() {
  listening = true;
  listens();
  let usable = usableIn();
  const look = (/** @type {KeyboardEvent} */ event) => {
    usable = usableIn();
    return surroundings(event);
  };
  const of = (page) => dispatcher({ page, usable: (id) => usable(id), run, surroundings: look });
  const press = new Map();
  document.addEventListener("keydown", (event) => {
    const page = pageAt(event.target instanceof Element ? event.target : null);
    if (!press.has(page)) press.set(page, of(page));
    if (!press.get(page)(event)) astray(event);
    sendPlain(event);
  });
  document.addEventListener("click", (event) => {
    const id = event.target instanceof Element && event.target.closest("[data-act]")?.dataset.act;
    if (!id || !handlers.has(id)) return;
    event.preventDefault();
    handlers.get(id).handler(event);
  });
  keepPrinted();
  print();
}

// The queue in two panes on wide screens: the list at the left, and at the right the ask that is in view there. Looking claims
// nothing: the first letter, decision or `Enter` does (`ask-form.js`). On narrow screens a row opens its page.
//
// The list keeps its keys while the focus is in it, and the ask has those of its page (`keys.js`). The address names the ask, so
// that a reload or a link shows it again.

import { moveOn, action, selectRow } from "../forms/list-keys.js";
import { contentOf } from "../forms/next-page.js";
import { inProject, isBeside } from "../shell/address.js";
import { bind } from "../shell/keys.js";
import { focusPart, opened } from "../shell/key-rule.js";
import { begin, end } from "../shell/page-life.js";
import { renew } from "../shell/shell.js";
import { say } from "../shell/toast.js";
import { firstPart, form, startAnswer } from "./ask-form.js";
import { start as startAsk } from "./ask.js";

const WIDE = globalThis.matchMedia?.("(min-width: 1200px)");
const REST_MS = 120; // after the last of several presses
const [NOT_HERE, DONE] = ["This ask can't be shown. Try again.", new Set(["pass", "hand", "release"])];

let shown = ""; // the ask in the pane
let wanted = "";
let waiting = null;

const pane = () => document.getElementById("main");
const rowOf = (ask) => /** @type {HTMLElement | null} */ (document.querySelector(`.askrow[data-key="${CSS.escape(ask)}"]`));
const selected = () => /** @type {HTMLElement | null} */ (document.querySelector('[data-list] [aria-selected="true"]'));

/** Make the page of the queue its list, with an empty pane beside it. */
function split() {
  const main = pane();
  const list = Object.assign(document.createElement("section"), { id: "list", className: "page", tabIndex: -1 });
  list.setAttribute("aria-label", "Queue");
  const ask = Object.assign(document.createElement("main"), { id: "main", tabIndex: -1 });
  main.replaceWith(list, ask);
  list.append(...main.childNodes);
  document.body.classList.add("two");
  begin(); // what starts from here on is the pane's, and the list stays
  empty();
}

function empty() {
  shown = "";
  const words = Object.assign(document.createElement("p"), { className: "meta pad", textContent: "Select an ask to look at it. Looking claims nothing." });
  pane().replaceChildren(words);
  for (const { name } of [...pane().attributes]) if (name.startsWith("data-")) pane().removeAttribute(name);
}

/** Put the ask of the pane into the address; none takes it out. @param {string} ask */
function keepInAddress(ask) {
  const here = new URL(location.href);
  if (ask) here.searchParams.set("ask", ask);
  else here.searchParams.delete("ask");
  history.replaceState(null, "", here);
}

/**
 * Show an ask in the pane.
 * @param {string} ask
 * @param {{isFocused?: boolean, claims?: boolean}} [how] whether the focus goes to its answer, and whether it is claimed
 */
async function show(ask, { isFocused = false, claims = false } = {}) {
  wanted = ask;
  let text = "";
  try {
    const response = await fetch(inProject(`asks/${ask}/look`), { credentials: "same-origin" });
    if (response.ok && !response.redirected) text = await response.text();
  } catch {
    // lost: said below
  }
  if (wanted !== ask) return; // another row is in view by now
  document.body.removeAttribute("aria-busy");
  const content = text && contentOf(text);
  if (!content || !content.main.dataset.ask) return say(NOT_HERE, true);
  mount(content.main);
  shown = ask;
  keepInAddress(ask);
  if (isFocused) focusPart(form ? firstPart() : pane());
  if (claims && form) startAnswer();
}

/** @param {HTMLElement} main */
function mount(main) {
  const had = pane();
  const within = had.contains(document.activeElement);
  end();
  had.replaceWith(main);
  /** @type {any} */ (globalThis).htmx?.process(main);
  renew();
  opened(main);
  startAsk();
  if (within) focusPart(form ? firstPart() : main);
}

/** The pane follows the row in view, once the keys rest. */
function follow({ detail: { row } }) {
  if (!isBeside()) return;
  clearTimeout(waiting);
  const ask = row?.closest(".askrow")?.dataset.key;
  if (!ask || ask === shown) return;
  wanted = ask;
  waiting = setTimeout(() => show(ask), REST_MS);
}

/** Begin to answer the row in view: claim it, with the focus where its answer is written. */
async function enter() {
  const ask = selected()?.closest(".askrow")?.dataset.key;
  if (!ask) return;
  clearTimeout(waiting);
  if (ask !== shown) return show(ask, { isFocused: true, claims: true });
  focusPart(form ? firstPart() : pane());
  if (form) startAnswer();
}

/**
 * An ask is answered, declined or transferred, with the `others` that the answer went to: the next one that waits is in view. After
 * an answer its field has the focus, else the list has it.
 */
function leave({ detail: { ask, isSent = false, others = [] } }) {
  if (!isBeside()) return;
  const row = rowOf(ask);
  for (const done of [row, ...others.map(rowOf)]) done?.setAttribute("data-gone", "");
  if (document.activeElement instanceof HTMLElement) document.activeElement.blur();
  const next = row ? moveOn(row) : selected()?.closest(".askrow")?.dataset.key;
  clearTimeout(waiting);
  wanted = ""; // a look at it that is on its way shows nothing
  if (!isSent || !next) focusPart(document.getElementById("list"));
  if (next && next !== ask) {
    if (isSent) document.body.setAttribute("aria-busy", "true"); // what is typed now is meant for the next one
    show(next, { isFocused: isSent });
  } else {
    end();
    selectRow(null);
    empty();
    keepInAddress("");
  }
  document.dispatchEvent(new Event("awm:look-again"));
}

/** Send a command of the pane's ask as the list does, so that no page is loaded. */
async function command(event) {
  const sent = /** @type {HTMLFormElement} */ (event.target);
  if (!isBeside() || !pane().contains(sent) || event.defaultPrevented) return;
  const name = new URL(sent.action).pathname.split("/").at(-1);
  if (!DONE.has(name)) return;
  event.preventDefault();
  sent.closest("dialog")?.close();
  if (name !== "pass" && !(await startAnswer())) return; // who transfers an ask claims it first
  const row = rowOf(shown) || Object.assign(document.createElement("li"), { className: "askrow" });
  row.dataset.key ||= shown;
  row.dataset.actions ||= inProject(`queue/${shown}/x`);
  action(row, name, Object.fromEntries(new FormData(sent)));
}

/** A click on a row shows its ask, unless it opens another tab or presses something in it; `Enter` on it begins to answer. */
function click(event) {
  const target = /** @type {Element} */ (event.target);
  const row = isBeside() && /** @type {HTMLElement | null} */ (target.closest("#list .askrow[data-key]"));
  if (!row || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey || event.button) return;
  if (target.closest("button, input, label, summary, a:not([data-row=open], [data-row=claim])")) return;
  if (target.closest("a")) event.preventDefault();
  selectRow(row);
  if (event.detail === 0) enter(); // Enter on the link, not the pointer
  else focusPart(document.getElementById("list"));
}

function start() {
  if (!WIDE.matches || !document.querySelector("[data-part=asks]")) return;
  bind("to-list", () => focusPart(document.getElementById("list")), isBeside);
  split();
  document.addEventListener("awm:row", follow);
  document.addEventListener("awm:enter", enter);
  document.addEventListener("awm:left", leave);
  document.addEventListener("awm:look-ask", () => { if (shown) show(shown); });
  document.addEventListener("submit", command, true); // before what takes it for a page that is left
  document.addEventListener("click", click);
  const linked = new URL(location.href).searchParams.get("ask");
  if (!linked) return;
  const row = rowOf(linked);
  if (row) selectRow(row);
  clearTimeout(waiting);
  show(linked);
}

start();

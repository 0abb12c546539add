// Keys for lists: j and k move, Home and End go to the ends, Enter opens, c claims, r releases, p declines, t transfers, x selects, Esc clears.
// Rows are `[data-key]` in `[data-list]`. A row's commands are addresses below its `data-actions`.

import { bind, print } from "../shell/keys.js";
import { release } from "../shell/html-merge.js";
import { post } from "../shell/post.js";
import { say } from "../shell/toast.js";
import { counted } from "../shell/numbers.js";

const folded = (row) => row.parentElement.closest("details:not([open])");
const rows = () => [...document.querySelectorAll("[data-list] [data-key]:not(.empty)")].filter((row) => !folded(row));
const selected = () => document.querySelector('[data-list] [aria-selected="true"]');
const isClosed = (row) => row.hasAttribute("data-gone");

/**
 * Return the index that the selection moves to from `at` (-1: none) by `step`, in a list of `count`.
 * @param {number} at
 * @param {number} step
 * @param {number} count
 */
export function moved(at, step, count) {
  if (!count) return -1;
  if (at < 0) return step > 0 ? 0 : count - 1;
  return Math.min(count - 1, Math.max(0, at + step));
}

/**
 * Return the index that the selection moves to, over rows that are closed; without another row it stays.
 * @param {number} at
 * @param {number} step
 * @param {boolean[]} closed
 */
export function movedOver(at, step, closed) {
  let to = moved(at, step, closed.length);
  while (closed[to] && to + step >= 0 && to + step < closed.length) to += step;
  return closed[to] ? at : to;
}

/** Scroll a row into view, above the bar of the selection. */
function show(row) {
  row.scrollIntoView({ block: "nearest" });
  const bar = document.querySelector(".bulk");
  const covered = bar?.checkVisibility() ? row.getBoundingClientRect().bottom - bar.getBoundingClientRect().top : 0;
  if (covered > 0) window.scrollBy(0, covered);
}

function select(row) {
  selected()?.removeAttribute("aria-selected");
  row?.setAttribute("aria-selected", "true");
  if (row) show(row);
  document.dispatchEvent(new CustomEvent("awm:row", { detail: { row } }));
}

/** Select a row, as keys do. */
export const selectRow = select;

const WAITS = ["mine", "free", "looks"];

/**
 * Return what comes after the row at `at`: the first that waits in the rest of its group, which can be folded, then behind it, then
 * the nearest that waits before it, else the next open row.
 * @template {{isClosed: boolean, place?: string, group: unknown}} Row
 * @param {Row[]} all with the folded ones, in the order of the list
 * @param {number} at
 * @returns {Row | null}
 */
export function nextAfter(all, at) {
  const waits = (/** @type {Row} */ one) => one !== all[at] && !one.isClosed && (one.place === undefined || WAITS.includes(one.place));
  const [behind, before] = [all.slice(at + 1), all.slice(0, Math.max(at, 0)).reverse()];
  const group = all.filter(({ group: one }) => one === all[at]?.group);
  return [...group, ...behind, ...before].find(waits) || [...behind, ...before].find((one) => !one.isClosed) || null;
}

/**
 * Select the row after one that is done. A folded group stays folded: its head is selected for the one that comes next, whose key is returned.
 * @param {HTMLElement} row
 */
export function moveOn(row) {
  const everyRow = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("[data-list] [data-key]:not(.empty)")]);
  const headOf = (/** @type {HTMLElement} */ one) => one.closest("[data-same]")?.closest("[data-key]") || one;
  const all = everyRow.map((one) => ({ row: one, isClosed: isClosed(one), place: one.dataset.place, group: headOf(one) }));
  const next = nextAfter(all, everyRow.indexOf(row))?.row;
  select((next && folded(next) && headOf(next)) || next || null);
  return next?.dataset.key || "";
}

function move(step, from = selected()) {
  const all = rows();
  select(all[movedOver(all.indexOf(from), step, all.map(isClosed))]);
}

/** Return the nearest row in a direction that passes. @param {number} step @param {(row: Element) => boolean} passes */
function nearest(step, passes) {
  const all = rows();
  const at = all.indexOf(selected());
  const left = step > 0 ? all.slice(at + 1) : all.slice(0, Math.max(at, 0)).reverse();
  return left.find(passes);
}

/** Return whether a row in a direction passes. @param {number} step @param {(row: Element) => boolean} passes */
export const canMoveTo = (step, passes) => Boolean(nearest(step, passes));

/**
 * Select the nearest row in a direction that passes.
 * @param {number} step
 * @param {(row: Element) => boolean} passes
 */
export function moveTo(step, passes) {
  const row = nearest(step, passes);
  if (row) select(row);
  return Boolean(row);
}

/** Return the control of the selected row; without a selection the first on the page. */
const part = (name) => {
  const row = selected();
  return row && isClosed(row) ? null : (row || document).querySelector(`[data-row="${name}"]`);
};

const hasRows = () => rows().length > 0;
const hasRow = () => Boolean(selected());
// beside an ask the row in view is that of the ask, which stays while it is open
const isLeavable = () => hasRow() && (!document.getElementById("list") || isClosed(selected()));
const linkInView = () => /** @type {HTMLElement | null} */ (selected()?.querySelector('[data-row="open"]') || selected()?.querySelector("a"));

/** Return whether a row is in view that leads somewhere. */
export const canOpen = () => Boolean(linkInView());

/** Open the row in view. */
export function open() {
  const link = linkInView();
  link?.click();
  return Boolean(link);
}

/** Send a row's command without leaving the page; the frame that follows changes the row. */
export async function action(row, name, fields = {}) {
  const { ok, answer, error } = await post(row.dataset.actions.replace(/x$/, name), new URLSearchParams(fields));
  say(ok ? answer.said : error.message, !ok);
  if (ok && name !== "claim" && name !== "release") document.dispatchEvent(new CustomEvent("awm:left", { detail: { ask: row.dataset.key } }));
  if (ok && name === "pass") document.dispatchEvent(new CustomEvent("awm:declined", { detail: { ask: row.dataset.key } }));
  document.dispatchEvent(new Event("awm:look-again"));
  if (ok && (name === "claim" || name === "release")) document.dispatchEvent(new Event("awm:look-ask"));
}

function claim() {
  const row = selected()?.closest("[data-actions]");
  const button = part("claim");
  if (!button) return row && sayWhyNot(row);
  if (row) action(row, "claim");
  else button.click();
  return true;
}

function sayWhyNot(row) {
  const why = [...row.querySelectorAll(":scope > .why p:not([data-reached]), :scope > .go small")].map((line) => line.textContent).join(" ");
  say(isClosed(row) ? "This ask is closed." : why || "You can't claim this ask.", true);
  return true;
}

const releaseInView = () => /** @type {HTMLButtonElement | null} */ (selected()?.querySelector(':scope > .go [data-row="release"]'))?.form;

function releaseRow() {
  const fields = releaseInView();
  if (!fields) return false;
  action(selected(), "release", { lease_token: /** @type {HTMLInputElement} */ (fields.querySelector('input[name="lease_token"]')).value });
  return true;
}

/** Return whether the row in view takes commands. */
const isOpenRow = () => Boolean(/** @type {HTMLElement | null} */ (selected())?.dataset.actions) && !isClosed(selected());

/** Ask in a dialog before the selected row's command is sent. */
function askFirst(name) {
  const row = selected();
  /** @type {HTMLDialogElement} */
  const dialog = document.getElementById(`${name}-row`);
  if (!isOpenRow()) return false;
  dialog.querySelector("[data-question]").textContent = row.querySelector(".q").textContent;
  const consequence = dialog.querySelector("[data-if-declined]");
  if (consequence) consequence.textContent = row.dataset.ifDeclined;
  dialog.showModal();
  const form = dialog.querySelector("form");
  form.onsubmit = (event) => {
    event.preventDefault();
    const fields = Object.fromEntries(new FormData(form));
    dialog.close();
    form.reset();
    action(row, name, fields);
  };
  return true;
}

/** Return the group of the row in view; without a row the first on the page. */
const groupInView = () => /** @type {HTMLDetailsElement | null} */ ((selected() || document).querySelector("[data-same]") || selected()?.closest("[data-same]"));

function unfold() {
  const group = groupInView();
  if (!group) return false;
  group.open = !group.open;
  if (!group.open && group.contains(selected())) select(group.closest("[data-key]"));
  return true;
}

/** Return the ticks of the rows. */
export const boxes = () => /** @type {HTMLInputElement[]} */ ([...document.querySelectorAll("[data-list] input.tick")]);
const boxOf = (/** @type {Element | null} */ row) => (row ? boxes().find((box) => box.closest("[data-key]") === row) : undefined);
const isChosen = () => boxes().some((box) => box.checked);

/** Return whether a command has rows to act on: selected ones, or the row in view. */
export const hasChoice = () => isChosen() || Boolean(boxOf(selected()));
const form = () => /** @type {HTMLFormElement | null} */ (document.querySelector("form[data-noun]"));

/** Select a folded group as one. */
function chooseAlike(box) {
  const group = box.closest("[data-key]").querySelector(":scope > [data-same]:not([open])");
  for (const other of group ? group.querySelectorAll("input.tick") : []) other.checked = box.checked;
}

/** Say how many rows are selected; CSS shows the bar. "awm:chosen" tells the page. */
export function countChosen() {
  const count = boxes().filter((box) => box.checked).length;
  const words = counted(count, form().dataset.noun);
  for (const slot of document.querySelectorAll("[data-chosen]")) slot.textContent = `${words} selected`;
  for (const slot of document.querySelectorAll("[data-chosen-words]")) slot.textContent = words;
  document.dispatchEvent(new CustomEvent("awm:chosen", { detail: { count } }));
}

/**
 * Select a row, the one in view unless another is named, or turn its selection.
 * @param {Element | null} [row]
 * @param {boolean} [on]
 */
export function choose(row = selected(), on = undefined) {
  const box = boxOf(row);
  if (!box) return false;
  box.checked = on ?? !box.checked;
  chooseAlike(box);
  countChosen();
  if (row === selected()) show(row); // the bar came
  return true;
}

function chooseOn(step) {
  choose(selected(), true);
  move(step);
  choose(selected(), true);
}

/** Select again what a refused command was for. */
function chooseKept() {
  const kept = new Set(form().dataset.kept.split(" "));
  for (const box of boxes()) box.checked ||= kept.has(box.value);
}

function startChoosing() {
  chooseKept();
  bind("choose", () => choose(), () => Boolean(boxOf(selected())));
  bind("choose-down", () => chooseOn(1), hasRows);
  bind("choose-up", () => chooseOn(-1), hasRows);
  bind("bulk", () => {
    if (!isChosen() && !choose()) return false;
    const first = /** @type {HTMLElement} */ (document.querySelector("[data-bulk-first]:enabled"));
    if (first instanceof HTMLInputElement) first.select();
    else first?.focus();
    return true;
  }, hasChoice);
  document.addEventListener("change", (event) => {
    const box = /** @type {HTMLInputElement} */ (event.target);
    if (!box.matches("input.tick")) return;
    chooseAlike(box);
    countChosen();
  });
  form().addEventListener("reset", () => {
    for (const box of boxes()) box.checked = false;
    countChosen();
    for (const list of document.querySelectorAll("[data-list]")) setTimeout(() => release(list), 0);
  });
  document.addEventListener("awm:rows", () => countChosen());
  window.addEventListener("pageshow", () => countChosen()); // a page that is left and opened again keeps its ticks
}

function clear() {
  if (isChosen()) form().reset();
  else if (isLeavable()) {
    select(null);
    for (const list of document.querySelectorAll("[data-list]")) release(list);
  } else return false;
  return true;
}

/** Return whether the page lists asks for a person who can answer: no one else is offered a claim. */
const mayClaim = () => document.querySelector("[data-duty]") !== null && ["home", "queue"].includes(document.body.dataset.page);

function bindClaims() {
  bind("take", () => {
    if (document.getElementById("list") && selected()) return document.dispatchEvent(new Event("awm:enter"));
    const button = selected() && part("claim");
    if (!button) return open();
    document.body.setAttribute("aria-busy", "true"); // a held key must not claim the next row
    setTimeout(() => document.body.removeAttribute("aria-busy"), 3000); // the next page did not load
    button.click();
    return true;
  }, hasRow);
  // in the pane beside the list it claims the ask there, as long as that is only looked at
  const beside = () => /** @type {HTMLElement | null} */ (document.activeElement?.closest("#main[data-ask]"));
  bind("claim", () => (beside() ? document.dispatchEvent(new Event("awm:enter")) : claim()), () => (beside() ? Boolean(beside().dataset.looks) : hasRow() || Boolean(part("claim"))));
  bind("release-row", releaseRow, () => Boolean(releaseInView()));
}

export function start() {
  bind("down", () => move(1), hasRows);
  bind("up", () => move(-1), hasRows);
  bind("top", () => move(1, null), hasRows);
  bind("bottom", () => move(-1, null), hasRows);
  if (!mayClaim()) bind("open", open, canOpen);
  else bindClaims();
  bind("unfold", unfold, () => Boolean(groupInView()));
  if (document.getElementById("pass-row")) bind("pass-row", () => askFirst("pass"), isOpenRow);
  if (document.getElementById("hand-row")) bind("hand-row", () => askFirst("hand"), isOpenRow);
  if (document.getElementById("bulk")) startChoosing();
  bind("unselect", clear, () => isChosen() || isLeavable());
  bind("show-new", () => {
    for (const list of document.querySelectorAll("[data-list]")) release(list, true);
    document.dispatchEvent(new Event("awm:show-new"));
  });
  for (const list of document.querySelectorAll("[data-list]")) {
    for (const kind of ["mouseleave", "focusout"]) list.addEventListener(kind, () => setTimeout(() => release(list), 0));
  }
  document.addEventListener("click", (event) => {
    const pill = event.target instanceof Element && event.target.closest("[data-pill]");
    if (pill) release(document.querySelector(`[data-part="${pill.dataset.pill}"]`), true);
  });
  for (const form of document.querySelectorAll("form[data-submits]")) {
    form.addEventListener("change", (event) => { if (/** @type {Element} */ (event.target).matches("select")) form.requestSubmit(); });
  }
  print();
}

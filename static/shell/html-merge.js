// HTML of the server merged into the page: parts by `data-part`, rows of lists by `data-key`. Owns no request.
//
// Rows change node by node, so focus, checkboxes and open groups stay. A list that is hovered, focused or has a selection changes
// in place only: closed rows fade, and rows that are not drawn yet, new ones and those of the next page, wait behind a button ("4 more").

import { localiseAll } from "./clock.js";
import { grouped } from "./numbers.js";

function keepOpen(old, fresh) {
  const now = [...fresh.querySelectorAll("details")];
  [...old.querySelectorAll("details")].forEach((details, n) => {
    if (details.open && now[n]) now[n].open = true;
  });
}

/** Keep what scripts have drawn (`hx-preserve`, as in swaps by htmx). */
function keepDrawn(old, fresh) {
  for (const kept of old.querySelectorAll("[hx-preserve]")) fresh.querySelector(`#${CSS.escape(kept.id)}`)?.replaceWith(kept);
}

/**
 * Merge the parts of `fresh` into `root`, the content that they were fetched for. A part with the focus stays as it is; a list keeps its rows in place.
 * @param {Document} fresh
 * @param {Document | Element} root
 */
export function mergeParts(fresh, root) {
  localiseAll(fresh);
  for (const part of fresh.querySelectorAll("[data-part]")) {
    const old = root.querySelector(`[data-part="${part.dataset.part}"]`);
    if (!old || old === part || old.outerHTML === part.outerHTML) continue; // the part around it has replaced it
    if (old.querySelector("[data-list]") && part.querySelector("[data-list]")) continue; // its list is a part of its own
    if (old.hasAttribute("data-list")) mergeList(old, part);
    else if (!old.contains(document.activeElement)) {
      keepOpen(old, part);
      keepDrawn(old, part);
      old.replaceWith(part);
    }
  }
}

const EMPTY = "empty";
const isHeld = (list) => list.matches(":hover, :focus-within, :has([aria-selected=true], :checked)") && !list.querySelector(`:scope > [data-key="${EMPTY}"]`);
const waiting = new WeakMap();

/**
 * Merge the rows of `fresh` into `list`. In a list in use, known rows change in place, closed rows fade, new rows wait.
 * @param {HTMLElement} list
 * @param {HTMLElement} fresh
 */
export function mergeList(list, fresh) {
  if (!isHeld(list)) return applyList(list, fresh);
  waiting.set(list, fresh);
  const news = inPlace(list, fresh);
  tellPill(list, news);
  return news;
}

function applyList(list, fresh) {
  waiting.delete(list);
  arrange(list, fresh);
  tellPill(list, 0);
  return 0;
}

const rowsOf = (list) => new Map([...list.children].filter((row) => row.dataset.key).map((row) => [row.dataset.key, row]));

const nests = (row, key) => row.querySelector(`[data-same] [data-key="${CSS.escape(key)}"]`) !== null;

/**
 * Return the row that goes on as `row` among `others`: the one with its key, else the one of its group, whose first ask can change.
 * @param {Map<string, HTMLElement>} others
 * @param {HTMLElement} row
 */
const sameRow = (others, row) => others.get(row.dataset.key) || [...others.values()].find((one) => nests(one, row.dataset.key) || nests(row, one.dataset.key));

/** Morph a row; a tick stays with its own ask, whichever row of the group has that now. */
function morphRow(row, next, held) {
  const ticked = new Set([...row.querySelectorAll("input.tick:checked")].map((box) => box.value));
  morph(row, next, held);
  const twin = row.querySelector(`[data-same] [data-key="${CSS.escape(row.dataset.key)}"]`); // it heads the group now
  if (twin?.hasAttribute("aria-selected")) row.setAttribute("aria-selected", "true");
  twin?.remove();
  for (const box of row.querySelectorAll("input.tick")) box.checked = ticked.has(box.value);
}

/** Change known rows in place; none comes, leaves or moves. Return how many rows are new. */
function inPlace(list, fresh) {
  const next = rowsOf(fresh);
  for (const row of rowsOf(list).values()) {
    const now = sameRow(next, row);
    row.toggleAttribute("data-gone", !now);
    if (!now) for (const inner of row.querySelectorAll("[data-same] [data-key]")) inner.setAttribute("data-gone", ""); // the group with all its asks
    if (!now) continue;
    next.delete(now.dataset.key);
    morphRow(row, now, true);
  }
  return next.size;
}

/** Change the rows of an open group in place. New ones come behind them: no pill counts them. */
function inGroup(list, fresh) {
  inPlace(list, fresh);
  const [had, more] = [rowsOf(list), list.querySelector(":scope > .more")];
  for (const [key, row] of rowsOf(fresh)) if (!had.has(key)) list.insertBefore(row.cloneNode(true), more);
}

/** Put the rows of `fresh` in order; a known row stays the same element. */
function arrange(list, fresh) {
  const had = rowsOf(list);
  let at = list.firstElementChild;
  for (const row of fresh.children) {
    const old = row.dataset.key && sameRow(had, row);
    if (old) {
      had.delete(old.dataset.key);
      morphRow(old, row, false);
    }
    const placed = old || row.cloneNode(true);
    if (placed === at) at = at.nextElementSibling;
    else list.insertBefore(placed, at);
  }
  while (at) {
    const after = at.nextElementSibling;
    at.remove();
    at = after;
  }
  for (const row of had.values()) row.remove();
}

const KEPT = new Set(["aria-selected", "open"]); // the person's, not the server's

/**
 * Change `old` into `next` node by node: what stays keeps its focus, its tick, and whether it is open.
 * @param {Element} old
 * @param {Element} next
 * @param {boolean} [held]
 */
export function morph(old, next, held) {
  for (const { name } of [...old.attributes]) if (!KEPT.has(name) && !next.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of [...next.attributes]) if (!KEPT.has(name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
  if (next.hasAttribute("data-rows")) {
    const folded = old.closest("details:not([open])");
    if (held && !folded) inGroup(old, next);
    else arrange(old, next);
    return;
  }
  const [were, are] = [[...old.childNodes], [...next.childNodes]];
  are.forEach((node, n) => {
    const was = were[n];
    if (!was) old.append(node.cloneNode(true));
    else if (was.nodeType !== node.nodeType || was.nodeName !== node.nodeName) swap(was, node);
    else if (was.nodeType !== 1) /** @type {Text} */ (was).data = /** @type {Text} */ (node).data;
    else morph(/** @type {Element} */ (was), /** @type {Element} */ (node), held);
  });
  for (const rest of were.slice(are.length)) drop(rest);
}

/** Move the focus to the row's link before a control with the focus leaves. */
function keepFocus(leaving, change) {
  const row = leaving.nodeType === 1 && leaving.contains(document.activeElement) && leaving.closest("[data-key]");
  change();
  if (row) row.querySelector("a")?.focus({ preventScroll: true });
}

const swap = (was, node) => keepFocus(was, () => was.replaceWith(node.cloneNode(true)));
const drop = (rest) => keepFocus(rest, () => rest.remove());

function tellPill(list, count) {
  const pill = document.querySelector(`[data-pill="${list.dataset.part}"]`);
  if (!pill) return;
  pill.hidden = count === 0;
  pill.querySelector("[data-count]").textContent = `${grouped(count)} more, show`;
}

/**
 * Show the rows that waited; also called when the pointer leaves a list.
 * @param {HTMLElement} list
 * @param {boolean} [force]
 */
export function release(list, force = false) {
  const fresh = waiting.get(list);
  if (fresh && (force || !isHeld(list))) applyList(list, fresh);
}

// Server-rendered news into the page: parts by name, list rows by key. Nothing moves under the hand:
// a list that is hovered, focused or selected only changes in place, and what is new waits behind a pill.

function keepOpen(old, fresh) {
  const now = [...fresh.querySelectorAll("details")];
  [...old.querySelectorAll("details")].forEach((details, n) => {
    if (details.open && now[n]) now[n].open = true;
  });
}

/** What is drawn by scripts moves along as it is (`hx-preserve`, as in swaps by htmx). */
function keepDrawn(old, fresh) {
  for (const kept of old.querySelectorAll("[hx-preserve]")) fresh.querySelector(`#${CSS.escape(kept.id)}`)?.replaceWith(kept);
}

/**
 * Parts of `fresh` into the page. A part that holds the focus stays as it is; a list keeps its rows in place.
 * @param {Document} fresh
 * @param {Document | Element} [root]
 */
export function mergeParts(fresh, root = document) {
  for (const part of fresh.querySelectorAll("[data-part]")) {
    const old = root.querySelector(`[data-part="${part.dataset.part}"]`);
    if (!old || old === part || old.outerHTML === part.outerHTML) continue; // a part inside a part came with it
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
 * Rows of `fresh` into `list` by data-key. Held: known rows change in place, gone rows fade, new rows wait.
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

/** What stands there changes, nothing comes, goes or moves; answers how many rows are new. */
function inPlace(list, fresh) {
  const next = rowsOf(fresh);
  for (const [key, row] of rowsOf(list)) {
    row.toggleAttribute("data-gone", !next.has(key));
    if (next.has(key)) morph(row, next.get(key), true);
    next.delete(key);
  }
  return next.size;
}

/** The rows of `fresh` in its order; a row that was there stays the same element. */
function arrange(list, fresh) {
  const had = rowsOf(list);
  let at = list.firstElementChild;
  for (const row of fresh.children) {
    const old = row.dataset.key && had.get(row.dataset.key);
    had.delete(row.dataset.key);
    if (old) morph(old, row, false);
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
 * Make `old` what `next` is, piece by piece: what stays keeps its focus, its tick, and whether it is unfolded.
 * @param {Element} old
 * @param {Element} next
 * @param {boolean} [held]
 */
export function morph(old, next, held) {
  for (const { name } of [...old.attributes]) if (!KEPT.has(name) && !next.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of [...next.attributes]) if (!KEPT.has(name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
  if (next.hasAttribute("data-rows")) {
    const folded = old.closest("details:not([open])");
    if (held && !folded) inPlace(old, next);
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

/** A control that goes while it has the focus leaves it to its row's link. */
function handOn(gone, act) {
  const row = gone.nodeType === 1 && gone.contains(document.activeElement) && gone.closest("[data-key]");
  act();
  if (row) row.querySelector("a")?.focus({ preventScroll: true });
}

const swap = (was, node) => handOn(was, () => was.replaceWith(node.cloneNode(true)));
const drop = (rest) => handOn(rest, () => rest.remove());

function tellPill(list, count) {
  const pill = document.querySelector(`[data-pill="${list.dataset.part}"]`);
  if (!pill) return;
  pill.hidden = count === 0;
  pill.querySelector("[data-count]").textContent = `${count} new, show`;
}

/**
 * Show what waited; also called when the hand leaves a list.
 * @param {HTMLElement} list
 * @param {boolean} [force]
 */
export function release(list, force = false) {
  const fresh = waiting.get(list);
  if (fresh && (force || !isHeld(list))) applyList(list, fresh);
}

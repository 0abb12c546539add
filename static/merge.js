// Server-rendered news into the page: parts by name, list rows by key. Nothing moves under the hand:
// a list that is hovered, focused or selected only changes in place, and what is new waits behind a pill.

/** Fetch a fragment of this site; null when the answer is no page of ours. */
export async function fetchFragment(url, init = {}) {
  const response = await fetch(url, { ...init, headers: { "HX-Request": "true", ...init.headers }, credentials: "same-origin" });
  if (response.redirected && new URL(response.url).pathname === "/login") location.assign(response.url);
  if (!response.ok) throw new Error(`${response.status} for ${url}`);
  return new DOMParser().parseFromString(await response.text(), "text/html");
}

function keepOpen(old, fresh) {
  const now = [...fresh.querySelectorAll("details")];
  [...old.querySelectorAll("details")].forEach((details, n) => {
    if (details.open && now[n]) now[n].open = true;
  });
}

/** Parts of `fresh` into the page. A part that holds the focus stays as it is; a list keeps its rows in place. */
export function mergeParts(fresh, root = document) {
  for (const part of fresh.querySelectorAll("[data-part]")) {
    const old = root.querySelector(`[data-part="${part.dataset.part}"]`);
    if (!old || old === part || old.outerHTML === part.outerHTML) continue; // a part inside a part came with it
    if (old.querySelector("[data-list]") && part.querySelector("[data-list]")) continue; // its list is a part of its own
    if (old.hasAttribute("data-list")) mergeList(old, part);
    else if (!old.contains(document.activeElement)) {
      keepOpen(old, part);
      old.replaceWith(part);
    }
  }
}

const isHeld = (list) => list.matches(":hover, :focus-within") || Boolean(list.querySelector('[aria-selected="true"]'));
const waiting = new WeakMap();

/** Rows of `fresh` into `list` by data-key. Held: known rows change in place, gone rows fade, new rows wait. */
export function mergeList(list, fresh) {
  if (!isHeld(list)) return applyList(list, fresh);
  const rows = new Map([...fresh.querySelectorAll("[data-key]")].map((row) => [row.dataset.key, row]));
  for (const row of list.querySelectorAll("[data-key]")) {
    const next = rows.get(row.dataset.key);
    rows.delete(row.dataset.key);
    row.toggleAttribute("data-gone", !next);
    if (next && !row.matches(":hover, :focus-within, [aria-selected=true]")) row.replaceWith(next.cloneNode(true));
  }
  waiting.set(list, fresh);
  tellPill(list, rows.size);
  return rows.size;
}

function applyList(list, fresh) {
  waiting.delete(list);
  list.replaceChildren(...fresh.childNodes);
  tellPill(list, 0);
  return 0;
}

function tellPill(list, count) {
  const pill = document.querySelector(`[data-pill="${list.dataset.part}"]`);
  if (!pill) return;
  pill.hidden = count === 0;
  pill.querySelector("[data-count]").textContent = `${count} new, show`;
}

/** Show what waited; also called when the hand leaves a list. */
export function release(list, force = false) {
  const fresh = waiting.get(list);
  if (fresh && (force || !isHeld(list))) applyList(list, fresh);
}

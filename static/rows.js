// Lists under the keys: j and k move, Enter opens, c claims, Esc lets go. Rows are [data-key] inside [data-list].

import { bind } from "./keys.js";
import { release } from "./merge.js";

const rows = () => [...document.querySelectorAll("[data-list] [data-key]")].filter((row) => !row.hasAttribute("data-gone") && row.querySelector("a"));
const selected = () => document.querySelector('[data-list] [aria-selected="true"]');

/** Where the selection goes from index `at` (-1: nowhere yet) by `step`, in a list of `count`. */
export function moved(at, step, count) {
  if (!count) return -1;
  if (at < 0) return step > 0 ? 0 : count - 1;
  return Math.min(count - 1, Math.max(0, at + step));
}

function select(row) {
  selected()?.removeAttribute("aria-selected");
  if (!row) return;
  row.setAttribute("aria-selected", "true");
  row.scrollIntoView({ block: "nearest" });
}

function move(step) {
  const all = rows();
  select(all[moved(all.indexOf(selected()), step, all.length)]);
}

export function start() {
  bind("down", () => move(1));
  bind("up", () => move(-1));
  bind("open", () => {
    const row = selected();
    if (!row) return false;
    (row.querySelector('[data-row="open"]') || row.querySelector("a")).click();
    return true;
  });
  bind("claim", () => {
    const button = (selected() || document).querySelector('[data-row="claim"]');
    if (!button) return false;
    button.click();
    return true;
  });
  bind("unselect", () => {
    if (!selected()) return false;
    select(null);
    return true;
  });
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
}

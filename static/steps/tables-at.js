// The tables of the replay: they follow the current step while they are open, and keep the table that the reader chose.

import { fetchFragment } from "../shell/connection.js";

const BREATH_MS = 120;
const PATIENCE_MS = 30_000; // a scenario that is not running is loaded first
const SLOW_MS = 300;

/**
 * Return a function to call for each current step; null if the page has no tables.
 * @param {() => number} here
 */
export function startTables(here) {
  const box = /** @type {HTMLDetailsElement | null} */ (document.querySelector("details[data-tables]"));
  if (!box) return null;
  const room = box.querySelector("[data-tables-at]");
  let [timer, shown, table, from] = [0, "", "", 0];

  async function load() {
    const wanted = `${box.dataset.tables}?step=${here()}&table=${encodeURIComponent(table)}&from=${from}`;
    if (!box.open || wanted === shown) return;
    shown = wanted;
    const slow = setTimeout(() => room.setAttribute("aria-busy", "true"), SLOW_MS);
    try {
      const fresh = await fetchFragment(wanted, null, PATIENCE_MS);
      if (shown === wanted) place(fresh); // otherwise a later step was requested meanwhile
    } catch {
      if (shown === wanted) fail();
    }
    clearTimeout(slow);
    if (shown === wanted || !shown) room.removeAttribute("aria-busy");
  }

  function place(fresh) {
    const held = room.contains(document.activeElement) && document.activeElement.matches("[data-table-pick]");
    room.replaceChildren(...fresh.body.childNodes);
    if (held) room.querySelector("[data-table-pick]")?.focus(); // arrow keys continue to the next table
  }

  function fail() {
    shown = "";
    room.textContent = "Can't reach the server. The next step asks again.";
  }

  box.addEventListener("toggle", load);
  room.addEventListener("change", (event) => {
    const pick = /** @type {HTMLSelectElement} */ (event.target);
    if (!pick.matches("[data-table-pick]")) return;
    [table, from] = [pick.value, 0];
    load();
  });
  room.addEventListener("click", (event) => {
    const target = event.target instanceof Element ? event.target : null;
    const page = target?.closest("button[data-from]");
    if (page) {
      from = Number(page.dataset.from);
      load();
    }
    const link = target?.closest('a[href^="#step-"]');
    if (!link) return;
    event.preventDefault();
    document.dispatchEvent(new CustomEvent("awm:step", { detail: Number(link.getAttribute("href").slice(6)) }));
  });
  return () => {
    clearTimeout(timer);
    timer = setTimeout(load, BREATH_MS); // playing at ten times the speed skips most steps
  };
}

// The replay's tables: they follow the step in view while they are open.

import { fetchFragment } from "./html-merge.js";

const BREATH_MS = 120;

/**
 * Return what is to hear of the step in view; the page has no tables where it gives null.
 * @param {() => number} here
 */
export function startTables(here) {
  const box = /** @type {HTMLDetailsElement | null} */ (document.querySelector("details[data-tables]"));
  if (!box) return null;
  const room = box.querySelector("[data-tables-at]");
  let [timer, shown] = [0, 0];

  async function load() {
    const at = here();
    if (!box.open || at === shown) return;
    shown = at;
    try {
      const fresh = await fetchFragment(`${box.dataset.tables}?step=${at}`);
      if (shown === at) room.replaceChildren(...fresh.body.childNodes); // a later step was asked for meanwhile
    } catch {
      shown = 0;
      room.textContent = "Can't reach the server. The next step asks again.";
    }
  }

  box.addEventListener("toggle", load);
  room.addEventListener("click", (event) => {
    const link = event.target instanceof Element && event.target.closest('a[href^="#step-"]');
    if (!link) return;
    event.preventDefault();
    document.dispatchEvent(new CustomEvent("awm:step", { detail: Number(link.getAttribute("href").slice(6)) }));
  });
  return () => {
    clearTimeout(timer);
    timer = setTimeout(load, BREATH_MS); // whoever plays at ten times the speed passes most steps by
  };
}

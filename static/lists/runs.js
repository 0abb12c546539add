// The list of runs and the tasks of one: j and k move, Enter opens the row in view. The page refreshes itself, and the row in view
// stays. On the page of a run c compares the episodes of the task in view, and v opens or closes the numbers of all charts.

import { start } from "../forms/list-keys.js";
import { bind, print } from "../shell/keys.js";

const inView = () => /** @type {HTMLElement | null} */ (document.querySelector('[data-list] [aria-selected="true"]'));
let kept = "";

document.addEventListener("htmx:beforeSwap", () => { kept = inView()?.dataset.key ?? ""; });
document.addEventListener("htmx:afterSwap", () => {
  if (kept && !inView()) document.querySelector(`[data-list] [data-key="${CSS.escape(kept)}"]`)?.setAttribute("aria-selected", "true");
  print();
});

const compared = () => /** @type {HTMLElement | null} */ ((inView() || document).querySelector('[data-row="compare"]'));
const numbers = () => /** @type {HTMLDetailsElement[]} */ ([...document.querySelectorAll("details[id^=numbers-]")]);

if (document.body.dataset.page === "run") {
  bind("bulk-compare", () => {
    compared()?.click();
    return Boolean(compared());
  });
  const known = new Set(numbers().map((one) => one.id));
  let areOpen = false;
  bind("numbers", () => {
    areOpen = !numbers().some((one) => one.open);
    for (const one of numbers()) one.open = areOpen;
  });
  document.addEventListener("htmx:afterSwap", () => {
    // charts of rewards load when they come into view: they follow the last v
    const arrived = numbers().filter((one) => !known.has(one.id));
    for (const one of arrived) {
      one.open = areOpen;
      known.add(one.id);
    }
  });
}
start();

// The list of runs: j and k move, Enter opens the run in view. The list refreshes itself, and the run in view stays.

import { start } from "../forms/list-keys.js";

const inView = () => /** @type {HTMLElement | null} */ (document.querySelector('[data-list] [aria-selected="true"]'));
let kept = "";

document.addEventListener("htmx:beforeSwap", () => { kept = inView()?.dataset.key ?? ""; });
document.addEventListener("htmx:afterSwap", () => {
  if (kept && !inView()) document.querySelector(`[data-list] [data-key="${CSS.escape(kept)}"]`)?.setAttribute("aria-selected", "true");
});
start();

// Lists of queues, cases, mentions and reviews: j and k move, Enter opens the row in view, or without one the next review.

import { canOpen, open, start } from "../forms/list-keys.js";
import { bind } from "../shell/keys.js";

const next = () => /** @type {HTMLButtonElement | null} */ (document.querySelector('[data-act="next-review"]'));

/** @param {Event} event a key, a click of the button, or a choice in the palette */
function openOrReview(event) {
  if (event.type !== "click" && open()) return true;
  next()?.form.requestSubmit();
  return next() !== null;
}

bind("next-review", openOrReview, () => canOpen() || next() !== null);
start();

// Words at a named place of the ask's page: problems, what is saved, what is refused.

import { visible } from "../shell/visible-text.js";

/**
 * Show words at a named place of the page; no words hide it.
 * @param {string} selector
 * @param {string} words
 * @param {boolean} [bad]
 */
export function sayNear(selector, words, bad = false) {
  /** @type {HTMLElement | null} */
  const place = document.querySelector("[data-ask]")?.querySelector(selector);
  if (!place) return;
  place.textContent = visible(words);
  place.classList.toggle("bad", bad);
  place.hidden = !words;
}

// The result of an action in words: a toast, a line of the page, and the live region of screen readers.

import { visible } from "./visible-text.js";

let saying = null;
const GAP_PX = 8;

/** Lift a toast above the bar with the page's buttons. */
export function clearActions(line) {
  line.style.bottom = "";
  const box = line.getBoundingClientRect();
  const bars = [...document.querySelectorAll(".actions")].map((bar) => bar.getBoundingClientRect());
  const under = bars.filter((bar) => bar.height && bar.top < box.bottom && bar.bottom > box.top && bar.left < box.right && bar.right > box.left);
  if (under.length) line.style.bottom = `${innerHeight - Math.min(...under.map((bar) => bar.top)) + GAP_PX}px`;
}

/**
 * Tell a screen reader, once per batch.
 * @param {string} words
 */
export function announce(words) {
  const news = document.getElementById("news");
  if (news) news.textContent = visible(words);
}

/**
 * Show words at the foot of the page for six seconds, with an optional link to where it happened.
 * @param {string} words
 * @param {boolean} [bad]
 * @param {{href: string, words: string} | null} [way]
 */
export function say(words, bad = false, way = null) {
  const line = document.querySelector("[data-said]");
  if (!line) return;
  line.replaceChildren(visible(words));
  if (way) line.append(" ", Object.assign(document.createElement("a"), { href: way.href, textContent: visible(way.words) }));
  line.classList.toggle("bad", bad);
  line.hidden = false;
  clearActions(line);
  clearTimeout(saying);
  saying = setTimeout(() => { line.hidden = true; }, 6000);
}

/** Take the words at the foot of the page away: another item is shown, of which they are not so. */
export function hush() {
  const line = /** @type {HTMLElement | null} */ (document.querySelector("[data-said]"));
  clearTimeout(saying);
  if (line) line.hidden = true;
}

/**
 * Show a refusal in the page's line for it, until something is saved.
 * @param {string} words
 */
export function refuse(words) {
  const line = /** @type {HTMLElement | null} */ (document.querySelector("[data-problem]"));
  if (!line) return say(words, true);
  line.textContent = visible(words);
  line.hidden = !words;
  if (words) line.scrollIntoView({ block: "nearest" });
}

// What came of an action, in words that hide by themselves and move nothing.

import { visible } from "./visible-text.js";

let saying = null;

/**
 * Tell a screen reader, once per batch.
 * @param {string} words
 */
export function announce(words) {
  const news = document.getElementById("news");
  if (news) news.textContent = visible(words);
}

/**
 * Say it at the foot of the page for six seconds, perhaps with a way (`{href, words}`) to where it happened.
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
  clearTimeout(saying);
  saying = setTimeout(() => { line.hidden = true; }, 6000);
}

/**
 * Say what was refused where the page has a line for it, until something is saved.
 * @param {string} words
 */
export function refuse(words) {
  const line = /** @type {HTMLElement | null} */ (document.querySelector("[data-problem]"));
  if (!line) return say(words, true);
  line.textContent = visible(words);
  line.hidden = !words;
  if (words) line.scrollIntoView({ block: "nearest" });
}

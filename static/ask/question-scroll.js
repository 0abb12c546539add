// A question that is longer than its pane: a mark that more is below, and keys that scroll it from the answer.

import { bind } from "../shell/keys.js";
import { life } from "../shell/page-life.js";

const SLACK = 4; // pixels that no one misses

/**
 * Return whether a box has more below what it shows.
 * @param {{scrollTop: number, scrollHeight: number, clientHeight: number}} box
 */
export const hasBelow = ({ scrollTop, scrollHeight, clientHeight }) => scrollHeight - clientHeight - scrollTop > SLACK;

/**
 * Return whether a press in a field is for the question: the field is a text, all of which is in sight.
 * @param {{tagName?: string, type?: string, scrollHeight?: number, clientHeight?: number}} field
 */
export const isForQuestion = ({ tagName, type, scrollHeight, clientHeight }) => (tagName === "TEXTAREA" ? scrollHeight - clientHeight <= SLACK : tagName === "INPUT" && type === "text");

/** Bind the keys and the mark of the question on the page. */
export function startQuestion() {
  const below = /** @type {HTMLElement | null} */ (document.querySelector("[data-below]"));
  const box = /** @type {HTMLElement | null} */ (below?.closest("[data-question]")); // a row of the list has a question, too
  if (!below || !box) return;
  const mark = () => { below.hidden = !hasBelow(box) || getComputedStyle(box).overflowY === "visible"; };
  const by = (/** @type {number} */ pages) => (/** @type {Event} */ event) => {
    if (!isForQuestion(/** @type {HTMLTextAreaElement} */ (event.target))) return false;
    box.scrollBy({ top: pages * 0.8 * box.clientHeight });
    return true;
  };
  const overflows = () => box.scrollHeight - box.clientHeight > SLACK && getComputedStyle(box).overflowY !== "visible";
  bind("question-down", by(1), overflows);
  bind("question-up", by(-1), overflows);
  box.addEventListener("scroll", mark, { passive: true });
  const seen = new ResizeObserver(mark);
  for (const one of [box, ...box.children]) if (one !== below) seen.observe(one);
  life().addEventListener("abort", () => seen.disconnect());
  mark();
}

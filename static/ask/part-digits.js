// The digits of a decision: each takes the call, option or field that carries it.

import { focusPart, hasFocus } from "../shell/key-rule.js";
import { bind } from "../shell/keys.js";

const PANEL = "[data-panel]";

/** @type {[string, number][]} */
export const DIGITS = [
  ["part-1", 0], ["part-2", 1], ["part-3", 2], ["part-4", 3], ["part-5", 4],
  ["part-6", 5], ["part-7", 6], ["part-8", 7], ["part-9", 8],
];

/**
 * Return an element with the text of a class.
 * @param {string} tag
 */
export const make = (tag, css = "", text = "") => Object.assign(document.createElement(tag), { className: css, textContent: text });

/**
 * Return the place of the cap of a part's digit.
 * @param {number} number
 * @param {string} css
 */
export function digitOf(number, css) {
  const slot = make("span", css);
  slot.dataset.cap = `part-${number}`;
  return slot;
}

/**
 * Bind each digit to the call, option or field with this number, for the time that the focus is in the decision.
 * @param {(place: number) => HTMLElement | undefined} partAt
 * @param {(part: HTMLElement) => void} take
 */
export function bindDigits(partAt, take) {
  for (const [id, place] of DIGITS) {
    if (!partAt(place)) continue;
    bind(id, () => {
      const part = partAt(place);
      if (!part) return;
      take(part);
      part.scrollIntoView({ block: "nearest" });
    }, () => hasFocus(PANEL));
  }
  bind("decision", () => focusPart(document.querySelector(PANEL)), () => !hasFocus(PANEL));
}

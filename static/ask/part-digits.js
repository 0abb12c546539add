// The digits of a decision: each takes the call, option or field that carries it.

import { bind } from "../shell/keys.js";

/** @type {[string, number][]} */
export const DIGITS = [
  ["part-1", 0], ["part-2", 1], ["part-3", 2], ["part-4", 3], ["part-5", 4],
  ["part-6", 5], ["part-7", 6], ["part-8", 7], ["part-9", 8],
];

/**
 * Bind each digit to the call, option or field with this number.
 * @param {(place: number) => HTMLElement | undefined} partAt
 * @param {(part: HTMLElement) => void} take
 */
export function bindDigits(partAt, take) {
  for (const [id, place] of DIGITS) {
    if (!partAt(place)) continue;
    bind(id, () => {
      const part = partAt(place);
      take(part);
      part.scrollIntoView({ block: "nearest" });
    });
  }
}

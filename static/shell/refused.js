// A plain form that came back refused: the focus is in the field that the message names or that is marked, else on the message.
// Otherwise it would be at the top of the page, and neither a screen reader nor `Tab` would begin where the person goes on.

import { isLost } from "./key-rule.js";

const FIELD = "input:not([type=hidden]), textarea, select";

/** Return the text of a label before its field. @param {HTMLLabelElement} label */
const nameOf = (label) => (label.firstChild?.textContent || "").trim();

/**
 * Return the field that a refusal names as "Label: …".
 * @param {string} words
 * @param {HTMLLabelElement[]} labels
 */
export function fieldNamed(words, labels) {
  const [name, rest] = words.trim().split(/:\s/, 2);
  const label = rest && labels.find((one) => nameOf(one) === name);
  return /** @type {HTMLElement | null} */ ((label && (label.control || label.querySelector(FIELD))) || null);
}

/** Move the focus of a page that was refused to where the person goes on. */
export function focusRefused() {
  const main = document.getElementById("main");
  const problem = /** @type {HTMLElement | null} */ (main?.querySelector(".problem[role=alert]:not([hidden])"));
  if (!problem || !isLost()) return;
  const labels = [...main.querySelectorAll("label")].filter((one) => one.checkVisibility());
  const field = /** @type {HTMLElement | null} */ (main.querySelector("[aria-invalid=true]")) || fieldNamed(problem.textContent, labels);
  if (field) {
    problem.id ||= "problem";
    field.setAttribute("aria-invalid", "true");
    if (!field.hasAttribute("aria-describedby")) field.setAttribute("aria-describedby", problem.id);
  } else problem.tabIndex = -1;
  (field || problem).focus();
}

const [shown] = /** @type {PerformanceNavigationTiming[]} */ (globalThis.performance?.getEntriesByType?.("navigation") ?? []);

// after the modules of the page, which may have a place of their own
if (typeof document !== "undefined" && shown?.responseStatus >= 400) document.addEventListener("DOMContentLoaded", focusRefused, { once: true });

// A filter for options that are more than the digits reach. What is chosen stays in sight.

import { focusPart } from "../shell/key-rule.js";
import { bind, print } from "../shell/keys.js";
import { digitOf, DIGITS, make } from "./part-digits.js";

const plain = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();

/**
 * Return whether an option has every word of a filter, whatever their case and accents.
 * @param {string} filter
 * @param {string} words
 */
export function matches(filter, words) {
  const text = plain(words);
  return plain(filter).split(/\s+/).every((part) => text.includes(part));
}

/** Return whether this many options have a filter. @param {number} count */
export const needsFilter = (count) => count > DIGITS.length;

/** Return the first option that a filter leaves, or the list that has them. @param {HTMLElement} group */
function firstShown(group) {
  const options = /** @type {HTMLElement[]} */ ([...group.querySelectorAll("input:not([data-option-filter]), select")]);
  return options.find((one) => one.checkVisibility());
}

/**
 * Return a filter and its count; `show(text)` returns how many options it leaves, and `take` the only one that is left.
 * @param {number} count
 * @param {(text: string) => number} show
 * @param {() => void} take
 */
export function filterOf(count, show, take) {
  const box = make("div", "row optionfilter");
  const input = Object.assign(document.createElement("input"), { type: "search", placeholder: `Filter ${count} options`, autocomplete: "off", dir: "auto" });
  input.setAttribute("aria-label", input.placeholder);
  input.dataset.optionFilter = "";
  const left = make("small", "meta");
  left.setAttribute("role", "status");
  const cap = make("span", "not-s");
  cap.dataset.cap = "filter-options";
  box.append(input, cap, left);
  bind("filter-options", () => focusPart(document.querySelector("[data-option-filter]")), () => Boolean(document.querySelector("[data-option-filter]")));
  input.addEventListener("input", (event) => {
    event.stopPropagation(); // a filter changes no decision
    const number = show(input.value.trim());
    left.textContent = input.value.trim() ? `${number} of ${count}` : "";
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" && !event.shiftKey && !event.altKey && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      focusPart(firstShown(box.parentElement));
      return;
    }
    if (event.key !== "Enter" || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    if (show(input.value.trim()) === 1) take();
  });
  return box;
}

/**
 * Return a filter of the labels of options, which hides those that don't match and gives the digits to the first ones that do.
 * @param {HTMLLabelElement[]} labels
 * @param {boolean} [withDigits]
 */
export function filterOfLabels(labels, withDigits = false) {
  const inputOf = (label) => /** @type {HTMLInputElement} */ (label.querySelector("input"));
  const shown = (text) => labels.filter((label) => matches(text, label.dataset.words));
  return filterOf(labels.length, (text) => {
    const left = new Set(shown(text));
    for (const label of labels) label.hidden = !left.has(label) && !inputOf(label).checked;
    if (withDigits) {
      for (const label of labels) label.querySelector("[data-cap]")?.remove();
      for (const [place, label] of labels.filter((one) => !one.hidden).slice(0, DIGITS.length).entries()) label.append(digitOf(place + 1, "push"));
      print();
    }
    return left.size;
  }, () => {
    const [label] = shown(/** @type {HTMLInputElement} */ (labels[0].parentElement.parentElement.querySelector("[data-option-filter]")).value.trim());
    inputOf(label).click();
    inputOf(label).focus();
  });
}

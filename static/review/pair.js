// The page of a pair: one key for each answer, which goes on to the next question, and undo of it or of the last pair.

import { bind, print } from "../shell/keys.js";
import { focusPart } from "../shell/key-rule.js";
import { Renewal } from "../forms/renewal.js";
import { serverNow, timeOf } from "../shell/clock.js";

const CHOICES = [["prefer-a", "a"], ["prefer-b", "b"], ["prefer-equal", "equal"], ["prefer-neither", "neither"]];

/** Return the question that a key answers: the one with the focus, or else the first without an answer. @param {HTMLElement[]} questions */
export function questionOf(questions, focused = document.activeElement) {
  return questions.find((one) => one.contains(focused)) ?? questions.find((one) => !chosenIn(one)) ?? questions.at(-1);
}

/** @param {HTMLElement} question */
const chosenIn = (question) => /** @type {HTMLInputElement | null} */ (question.querySelector("input:checked"));

/** @param {HTMLElement} question */
const firstIn = (question) => /** @type {HTMLInputElement} */ (chosenIn(question) ?? question.querySelector("input"));

/** @type {HTMLInputElement[]} the answers of this page in the order in which they were given */
const given = [];

/** @param {HTMLElement[]} questions @param {string} letter */
function answer(questions, letter) {
  const question = questionOf(questions);
  const radio = /** @type {HTMLInputElement} */ (question.querySelector(`[value="${letter}"]`));
  radio.click();
  focusPart(firstIn(questions[questions.indexOf(question) + 1] ?? question));
}

/** Clear the newest answer of this page. Return false without one. */
function clearNewest() {
  const newest = given.pop();
  if (!newest) return false;
  newest.checked = false;
  focusPart(newest);
  print();
  return true;
}

/** Return what a form says that is not sent: each question without an answer. @param {string[]} missing */
export function missingText(missing) {
  return `Answer ${missing.length === 1 ? "this question" : "these questions"}: ${missing.join(" · ")}`;
}

/** Name the questions without an answer, and focus the first. @param {Event} event @param {HTMLElement[]} questions */
function nameMissing(event, questions) {
  event.preventDefault();
  const missing = questions.filter((one) => !chosenIn(one));
  const problem = /** @type {HTMLElement} */ (document.querySelector(".actions .problem"));
  problem.textContent = missingText(missing.map((one) => one.querySelector("legend").textContent.trim()));
  problem.hidden = false;
  focusPart(firstIn(missing[0]));
  missing[0].scrollIntoView({ block: "center" }); // on a phone it is off the screen
}

/** @param {HTMLFormElement} form */
function startLease(form) {
  const chip = /** @type {HTMLElement} */ (document.querySelector("[data-lease]"));
  const showUntil = (/** @type {string} */ until) => chip.replaceChildren("Claimed until ", timeOf(until));
  if (Date.parse(chip.dataset.until) > serverNow()) showUntil(chip.dataset.until);
  new Renewal(chip, form, ({ ok, answer: lease, error }) => {
    if (ok) showUntil(lease.lease_until);
    else chip.textContent = error.message;
    chip.classList.toggle("bad", !ok);
  });
}

function start() {
  const form = /** @type {HTMLFormElement | null} */ (document.querySelector("[data-pair-form]"));
  const questions = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("[data-question]")]);
  const last = /** @type {HTMLButtonElement | null} */ (document.querySelector("[data-undo-last]"));
  for (const [id, letter] of form ? CHOICES : []) bind(id, () => answer(questions, letter));
  if (form) {
    form.addEventListener("invalid", (event) => nameMissing(event, questions), true);
    form.addEventListener("change", (event) => {
      const radio = /** @type {HTMLInputElement} */ (event.target);
      const before = given.findIndex(({ name }) => name === radio.name);
      if (before >= 0) given.splice(before, 1);
      given.push(radio);
      if (questions.every(chosenIn)) document.querySelector(".actions .problem").toggleAttribute("hidden", true);
      print();
    });
    startLease(form);
  }
  bind("undo-pair", () => clearNewest() || last?.click(), () => given.length > 0 || last !== null);
  for (const id of ["prefer-next", "prefer-stay"]) {
    const button = /** @type {HTMLButtonElement | null} */ (document.querySelector(`[data-act="${id}"]`));
    if (button) bind(id, () => button.form.requestSubmit(button));
  }
  focusPart(questions[0] ?? document.querySelector("[data-answered]"));
  print();
}

if (typeof document !== "undefined" && document.body?.dataset.page === "pair") start();

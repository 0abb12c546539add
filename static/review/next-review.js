// What follows a verdict, without a page load: the next review, or this one with the outcome beside the verdict. The next one is
// fetched while the reviewer works, claimed with their verdict, and shown once both are stored. If the verdict differs from the
// verifier, this review asks why first; the reason opens the next one.

import { contentOf, fetchNext, keepAddress, showNext, showSame } from "../forms/next-page.js";
import { focusPart, hasFocus, keepFocus } from "../shell/key-rule.js";
import { bind } from "../shell/keys.js";
import { every, whenOver } from "../shell/page-life.js";
import { post } from "../shell/post.js";
import { hush, refuse, say } from "../shell/toast.js";
import { forget } from "./review-drafts.js";

const BREATH_MS = 150; // the review that was swapped in is painted first
const OLD_MS = 120_000;
const REASONS = [["reason-1", "1"], ["reason-2", "2"], ["reason-3", "3"]];
const STORED = ["lease_lost", "too_late"]; // refused, and kept: the page says so with the whole form
const GIVEN = "already_reviewed"; // its page was loaded again before the response: the verdict is there

/** @typedef {{review: string, content: import("../forms/next-page.js").Content}} Next */

/** @type {Promise<Next | null> | null} what comes next as far as this page knows; unclaimed */
let fetched = null;
let isKnown = false; // what comes next was fetched for the same review before it was drawn again
let sending = false;

const formHere = () => /** @type {HTMLFormElement | null} */ (document.querySelector("[data-verdict-form]"));
const changedHere = () => /** @type {HTMLFormElement | null} */ (document.querySelector("[data-change][open] form"));
/** Return whether the verdict is given, and is not being changed. */
export const isGiven = () => document.querySelector("[data-change]:not([open])") !== null;
const atHere = () => /** @type {HTMLInputElement | null} */ (document.querySelector("[data-seq-field]"))?.value || "";

/**
 * Run a job that ends with another page, or with a refusal in the page's line for it. Keys that are pressed meanwhile do
 * nothing: a press belongs to the review on which it went down.
 * @param {() => Promise<unknown>} job
 */
async function swapping(job) {
  if (sending) return;
  sending = true;
  const back = keepFocus();
  document.body.setAttribute("aria-busy", "true");
  try {
    await job();
  } finally {
    sending = false;
    document.body.removeAttribute("aria-busy");
    back();
  }
}

/**
 * Show this review again, with what is known after a verdict.
 * @param {string} page
 * @param {() => void} start
 */
function again(page, start) {
  isKnown = true;
  hush();
  showSame(contentOf(page), start);
  const beside = /** @type {HTMLElement | null} */ (document.querySelector("[data-revealed]"));
  beside?.scrollIntoView({ block: "nearest" });
  focusPart(beside);
}

/**
 * Show what the server gave after a verdict or a reason.
 * @param {{next: string, page?: string, lease?: {token: string, until: string}}} answer
 * @param {Next | null} known
 * @param {() => void} start
 */
function show({ next, page, lease }, known, start) {
  if (!lease) location.assign(next);
  else showNext(page ? contentOf(page) : known.content, next, lease, start);
}

/**
 * Send a form about this review and show the next one, or this one again if the answer has only its page.
 * @param {string} path
 * @param {FormData} body
 * @param {() => void} start
 * @param {(answer: any) => string} words
 */
async function send(path, body, start, words) {
  const known = await fetched;
  body.set("ahead", known?.review || "");
  body.set("at", atHere());
  const { ok, answer, error } = await post(path, body);
  refuse(ok ? "" : error.message);
  if (error?.code === GIVEN) location.reload();
  if (!ok) return;
  forget();
  if (!answer.next) return again(answer.page, start);
  show(answer, known, start);
  if (answer.lease && words(answer)) say(words(answer));
}

/** Give or change the verdict and stay. @param {HTMLFormElement} form @param {() => void} start */
async function stay(form, start) {
  const body = new FormData(form);
  body.set("at", atHere());
  const { ok, answer, error } = await post(form.action, body);
  if (!ok && STORED.includes(error.code)) form.submit();
  refuse(ok ? "" : error.message);
  if (error?.code === GIVEN) location.reload();
  if (!ok) return;
  forget();
  again(answer.page, start);
}

/** Save a changed verdict before the review is left. @param {HTMLFormElement | null} form */
async function saved(form) {
  if (!form) return true;
  const { ok, error } = await post(form.action, new FormData(form));
  refuse(ok ? "" : error.message);
  return ok;
}

/**
 * Bind the reasons of a verdict that differs.
 * @param {HTMLButtonElement} button
 * @param {() => void} start
 * @param {() => Promise<boolean>} settle
 */
function startReasons({ dataset: { goOn }, form }, start, settle) {
  for (const [id, number] of REASONS) {
    const reason = /** @type {HTMLButtonElement | null} */ (document.querySelector(`[data-reason="${number}"]`));
    if (!reason) return;
    reason.querySelector("span").dataset.cap = id;
    const words = reason.textContent.trim();
    const answer = (/** @type {Event} */ event) => {
      event.preventDefault();
      const body = new FormData(form);
      body.set(reason.name, reason.value);
      swapping(async () => (await settle()) && send(goOn, body, start, () => `You answered: ${words}.`));
    };
    bind(id, answer, () => hasFocus("[data-panel]") && !changedHere()); // in an open change digits are for its verdict
    reason.addEventListener("click", answer);
  }
}

/**
 * Fetch the next review and bind the keys of the verdict. `start` binds a page that was swapped in, and `settle` saves typed
 * text before the verdict is given.
 * @param {() => void} start
 * @param {() => Promise<boolean>} settle
 */
export function startNext(start, settle) {
  const { ahead } = document.getElementById("main").dataset;
  const form = formHere();
  form?.addEventListener("submit", (event) => {
    event.preventDefault();
    swapping(async () => (await settle()) && stay(form, start));
  });
  if (!ahead) return;
  if (!isKnown) fetched = null;
  const look = () => { fetched = fetchNext(ahead).then((next) => (next?.page ? { review: next.review, content: contentOf(next.page) } : null)); };
  const timer = isKnown ? 0 : setTimeout(look, BREATH_MS);
  isKnown = false;
  whenOver(() => clearTimeout(timer));
  every(look, OLD_MS); // another reviewer may have claimed it meanwhile
  const give = /** @type {HTMLButtonElement | null} */ (document.querySelector("[data-verdict-next]"));
  const onward = /** @type {HTMLButtonElement | null} */ (document.querySelector("[data-go-on]"));
  if (give) {
    give.hidden = false;
    const words = (/** @type {any} */ answer) => (answer.verifier ? "Verdict given. The verifier agrees." : "Verdict given.");
    bind("complete", () => {
      if (!form.reportValidity()) return;
      swapping(async () => (await settle()) && send(give.dataset.verdictNext, new FormData(form), start, words));
    });
  }
  if (!onward) return;
  const goOn = () => {
    if (changedHere()?.reportValidity() === false) return;
    swapping(async () => (await settle()) && (await saved(changedHere())) && send(onward.dataset.goOn, new FormData(onward.form), start, () => ""));
  };
  bind("onward", goOn, isGiven);
  bind("complete", goOn, () => !isGiven());
  startReasons(onward, start, settle);
}

if (typeof document !== "undefined" && document.body?.dataset.page === "review") keepAddress("review");

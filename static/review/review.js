// The page of a review: the scrubber of the replay, forms that follow the step in view or a part of it, keys, and the lease.
// Labels, comments and corrections are saved in place, so a verdict in progress stays. A verdict waits until they are saved.

import { endCorrection, follow as followCorrection, startCorrection } from "./correction.js";
import { focusPart, hasFocus } from "../shell/key-rule.js";
import { bind, print, unbind } from "../shell/keys.js";
import { isGiven, startNext } from "./next-review.js";
import { begin } from "../shell/page-life.js";
import "../forms/mention-names.js";
import { follow as followPlace, startPlaces } from "./place-picker.js";
import { serverNow, timeOf } from "../shell/clock.js";
import { post } from "../shell/post.js";
import { show, start as startScrubber } from "../steps/scrubber.js";
import { startDrafts } from "./review-drafts.js";
import { drawSet, startSet } from "./set-labels.js";
import { refuse } from "../shell/toast.js";
import { Renewal } from "../forms/renewal.js";

const LABELS = [
  ["label-1", "1"], ["label-2", "2"], ["label-3", "3"], ["label-4", "4"], ["label-5", "5"],
  ["label-6", "6"], ["label-7", "7"], ["label-8", "8"], ["label-9", "9"],
];

const FAILURES = [
  ["failure-1", "1"], ["failure-2", "2"], ["failure-3", "3"], ["failure-4", "4"], ["failure-5", "5"],
  ["failure-6", "6"], ["failure-7", "7"], ["failure-8", "8"], ["failure-9", "9"],
];

function onStep(at) {
  for (const one of document.querySelectorAll("[data-seq-field]")) /** @type {HTMLInputElement} */ (one).value = String(at);
  followPlace(at);
  followCorrection(at);
  drawSet();
}

function startLease() {
  const chip = /** @type {HTMLElement | null} */ (document.querySelector("[data-lease]"));
  const form = /** @type {HTMLFormElement | null} */ (document.querySelector("[data-verdict-form]"));
  if (!chip || !form) return;
  const showUntil = (until) => { chip.replaceChildren("Claimed until ", timeOf(until)); };
  if (Date.parse(chip.dataset.until) > serverNow()) showUntil(chip.dataset.until);
  new Renewal(chip, form, ({ ok, answer, error }) => {
    if (ok) showUntil(answer.lease_until);
    else chip.textContent = `${error.message} Your text stays here.`;
    chip.classList.toggle("bad", !ok);
  });
}

/** @param {string} found */
const radioOf = (found) => /** @type {HTMLInputElement | null} */ (document.querySelector(`[data-verdict-form] ${found}`));

/**
 * @param {string} id
 * @param {HTMLInputElement | null} radio
 */
function bindChoice(id, radio) {
  if (!radio) return;
  bind(id, () => {
    radio.checked = true;
    radio.focus();
    radio.dispatchEvent(new Event("change", { bubbles: true }));
  });
}

const CHOICES = [["accept", '[data-act-target="accept"]'], ["reject", '[data-act-target="reject"]'],
  ...FAILURES.map(([id, number]) => [id, `[data-failure="${number}"]`])];

/** Bind the verdict: choosing a failure type rejects, and accepting clears it. A given one has keys while it is changed. */
function startVerdict() {
  const form = document.querySelector("[data-verdict-form]");
  form?.addEventListener("change", (event) => {
    const { name, value } = /** @type {HTMLInputElement} */ (event.target);
    if (name === "failure_type") radioOf("[value=reject]").checked = true;
    const chosen = radioOf("[name=failure_type]:checked");
    if (name === "decision" && value === "accept" && chosen) chosen.checked = false;
  });
  for (const [id, number] of FAILURES) {
    const cap = /** @type {HTMLElement | null} */ (document.querySelector(`[data-failure-cap="${number}"]`));
    if (cap) cap.dataset.cap = id;
  }
  const box = /** @type {HTMLDetailsElement | null} */ (document.querySelector("[data-change]"));
  const bindAll = () => {
    for (const [id, found] of CHOICES) {
      if (!box || box.open) bindChoice(id, radioOf(found));
      else unbind(id);
    }
  };
  bindAll();
  box?.addEventListener("toggle", () => {
    bindAll();
    print();
  });
  if (!box) return;
  bind("change-verdict", () => {
    box.open = !box.open;
    bindAll(); // the next key may come before the event
    print();
    focusPart(box.open ? radioOf("[name=decision]:checked") : /** @type {HTMLElement} */ (box.closest("[data-revealed]")));
  });
}

/** @type {Promise<boolean>} the save in progress, and whether the last one succeeded; a verdict waits for it */
let saved = Promise.resolve(true);
let saving = 0;

/** @type {WeakMap<HTMLFormElement, string>} the content of a form with text that is being sent */
const sending = new WeakMap();

/** @type {WeakMap<HTMLFormElement, string>} a comment that was refused because a name in it is unknown */
const asText = new WeakMap();

/** Return what a person typed or chose in a form. @param {HTMLFormElement} form */
const typedIn = (form) => [...form.querySelectorAll("textarea, select, input:not([type=hidden])")].map((one) => {
  const { name, type, value, checked } = /** @type {HTMLInputElement} */ (one);
  return [name, ["checkbox", "radio"].includes(type) ? String(checked && value) : value];
});

/**
 * Save a label, a comment, a correction or a withdrawal as it is now, and draw their list again. Text that was typed meanwhile
 * stays.
 * @param {HTMLFormElement} form
 * @param {FormData} body
 * @param {string} sent
 * @returns {Promise<boolean>}
 */
async function saveHere(form, body, sent) {
  const { ok, answer, error } = await post(form.action, body);
  sending.delete(form);
  refuse(ok ? "" : error.message);
  if (error?.code === "unknown_name") asText.set(form, textIn(body, "value")); // sent again as it is, it is text
  if (!ok) return false;
  const same = JSON.stringify(typedIn(form)) === sent;
  for (const text of form.querySelectorAll("textarea")) if (text.value === textIn(body, text.name)) text.value = "";
  if (same) delete form.dataset.typed;
  if (same && "correctForm" in form.dataset) endCorrection(form);
  const said = document.querySelector("[data-said-part]");
  said.innerHTML = answer.said;
  /** @type {any} */ (globalThis).htmx.process(said); // corrections load their proofs
  document.dispatchEvent(new CustomEvent("awm:said"));
  print();
  return true;
}

/** Return a text as its field has it: forms send other line ends. @param {FormData} body @param {string} name */
const textIn = (body, name) => String(body.get(name)).replaceAll("\r\n", "\n");

/**
 * Save a form after those before it.
 * @param {HTMLFormElement} form
 * @param {HTMLElement | null} [button]
 * @returns {Promise<boolean>} whether it was saved
 */
function save(form, button = null) {
  const sent = JSON.stringify(typedIn(form));
  if (form.querySelector("textarea") && sending.get(form) === sent) return saved;
  sending.set(form, sent);
  const body = new FormData(form, button);
  if (asText.has(form)) body.set("as_text", asText.get(form));
  saving += 1;
  saved = saved.then(() => saveHere(form, body, sent)).catch((error) => {
    reportError(error);
    return false;
  }).finally(() => { saving -= 1; });
  return saved;
}

const unsaved = () => /** @type {HTMLFormElement[]} */ ([...document.querySelectorAll("form[data-in-place]")])
  .filter((form) => form.dataset.typed && typedIn(form).some(([, value]) => value.trim() && value !== "false"));

/** Save all that was typed before the page is left. Return false, with the reason on the page, if something is refused. */
async function settle() {
  await saved;
  for (let forms = unsaved(); forms.length; forms = unsaved()) {
    for (const form of forms) {
      if (await save(form)) continue;
      refuse(`Not sent, because your text in another form is not saved. ${document.querySelector("[data-problem]").textContent}`);
      return false;
    }
  }
  return true;
}

const IN_PLACE = "form[data-in-place] :is(textarea, select, input)";

/** @param {SubmitEvent} event */
async function afterText(event) {
  const form = /** @type {HTMLFormElement} */ (event.target);
  if (document.body.hasAttribute("aria-busy")) return event.preventDefault();
  if (saving === 0 && !unsaved().length) return;
  event.preventDefault();
  document.body.setAttribute("aria-busy", "true");
  const fine = await settle();
  document.body.removeAttribute("aria-busy");
  if (fine) form.requestSubmit(event.submitter);
}

function startSaying() {
  const main = document.getElementById("main");
  main.addEventListener("submit", (event) => {
    const form = /** @type {HTMLFormElement} */ (event.target);
    if ("afterText" in form.dataset) afterText(event);
    if (!("inPlace" in form.dataset)) return;
    event.preventDefault();
    save(form, event.submitter);
  });
  main.addEventListener("input", (event) => {
    const form = /** @type {HTMLFormElement | null} */ (/** @type {Element} */ (event.target).closest("form[data-in-place]"));
    if (form && !("correctForm" in form.dataset)) form.dataset.typed = "1";
  });
  for (const text of main.querySelectorAll("form[data-in-place] textarea")) {
    if (/** @type {HTMLTextAreaElement} */ (text).value.trim()) text.closest("form").dataset.typed = "1"; // it was refused
  }
}

function startKeys() {
  const panel = /** @type {HTMLElement | null} */ (document.querySelector("[data-panel]"));
  for (const [id, key] of LABELS) {
    if (panel) continue; // the digits are those of its reasons
    const button = /** @type {HTMLButtonElement | null} */ (document.querySelector(`[data-label-key="${key}"]`));
    if (button) bind(id, () => button.click());
    const cap = /** @type {HTMLElement | null} */ (document.querySelector(`[data-label-cap="${key}"]`));
    if (cap) cap.dataset.cap = id;
  }
  const verdict = () => (document.querySelector("[data-change]:not([open])") ? panel : radioOf("[type=radio]"));
  if (verdict()) bind("verdict", () => focusPart(verdict()), () => Boolean(verdict()) && verdict() !== document.activeElement);
  bind("save-here", () => document.activeElement.closest("form").requestSubmit(), () => hasFocus(IN_PLACE));
  const note = /** @type {HTMLElement | null} */ (document.querySelector("[data-note]"));
  if (note) bind("note", () => note.focus());
  const stay = /** @type {HTMLButtonElement | null} */ (document.querySelector('[data-act="complete-stay"]'));
  if (stay) bind("complete-stay", () => stay.form.requestSubmit(stay), () => !isGiven());
}

/** Bind what is on the page: once with the page, and again for each review that is swapped in. */
function start() {
  begin();
  startKeys();
  startVerdict();
  startSaying();
  startCorrection();
  startLease();
  startDrafts();
  startPlaces(show);
  startSet();
  startScrubber(onStep);
  startNext(start, settle);
  print();
}

if (typeof document !== "undefined" && document.body?.dataset.page === "review") start();

// The form of an answer: the text, the suggested calls, sending, and what happens when the ask closes first.
//
// The deadline is the server's. A form that is too late freezes, and its text can be saved as an annotation. Every text is sent
// with its source: `drafted_by` has a model (`model:small`), an earlier answer (`advice:<id>`) or both, the last of each kind.
// The server looks the answer up itself. Sending waits up to 1.5 s for a save in progress, so no draft is saved after the answer.

import { inProject, isBeside, showAgain } from "../shell/address.js";
import { serverNow } from "../shell/clock.js";
import { Saver, Store, beganWith, best, isEmpty, same } from "../forms/drafts.js";
import { focusPart, keepFocus } from "../shell/key-rule.js";
import { bind, print, unbind } from "../shell/keys.js";
import { isUploading, startAttachments } from "./attachments.js";
import { isQuiet, keepUnsent, keepWords, stopCountdown } from "./closed-ask.js";
import { startDecision } from "./decision-form.js";
import { claimLooked, isLooked } from "./first-claim.js";
import { Lease } from "./lease.js";
import { ahead, lookAhead, showEarly } from "./next-ask.js";
import { life, whenOver } from "../shell/page-life.js";
import { OtherVersions } from "./other-versions.js";
import { startPicker } from "./pick-tool.js";
import { SAID } from "./saved-words.js";
import { sayNear } from "./say-near.js";
import { whenBack } from "../shell/connection.js";
import { NO_CONTACT, isOut, outWords, post } from "../shell/post.js";
import { CallBuilder, chosen } from "../forms/schema-form.js";
import { parseExact, writeExact } from "../forms/exact-json.js";
import { noteSent } from "../shell/delivery-toast.js";
import { showHeld } from "../shell/held-toast.js";
import { announce, say } from "../shell/toast.js";
import { visible } from "../shell/visible-text.js";

const SETTLE_MS = 1500;
const NOT_SENT = "Not sent: can't reach the server. Your text is saved. Try again when you're online.";

/** @type {HTMLElement} */
export let page = null;
/** @type {HTMLFormElement} */
export let form = null;
let store = null;
/**
 * Return a field of the form by its name.
 * @type {(name: string) => HTMLTextAreaElement}
 */
const field = (name) => /** @type {HTMLTextAreaElement} */ (form.elements[name]);
let builder = null;
let isDrawn = false; // the form is as it came: what changes from here on is the person's
let decider = null; // the decision of a typed ask
let begun = null; // the text that came with the form
let saver = null;
let lease = null;
let versions = null;
let claiming = null; // the claim of an ask that was only looked at
let lost = null; // what was sent without a response: it may have arrived
let swap = null; // shows the next ask on this page if the response contains it

/**
 * Take the ask that is on the page now.
 * @param {(next: import("./next-ask.js").Next) => void} swapTo
 */
export function mount(swapTo) {
  page = document.querySelector("[data-ask]");
  form = document.querySelector("form[data-answer]");
  store = new Store(page.dataset.ask, globalThis.localStorage);
  [builder, decider, begun, saver, lease, claiming, lost, swap] = [null, null, null, null, null, null, null, swapTo];
}

const deliver = (path, body = new FormData(form), more = {}) => post(path, body, more);

const looks = () => isLooked(page);

/** Claim the ask if it is only looked at. Return whether it is this person's. */
export function startAnswer() {
  if (looks()) claiming ??= claimNow(page);
  return claiming || Promise.resolve(true);
}

async function claimNow(mine) {
  const why = await claimLooked(mine);
  if (page !== mine || (why && form.dataset.frozen)) return false; // another ask is shown, or this one has closed
  claiming = null;
  sayNear("[data-problem]", why && `${why} Your text is kept.`, true);
  if (why) keepHere(read());
  else {
    saver.isPaused = false;
    startLease();
    saver.touch();
    announce("Claimed.");
  }
  return !why;
}
const amends = () => "amends" in form.dataset;
/** Return whether what is here was sent without a response. */
export const isLost = () => lost && same(lost, read());
/** Return whether nothing is written or decided. */
export const isBlank = () => isEmpty(read());

const read = () => {
  const words = { text: field("text").value.replaceAll("\0", ""), calls: builder?.texts() || [], drafted: field("drafted_by").value };
  return decider ? { ...words, decision: decider.draft() } : words;
};

function keepHere(words) {
  const entry = { ...words, nonce: field("nonce").value, version: saver?.version || 0, at: serverNow(), sent: saver?.pending || [] };
  return store.keep(entry);
}

/** @type {(words: import("../forms/drafts.js").Words, version: number, keepalive: boolean) => ReturnType<typeof post>} */
function deliverDraft({ text, calls, drafted, decision }, version, keepalive) {
  const body = new FormData();
  const all = { text, tool_calls: writeExact(calls), drafted_by: drafted, version: String(version), decision: decision ? writeExact(decision) : "" };
  for (const [name, value] of Object.entries(all)) body.set(name, value);
  return deliver(form.dataset.keep, body, { parse: parseExact, ...(keepalive && { keepalive }) });
}

function heardSaver(state, detail) {
  if (state === "out") return cast(detail);
  if (state === "choose") return offer({ ...detail, drafted: detail.drafted_by, version: detail.version }, "This draft was edited in another tab or device.");
  if (state === "saved") backOnline();
  if (state === "saving" && document.querySelector("[data-saved]").textContent) return; // do not flicker
  sayNear("[data-saved]", ...SAID[state](detail));
}

function put({ text, calls = [], drafted = "", decision = null }) {
  field("text").value = text || "";
  builder?.restore(calls);
  decider?.restore(decision);
  mark(drafted);
}

/** Show another version of the text beside this one; a person chooses. */
const offer = (other, why) => versions.offer(other, why);

function startVersions() {
  versions = new OtherVersions(form, {
    read,
    put,
    words: (decision) => decider?.words(decision) ?? [],
    waits: (on) => sayNear("[data-saved]", on ? "not saved: choose a version" : "", on),
    chosen(version) {
      saver.chosen(Math.max(saver.version, version));
      focusPart(firstPart());
    },
  });
}

function startWords() {
  startVersions();
  const written = parseExact(document.getElementById("written-calls").textContent);
  const [version, decided] = [Number(form.dataset.version), document.getElementById("written-decision")];
  const server = { text: field("text").value, calls: written, drafted: field("drafted_by").value, version, at: Date.parse(form.dataset.savedAt) || 0, ...(decided && { decision: parseExact(decided.textContent) }) };
  begun = server;
  const { words, others } = best(server, store.all());
  saver = new Saver({ read, deliver: deliverDraft, keep: keepHere, tell: heardSaver, version, sent: version ? server : null });
  saver.isPaused = looks();
  put(words);
  if (words.nonce) field("nonce").value = words.nonce;
  const back = words.text || words.calls.length || words.decision;
  if (back && words !== server) sayNear("[data-saved]", "earlier text restored");
  else if (version && back) heardSaver("saved", form.dataset.savedAt);
  if (keepHere(words)) store.dropOthers();
  for (const other of others) offer(other, "You have another draft for this ask.");
  if (!same(words, server)) saver.save();
  listen();
}

function listen() {
  form.addEventListener("input", (event) => {
    offerAnyway(false);
    startAnswer();
    if (event.target === field("text") && !field("text").value.trim()) mark(""); // nothing of the draft is left
    if (event.target === field("text")) saver.touch();
    if (form.dataset.next && !isBeside()) lookAhead(form.dataset.next);
  });
  field("text").addEventListener("blur", () => saver.save());
  addEventListener("pagehide", () => saver.leave(), { signal: life() });
  if (isBeside()) whenOver(() => saver.leave());
  whenOver(() => saver.stop()); // its timer reads the form
  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "hidden") saver.leave();
    else saver.retry();
  }, { signal: life() });
  addEventListener("online", () => saver.retry(), { signal: life() });
}

/** Mark that a model's draft or an earlier answer is in the text; the mark is saved and sent with it. */
function mark(keys = "") {
  field("drafted_by").value = keys;
  for (const chip of form.querySelectorAll("[data-began]")) chip.hidden = !keys.includes(chip.dataset.began);
}

/**
 * Insert words at the caret or append them. Keep the text; the browser's undo removes the words.
 * @param {string} words
 * @param {{atEnd?: boolean, calls?: import("../forms/drafts.js").Call[], began?: string}} [how]
 */
export function insert(words, { atEnd = false, calls = [], began = "" } = {}) {
  const text = field("text");
  if (atEnd) text.setSelectionRange(text.value.length, text.value.length);
  else text.setSelectionRange(text.selectionEnd, text.selectionEnd);
  const gap = atEnd && text.value.trim() ? (text.value.endsWith("\n\n") ? "" : text.value.endsWith("\n") ? "\n" : "\n\n") : "";
  text.focus();
  if (!document.execCommand("insertText", false, gap + words)) text.setRangeText(gap + words, text.selectionStart, text.selectionEnd, "end");
  for (const call of calls) builder?.add(call.name, call.arguments);
  if (began) mark(beganWith(field("drafted_by").value, began));
  startAnswer();
  saver.touch();
  requestAnimationFrame(() => text.scrollIntoView({ block: "nearest" }));
}

/** Return the text of the form. */
export const wordsNow = () => field("text").value;

// --- sending

/**
 * Freeze the form because its ask is closed. With `out` the person has lost access and can only copy the text.
 * @param {string} words
 * @param {{out?: boolean}} [who]
 */
export function freeze(words, { out = false } = {}) {
  if (form.dataset.frozen || form.dataset.sending) return;
  if (!out && isBlank()) return void setTimeout(() => showAgain(), 500); // nothing to save: show how it ended
  form.dataset.frozen = "yes";
  lease?.stop();
  if (out) saver.stop();
  for (const [kind, hidden] of /** @type {[string, boolean][]} */ ([["live", true], ["late", out], ["out", !out]])) {
    for (const one of form.querySelectorAll(`[data-${kind}-only]`)) one.hidden = hidden;
  }
  for (const id of ["send", "send-watch", "insert-call", "quit", "release", "draft", "redraft", "replies", "similar", "approve-call", "edit-call", "reject-call", "stand"]) unbind(id);
  if (!out) {
    bind("keep", () => isQuiet() && keepLate());
    bind("discard", () => isQuiet() && discard());
    stopCountdown(page);
  }
  sayNear("[data-problem]", "");
  for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close();
  const box = document.querySelector("[data-ended]");
  box.querySelector("[data-say]").textContent = visible(words);
  Object.assign(box, { hidden: false }).focus();
  announce(words);
  print();
}

function busy(on) {
  if (on) form.dataset.sending = "yes";
  else delete form.dataset.sending;
  document.body.ariaBusy = on ? "true" : null;
  for (const button of form.querySelectorAll('button[type="submit"]')) button.disabled = on;
}

/** Wait for a save in progress, which would otherwise write a draft after the answer. */
async function settle() {
  const end = performance.now() + SETTLE_MS;
  while (saver.state === "busy" && performance.now() < end) await new Promise((done) => setTimeout(done, 30));
}

/**
 * Send the answer.
 * @param {string} then
 * @param {{path?: string, anyway?: boolean}} [how] `anyway`: its author has read why a second look returned it
 */
async function send(then, { path = form.action, anyway = false } = {}) {
  if (form.dataset.sending) return;
  if (!decider && isBlank()) {
    sayNear("[data-problem]", builder ? "Write an answer or add a call." : "Write an answer.", true);
    return field("text").focus();
  }
  if (isUploading(form)) return sayNear("[data-problem]", "Wait until your files are attached.", true);
  if (form.dataset.blamed) blame([]);
  if (form.dataset.problems) return sayWrong();
  if (looks() && !(await startAnswer())) return;
  if (form.dataset.sending) return; // another press waited for the same claim
  const back = keepFocus(firstPart);
  busy(true);
  sayNear("[data-problem]", "");
  offerAnyway(false);
  const saved = page.querySelector("[data-saved]").textContent;
  sayNear("[data-saved]", "sending");
  await settle();
  const before = saver.state;
  saver.stop();
  field("then").value = isBeside() ? "watch" : then; // the list says which one is next
  const [known, body] = [ahead(), new FormData(form)];
  if (anyway) body.set("anyway", "1");
  const sending = deliver(path, body, { headers: { "X-Swap": known?.ask || "page" } });
  const early = then === "next" && known?.ask && !isBeside() ? showEarly(known.page) : null;
  const { ok, answer, error } = await sending;
  if (!ok) early?.back();
  if (!ok) sayNear("[data-saved]", saved);
  if (ok || error.code === "too_late") {
    store.clear();
    if (ok && answer.sent_at) noteSent(answer.ask, answer.sent_at);
    if (ok) showHeld(answer.held || "");
    if (ok && isBeside()) return leaveBeside(then, answer.served);
    const next = answer?.page || (answer?.lease && (early?.content || known.page));
    if (ok && next) swap({ url: answer.next, page: next, lease: answer.lease });
    else if (ok) location.assign(answer.next);
    else showAgain(); // the server keeps the text beside the ask, and its page shows it
    return;
  }
  saver.state = before;
  busy(false);
  refused(error);
  back();
}

/** The list goes on to its next row, or shows what becomes of this one. */
function leaveBeside(then, others) {
  document.body.removeAttribute("aria-busy"); // the form stays sent: the end that a frame brings is that of its answer
  if (then === "watch") showAgain();
  else document.dispatchEvent(new CustomEvent("awm:left", { detail: { ask: page.dataset.ask, isSent: true, others } }));
}

/** Return where an answer is written or decided. */
export const firstPart = () => (decider ? decider.first() : field("text"));

/** Offer to send what a second look has returned. Another answer is looked at again. */
function offerAnyway(on) {
  /** @type {HTMLElement} */ (form.querySelector("[data-anyway]")).hidden = !on;
}

/** Note what does not fit; words about a value that changed go, and those of the server stay. */
function noteProblem(words) {
  if (form.dataset.problems && form.dataset.problems !== words) sayNear("[data-problem]", "");
  form.dataset.problems = words;
}

/** Say what does not fit, and go to the first of it. Then show at its fields what only the server can check. */
async function sayWrong() {
  const [mine, words] = [form, read()];
  decider?.showWrong();
  sayNear("[data-problem]", form.dataset.problems, true);
  const wrong = decider ? decider.wrong() : builder?.blame([]);
  wrong?.focus();
  wrong?.scrollIntoView({ block: "nearest" });
  const { error } = await deliver(form.dataset.check);
  if (form !== mine || form.dataset.frozen || form.dataset.sending || !same(words, read())) return; // about another text
  if (error && isOut(error)) return cast(error);
  blame(error?.fields || []);
  sayNear("[data-problem]", form.dataset.problems, true);
}

/** Show at its fields what the server refuses, and return the first that does not fit. The next send asks it again. */
function blame(fields) {
  form.dataset.blamed = fields.length ? "yes" : "";
  return (decider || builder)?.blame(fields);
}

function refused(error) {
  if (error.code === NO_CONTACT) {
    lost = read();
    document.dispatchEvent(new Event("awm:unsent"));
    saver.touch();
    sayNear("[data-problem]", NOT_SENT, true);
  } else if (isOut(error)) cast(error);
  else if (error.code === "consumed" || error.code === "still_open") freeze(`${error.message} ${error.code === "consumed" ? keepWords(page) : ""}`);
  else sayNear("[data-problem]", error.message, true);
  if (error.fields?.length) blame(error.fields)?.focus();
  offerAnyway(error.code === "second_look_model");
  if (error.code !== "lease_lost") return;
  lease?.lostTo(error.held_by);
  saver.chosen(0); // the text was saved beside the ask and is a draft again
}

/** The server can be reached again: remove the line that says it can't. */
function backOnline() {
  if (page.querySelector("[data-problem]")?.textContent !== NOT_SENT) return;
  sayNear("[data-problem]", "");
  say("You're online again. Your answer is saved, not sent yet.");
}

function cast(error) {
  const rest = error.code === "signed_out" ? "Your text is saved on this device, and is here again after you sign in."
    : "You can't send from this page anymore. Copy your text before you leave.";
  freeze(`${outWords(error)} ${rest}`, { out: true });
}

/** Save an answer to a closed ask as an annotation; the page then shows it. */
const keepLate = () => (form.dataset.problems ? keepUnsent(saver, settle, store) : send("watch", { path: form.dataset.late }));

/** Discard the text and leave the page. */
async function discard() {
  const known = saver.version;
  saver.stop();
  store.clear();
  if (known) await deliverDraft({ text: "", calls: [], drafted: "" }, known, false);
  location.assign(inProject("queue/"));
}

async function leaveAmending() {
  const changed = !same(read(), begun);
  if (changed) {
    await saver.save();
    await settle();
  }
  const kept = !changed || saver.settled;
  saver.stop();
  if (kept) store.clear(); // otherwise they stay on this device, and the next page saves them on the server
  location.assign(location.pathname);
}

function release() {
  saver.leave();
  document.querySelector("[data-release]")?.click();
}

// --- calls

function startCalls() {
  const box = document.querySelector("[data-calls]");
  if (!box) return; // the agent named no tools, so no call can be suggested
  const tools = parseExact(document.getElementById("tools-data").textContent);
  builder = new CallBuilder(box, tools, (made, problems) => {
    field("tool_calls").value = writeExact(made);
    noteProblem(problems.join("; "));
    box.hidden = made.length === 0;
    saver?.touch();
  });
  startPicker([...builder.tools.keys()], addCall, (words) => sayNear("[data-pick-problem]", words, true));
  document.addEventListener("click", (event) => {
    const shown = event.target instanceof Element && event.target.closest("[data-use-tool]")?.dataset.useTool;
    const { name } = shown ? chosen(shown, [...builder.tools.keys()]) : {};
    if (name) addCall(name);
  }, { signal: life() });
}

function startTyped() {
  const box = /** @type {HTMLElement} */ (document.querySelector("[data-decision]"));
  if (!box) return;
  decider = startDecision(box, parseExact(document.getElementById("typed-data").textContent), (decision, problem, standing) => {
    field("decision").value = writeExact(decision);
    field("standing").value = standing.length ? writeExact(standing) : "";
    noteProblem(problem);
    if (saver && isDrawn) startAnswer();
    saver?.touch();
  });
}

const addCall = (name, given = {}) => {
  const card = builder.add(name, given);
  (card?.querySelector("[data-argument]") || card?.querySelector("button"))?.focus();
};

function startLease() {
  const chip = document.querySelector("[data-lease]");
  if (!chip || looks()) return;
  lease = new Lease(chip, form, {
    sends: () => Boolean(form.dataset.sending),
    closed: () => freeze(`This ask is closed. ${keepWords(page)}`),
    out: cast,
    lost: ({ words, again }) => {
      const box = form.querySelector("[data-again]");
      if (box.querySelector("[data-say]").textContent !== words) box.querySelector("[data-say]").textContent = words;
      box.querySelector("button").hidden = !again;
      box.hidden = !words;
    },
  });
}

/**
 * Take a frame's word on who holds the ask.
 * @param {string} name
 */
export const heldBy = (name) => lease?.heldBy(name, page.dataset.me);

export function startForm() {
  isDrawn = false;
  startCalls();
  startTyped();
  startWords();
  startAttachments(form, page.dataset.ask);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const by = /** @type {HTMLButtonElement | null} */ (event.submitter);
    if (by?.name === "anyway") send(field("then").value, { anyway: true });
    else send(by?.value || "next");
  });
  form.addEventListener("keydown", (event) => {
    const plain = event.key === "Enter" && !event.ctrlKey && !event.metaKey;
    if (plain && /** @type {Element} */ (event.target).matches("input, select")) event.preventDefault(); // only Ctrl+Enter and the buttons send
    if (event.key === "Escape" && form.dataset.frozen) document.querySelector("[data-ended]").focus();
  });
  bind("send", () => send(amends() ? "watch" : "next"));
  bind("send-watch", () => send("watch"));
  bind("write", () => field("text").focus());
  if (amends()) bind("quit", leaveAmending);
  else bind("release", release, () => !looks());
  startLease();
  whenBack(backOnline);
  document.addEventListener("awm:deadline", (event) => {
    if (/** @type {Element} */ (event.target).closest("[data-in-hand]")) freeze(`The deadline passed before your answer was sent. ${keepWords(page)}`);
  }, { signal: life() });
  field("text").setSelectionRange(field("text").value.length, field("text").value.length);
  isDrawn = true;
  if (matchMedia("(pointer: fine)").matches && !isBeside()) focusPart(firstPart());
  const typed = new CustomEvent("awm:typed", { detail: { text: "" } });
  document.dispatchEvent(typed);
  if (typed.detail.text && !decider) insert(typed.detail.text); // what was typed ahead decides nothing
}

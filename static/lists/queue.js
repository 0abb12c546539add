// Home, queue, routing and episode list: a frame that changes more than a row refreshes the page in place.
//
// Rows are fetched right away (`parts=rows` on the queue), totals a second later, at most five times a second. `html-merge.js`
// keeps rows in place while the list is in use; closed rows fade and say how they ended. `wall.js` draws the steps of live
// episodes from frames alone.

import { localise, serverNow, tick } from "../shell/clock.js";
import { bind, print } from "../shell/keys.js";
import { fetchFragment } from "../shell/connection.js";
import { mergeParts } from "../shell/html-merge.js";
import { startMore } from "../shell/disclosure.js";
import { boxes, countChosen, moveOn, start as startRows } from "../forms/list-keys.js";
import { say } from "../shell/toast.js";
import { showHeld } from "../shell/held-toast.js";
import { grouped } from "../shell/numbers.js";
import { coalesce } from "../shell/stream.js";

const SLOW_MS = 20_000;
const PAUSE_MS = 1000;
const LONGEST_MS = 4000;
const BREATH_MS = 200; // between two refreshes, so a burst of asks is drawn a few times a second

const states = new Map(); // the last known state of each episode

/** Return whether a frame changes what only the server can draw. No list shows what an agent does with an answer. */
export function matters(frame, known = states) {
  if (frame.type === "draft" || frame.type === "lease" || frame.type === "curriculum" || (frame.type === "ask" && frame.status !== "open" && frame.delivered_at)) return false;
  if (frame.type !== "episode") return true;
  const before = known.get(frame.episode);
  known.set(frame.episode, frame.state);
  return before !== frame.state;
}

const ENDS = { answered: "Answered", fell_back: "Fell back", cancelled: "Cancelled" };
const ended = new Map(); // how and when an ask ended, for rows that stay while the list is in use

/** Say in closed rows how their asks ended, and close the rows of asks that ended after the request. */
function showEnds(asked = Infinity) {
  for (const [ask, { at }] of ended) {
    const row = rowOf(ask);
    if (row && at >= asked) row.setAttribute("data-gone", "");
    else if (!row) ended.delete(ask);
  }
  for (const row of document.querySelectorAll(".askrow[data-gone]")) {
    const [state, go] = [row.querySelector(".st"), row.querySelector(":scope > .go")];
    const words = ENDS[ended.get(row.dataset.key)?.status] || "Closed";
    if (state?.lastChild) /** @type {Text} */ (state.lastChild).data = words;
    if (!go.contains(document.activeElement)) go.replaceChildren(Object.assign(document.createElement("small"), { textContent: words }));
  }
}

const rowOf = (ask) => document.querySelector(`.askrow[data-key="${CSS.escape(ask)}"]`);

/**
 * Fade the row of a closed ask without a request; the next refresh removes it. A row of a group needs a request: the group
 * shows its next ask and its count.
 */
function close({ ask, status }) {
  const at = performance.now();
  ended.set(ask, { status, at });
  if (rowOf(ask)?.querySelector("[data-same]") || rowOf(ask)?.closest("[data-same]")) look();
  else showEnds(at);
}

/** Refresh when the first lease on the page ends: no frame reports an expired lease. */
let lapse = null;
function watchLeases() {
  clearTimeout(lapse);
  /** @type {NodeListOf<HTMLTimeElement>} */
  const times = document.querySelectorAll(".askrow:not([data-gone]) > :is(.go, .why) time");
  const ends = [...times].map((time) => Date.parse(time.dateTime) - serverNow());
  const next = Math.min(...ends.filter((ms) => ms > 0));
  if (Number.isFinite(next)) lapse = setTimeout(refresh, next + 300);
}

/** @type {Map<string, {until: string, at: number}>} ends of renewed leases, by ask; rows that were asked for earlier have the old one */
const leases = new Map();

/** Show a renewed lease's new end in its row; no refresh is due at the old one. */
function renewed({ ask, lease_until: until }) {
  leases.set(ask, { until, at: performance.now() });
  showLease(ask, until);
  watchLeases();
}

function showLease(ask, until) {
  /** @type {NodeListOf<HTMLTimeElement> | undefined} */
  const times = rowOf(ask)?.querySelectorAll(":scope > :is(.go, .why) time");
  for (const time of times || []) {
    time.dateTime = until;
    time.removeAttribute("title");
    localise(time);
  }
}

/** Show again what was renewed since the rows were asked for. */
function showLeases(asked) {
  for (const [ask, { until, at }] of leases) {
    if (at >= asked) showLease(ask, until);
    else leases.delete(ask);
  }
}

const fetchPart = (parts) => {
  const here = new URL(location.href);
  here.searchParams.set("wall", "0"); // `wall.js` updates the live episodes
  here.searchParams.set("parts", parts);
  return fetchFragment(here);
};

// only rows where there is a queue, so a new ask does not wait for the totals; other pages are fetched whole
const look = coalesce(async () => {
  const asked = performance.now();
  try {
    mergeParts(await fetchPart("rows"), document);
  } catch {
    return; // the banner reports the lost connection; the next frame or the slow timer retries
  }
  showEnds(asked);
  showLeases(asked);
  watchLeases();
  document.dispatchEvent(new Event("awm:rows"));
  tick();
  print();
}, BREATH_MS);

const lookAtDay = coalesce(async () => {
  if (document.body.dataset.page !== "queue") return;
  try {
    mergeParts(await fetchPart("day"), document);
  } catch {
    return; // as above
  }
  tick();
}, BREATH_MS);

function refresh() {
  look();
  lookAtDay();
}

// totals and an agent's next actions can wait for a pause of the queue; rows that people act on can't
let [later, since] = [null, null];
function lookLater() {
  const now = performance.now();
  since ??= now;
  clearTimeout(later);
  later = setTimeout(() => { since = null; refresh(); }, Math.max(0, Math.min(PAUSE_MS, since + LONGEST_MS - now)));
}

function hear(frame) {
  if (frame.type === "lease") renewed(frame);
  if (!matters(frame)) return;
  if (frame.type === "ask" && frame.status in ENDS) close(frame);
  else if (frame.type === "ask") {
    ended.delete(frame.ask); // withdrawn
    look();
  }
  if (frame.type === "ask" || frame.type === "episode") lookLater();
  else refresh();
}

/** @param {string} attribute @param {boolean} on @param {number} [number] */
function offer(attribute, on, number = 0) {
  const button = /** @type {HTMLElement} */ (document.querySelector(`[${attribute}]`));
  button.hidden = !on;
  const slot = button.querySelector("[data-number]");
  if (slot) slot.textContent = grouped(number);
}

/** Offer to decide the selected approvals together, or say why not. */
function offerTogether() {
  if (!document.querySelector("[data-approves]")) return;
  const chosen = boxes().filter((box) => box.checked);
  const approvals = chosen.filter((box) => box.dataset.approval);
  const tools = new Set(chosen.map((box) => box.dataset.together || ""));
  const [tool] = tools;
  const equal = tool ? boxes().filter((box) => !box.checked && box.dataset.together === tool) : [];
  const highRisk = approvals.filter((box) => "highRisk" in box.dataset).length;
  const together = tools.size === 1 && Boolean(tool);
  const all = approvals.length > 0 && approvals.length === chosen.length;
  offer("data-approves", together, chosen.length);
  offer("data-alike", together);
  offer("data-rejects", all, chosen.length);
  offer("data-more-equal", together && equal.length > 0, equal.length);
  offer("data-why-not", approvals.length > 0 && !together);
  const why = !all ? "Not all of them are approvals" : highRisk ? `${grouped(highRisk)} of high risk` : tools.has("") ? "Some have several calls" : `${grouped(tools.size)} tools`;
  document.querySelector("[data-why-not]").textContent = `${why}: approve them one by one.`;
  print(); // "a" is a key while its button is there
}

function selectEqual() {
  const tool = boxes().find((box) => box.checked)?.dataset.together;
  for (const box of boxes()) box.checked ||= box.dataset.together === tool;
  countChosen();
}

/** Show the form that approves the selected calls and calls like them. */
async function openAhead() {
  /** @type {HTMLElement} */
  const button = document.querySelector("[data-alike]");
  /** @type {HTMLDialogElement} */
  const dialog = document.querySelector("dialog#ahead");
  const wanted = new URL(button.dataset.alike, location.href);
  for (const box of boxes().filter((one) => one.checked)) wanted.searchParams.append("ask", box.value);
  wanted.searchParams.set("back", /** @type {HTMLInputElement} */ (document.querySelector("#bulk [name=back]")).value);
  try {
    mergeParts(await fetchFragment(wanted), dialog);
  } catch {
    say("Can't reach the server. Try again when you're online.", true);
    return;
  }
  dialog.showModal();
}

function startTogether() {
  if (!document.querySelector("[data-approves]")) return;
  document.addEventListener("awm:chosen", offerTogether);
  document.querySelector("[data-alike]").addEventListener("click", openAhead);
  document.querySelector("[data-more-equal]").addEventListener("click", selectEqual);
  offerTogether();
}

/** Send a command on the selected asks without loading the page: say what it led to, and draw the rows again. */
async function sendInPlace(event) {
  const sent = /** @type {HTMLFormElement} */ (event.target);
  if (event.defaultPrevented || !sent.matches("#bulk, #ahead form")) return;
  event.preventDefault();
  const by = /** @type {HTMLButtonElement | null} */ (event.submitter);
  const body = new FormData(sent);
  if (by?.name) body.set(by.name, by.value);
  for (const dialog of /** @type {NodeListOf<HTMLDialogElement>} */ (document.querySelectorAll("dialog[open]"))) dialog.close();
  document.body.setAttribute("aria-busy", "true");
  try {
    const response = await fetch(by?.hasAttribute("formaction") ? by.formAction : sent.action, { method: "POST", credentials: "same-origin", body });
    showSent(new DOMParser().parseFromString(await response.text(), "text/html"));
  } catch {
    say("Can't reach the server. Try again when you're online.", true);
  } finally {
    document.body.removeAttribute("aria-busy");
  }
}

/** @param {Document} fresh */
function showSent(fresh) {
  /** @type {HTMLInputElement | null} */
  const nonce = fresh.querySelector("#bulk [name=nonce]");
  if (!nonce) return location.reload(); // signed out, or no member any more: its page says so
  /** @type {HTMLFormElement} */
  const form = document.querySelector("form#bulk");
  /** @type {HTMLInputElement} */ (form.querySelector("[name=nonce]")).value = nonce.value;
  const told = [...fresh.querySelectorAll("#main > .told")];
  const refused = told.some((line) => line.classList.contains("warning"));
  if (told.length) say(told.map((line) => line.textContent.trim()).join(" "), refused);
  showHeld(fresh.querySelector("[data-held-answers]")?.innerHTML.trim() || "");
  if (!refused) form.reset(); // what was refused stays selected
  mergeParts(fresh, document);
  document.dispatchEvent(new Event("awm:rows"));
  const row = /** @type {HTMLElement | null} */ (document.querySelector('.askrow[aria-selected="true"][data-gone]'));
  if (row) moveOn(row);
  if (!refused) document.dispatchEvent(new Event("awm:look-ask")); // the ask beside the list shows what became of it
  refresh();
}

/** Return the form that claims the next ask of this list; the one in the menu knows no list. */
const nextOfList = () => /** @type {HTMLFormElement | null} */ (document.querySelector('form[data-part="next"]'));

function start() {
  for (const row of document.querySelectorAll("tr[data-episode]")) states.set(row.dataset.episode, row.dataset.state);
  startRows();
  startMore();
  startTogether();
  document.addEventListener("submit", sendInPlace);
  const choices = document.getElementById("choices"); // a refresh replaces the fields in it
  if (choices) {
    bind("filters", () => choices.querySelector("select")?.focus());
    bind("sort", () => choices.querySelector("select[name=sort]")?.focus());
  }
  if (nextOfList()) bind("next", () => nextOfList().requestSubmit());
  print();
  watchLeases();
  document.addEventListener("awm:frame", ({ detail }) => hear(detail));
  document.addEventListener("awm:look-again", refresh);
  document.addEventListener("awm:deadline", () => setTimeout(refresh, 500));
  setInterval(() => { if (document.visibilityState === "visible") refresh(); }, SLOW_MS);
}

if (typeof document !== "undefined") start();

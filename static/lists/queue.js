// Home, queue, desk and episode list: a frame of the queue that changes more than a row makes the page fetch itself and merge.
// The steps of live episodes are drawn from the frames alone, by wall.js.

import { localise, serverNow, tick } from "../shell/clock.js";
import { print } from "../shell/keys.js";
import { fetchFragment } from "../shell/connection.js";
import { mergeParts } from "../shell/html-merge.js";
import { startMore } from "../shell/disclosure.js";
import { start as startRows } from "../forms/list-keys.js";
import { coalesce } from "../shell/stream.js";

const SLOW_MS = 20_000;
const PAUSE_MS = 1000;
const LONGEST_MS = 4000;
const BREATH_MS = 200; // between two looks, so that a flood of asks is drawn a few times a second

const states = new Map(); // the last state of each episode that was heard of

/** Whether a frame changes what only the server can draw. What the agent does with an answer stands in no list. */
export function matters(frame, known = states) {
  if (frame.type === "draft" || frame.type === "lease" || frame.type === "curriculum" || (frame.type === "ask" && frame.status !== "open" && frame.delivered_at)) return false;
  if (frame.type !== "episode") return true;
  const before = known.get(frame.episode);
  known.set(frame.episode, frame.state);
  return before !== frame.state;
}

const ENDS = { answered: "Answered", fell_back: "Fell back", cancelled: "Cancelled" };
const ended = new Map(); // how an ask ended and when that was heard, for rows that stay while the hand is there

/** Say it in the rows that are gone, and make rows gone that were closed after the server was asked. */
function nameGone(asked = Infinity) {
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

/** An ask that is closed needs no look to be seen so; the look a moment later takes it away. In front of others that
 * ask the same it makes room for them, which takes a look. */
function close({ ask, status }) {
  const at = performance.now();
  ended.set(ask, { status, at });
  if (rowOf(ask)?.querySelector("[data-same]")) look();
  else nameGone(at);
}

/** Look again when the first lease that the page shows runs out: nobody tells that somebody stopped. */
let lapse = null;
function watchLeases() {
  clearTimeout(lapse);
  /** @type {NodeListOf<HTMLTimeElement>} */
  const times = document.querySelectorAll(".askrow:not([data-gone]) > :is(.go, .why) time");
  const ends = [...times].map((time) => Date.parse(time.dateTime) - serverNow());
  const next = Math.min(...ends.filter((ms) => ms > 0));
  if (Number.isFinite(next)) lapse = setTimeout(refresh, next + 300);
}

/** Somebody holds an ask for longer: the row says until when, and no look is due at the end that it said before. */
function renewed({ ask, lease_until: until }) {
  /** @type {NodeListOf<HTMLTimeElement> | undefined} */
  const times = rowOf(ask)?.querySelectorAll(":scope > :is(.go, .why) time");
  for (const time of times || []) {
    time.dateTime = until;
    time.removeAttribute("title");
    localise(time);
  }
  watchLeases();
}

const fetchPart = (parts) => {
  const here = new URL(location.href);
  here.searchParams.set("wall", "0"); // the wall keeps itself
  here.searchParams.set("parts", parts);
  return fetchFragment(here);
};

// the rows alone where there is a queue, so that a new ask does not wait for the sums; other pages come whole
const look = coalesce(async () => {
  const asked = performance.now();
  try {
    mergeParts(await fetchPart("rows"));
  } catch {
    return; // the banner speaks of the lost connection; the next frame or the slow timer tries again
  }
  nameGone(asked);
  watchLeases();
  document.dispatchEvent(new Event("awm:rows"));
  tick();
  print();
}, BREATH_MS);

const lookAtDay = coalesce(async () => {
  if (document.body.dataset.page !== "queue") return;
  try {
    mergeParts(await fetchPart("day"));
  } catch {
    return; // as above
  }
  tick();
}, BREATH_MS);

function refresh() {
  look();
  lookAtDay();
}

// what an agent does next and the sums of the day may wait until the queue rests, what a person must know may not
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
    ended.delete(frame.ask); // taken back
    look();
  }
  if (frame.type === "ask" || frame.type === "episode") lookLater();
  else refresh();
}

function start() {
  for (const row of document.querySelectorAll("tr[data-episode]")) states.set(row.dataset.episode, row.dataset.state);
  startRows();
  startMore();
  print();
  watchLeases();
  document.addEventListener("awm:frame", ({ detail }) => hear(detail));
  document.addEventListener("awm:look-again", refresh);
  document.addEventListener("awm:deadline", () => setTimeout(refresh, 500));
  setInterval(() => { if (document.visibilityState === "visible") refresh(); }, SLOW_MS);
}

if (typeof document !== "undefined") start();

// The connection of a page to the server: its sockets, the banner of an outage, and fragments of pages.
//
// The sockets of a page share one outage. It starts when the first socket is lost and ends when all are back and the missed
// steps are loaded; the banner then gives their number. A request that fails makes every socket that was silent for 6 s count
// as lost, and one that misses two beats is replaced. After a close with 4401, 4403 or 4404 the page stays disconnected and says so.

import { syncTo, timeIn } from "./clock.js";
import { counted } from "./numbers.js";
import { whenOver } from "./page-life.js";
import { csrf, wordsOf } from "./post.js";
import { Stream } from "./stream.js";
import { announce } from "./toast.js";

const BLINK_MS = 1500; // shorter outages, such as a restart, show no banner
const BACK_MS = 4000;
const LONGEST_MS = 20_000; // a network that drops every packet ends no request, and the next requests wait for this one
const SAY_MS = 200;
const MIND_MS = 2000; // after sleep this timer goes on, and no other event may say that the machine is awake
const SIGNED_OUT = 4401;
const EVENTS = new Set(["steps", "pictures", "episode", "ask"]);

const streams = new Map(); // each with the callbacks for outages of its watcher
const lost = new Set();
const cutOff = new Set();
const back = new Set();
let outage = null; // its start, and when the oldest of the lost sockets was last heard
let bannerTimer = null;
let sayStep = 0;
let newest = null; // the newest step that this page knows

const byId = (id) => document.getElementById(id);

/**
 * Open a socket whose state the page shows. Frames set the clock. `onLost()` is called when the first socket of the page is
 * lost. `onBack()` is called when all are back; it returns how many steps were fetched since, or null if none could be.
 * @param {string} path
 * @param {object} hears
 * @param {(frame: Frame) => void} hears.onFrame
 * @param {() => void} hears.onGap
 * @param {() => number} [hears.since]
 * @param {() => void} [hears.onLost]
 * @param {() => number | null | Promise<number | null>} [hears.onBack]
 */
export function watch(path, { onFrame, onGap, since, onLost, onBack }) {
  const stream = new Stream({
    path,
    since,
    onGap,
    onFrame: (frame) => {
      if (frame.now) syncTo(frame.now);
      if (newest === null && frame.now && EVENTS.has(frame.type)) sayLast(`Last event ${timeIn(new Date(frame.now))}`);
      onFrame(frame);
    },
    onState: (state, info) => showState(stream, state, info),
  });
  streams.set(stream, { onLost, onBack });
  whenOver(() => {
    stream.stop();
    streams.delete(stream);
    if (lost.delete(stream) && !lost.size) showBack();
  });
  return stream.start();
}

/**
 * Call `heard` when the server closes a socket because this person can no longer listen.
 * @param {() => void} heard
 */
export function whenRefused(heard) {
  cutOff.add(heard);
  whenOver(() => cutOff.delete(heard));
}

/**
 * Call `heard` when the server can be reached again: the network is back, or all sockets are.
 * @param {() => void} heard
 */
export function whenBack(heard) {
  back.add(heard);
  whenOver(() => back.delete(heard));
}

/** Check every socket now, because the network, the tab or the machine is back. */
export function wake() {
  for (const stream of streams.keys()) stream.check();
}

/**
 * Fetch a fragment of this site as a document; POST `body` if there is one. Throw an error with the server's words if it
 * refuses, and a TypeError if it can't be reached. Without a session the page stays, says so and links to the sign-in page.
 * @param {string | URL} url
 * @param {BodyInit | null} [body]
 * @param {number} [longestMs]
 */
export async function fetchFragment(url, body = null, longestMs = LONGEST_MS) {
  const headers = { "HX-Request": "true", ...(body && { "X-CSRFToken": csrf() }) };
  const [method, signal] = [body ? "POST" : "GET", AbortSignal.timeout(longestMs)];
  const response = await fetch(url, { method, body, headers, signal, credentials: "same-origin" }).catch(noAnswer);
  const text = await response.text().catch(noAnswer);
  if (response.status === 401) {
    showOut(SIGNED_OUT);
    throw new Error("You are signed out.");
  }
  if (!response.ok) throw new Error(wordsOf(response.status, response.headers.get("Content-Type") || "", text).message);
  return new DOMParser().parseFromString(text, "text/html");
}

/** @returns {never} */
function noAnswer(cause) {
  for (const stream of streams.keys()) stream.doubt();
  throw new TypeError("Can't reach the server.", { cause });
}

/** Return what becomes of the text on this page: forms with drafts store it on this device. */
function typedWords() {
  const typed = [...document.querySelectorAll("textarea")].filter((field) => !field.readOnly && field.value);
  if (!typed.length) return "";
  return typed.every((field) => field.matches("#advice, [data-draft], [data-draft] *"))
    ? " Your text is saved on this device, and is here again after you sign in." : " Copy your text before you leave.";
}

const hasText = () => Boolean(document.querySelector("textarea"));

/**
 * Note the newest step of a list, for the tooltip in the key line and the banner of a lost connection.
 * @param {number} seq
 */
export function noteStep(seq) {
  if (!seq || newest === seq) return;
  if (newest === null) whenOver(() => { newest = null; });
  newest = seq;
  sayStep ||= setTimeout(() => {
    sayStep = 0;
    if (newest) sayLast(`Event ${newest}`);
  }, SAY_MS);
}

function sayLast(words) {
  const state = byId("connection-words");
  if (state) state.title = words;
}

function showState(stream, state, info) {
  if (state === "refused") return showRefused(stream, info.code);
  if (byId("connection").dataset.told === "refused") return;
  if (state === "lost") noteLost(stream, info);
  const isBack = state === "live" && lost.delete(stream) && !lost.size;
  const dot = byId("dot");
  dot?.classList.toggle("lost", lost.size > 0);
  dot?.classList.toggle("wait", lost.size === 0 && state === "connecting");
  const words = byId("connection-words");
  if (words) words.textContent = lost.size ? "Reconnecting" : state === "live" ? "Live" : "Connecting";
  if (lost.size) showLost();
  else if (isBack) showBack();
}

/** Show `words` in the banner, with a button to reconnect if `again`. */
function showBanner(words, again) {
  clearTimeout(bannerTimer);
  const banner = byId("connection");
  banner.querySelector("[data-say]").textContent = words;
  banner.querySelector("button").hidden = !again;
  return banner;
}

function showRefused(stream, code) {
  streams.delete(stream);
  lost.delete(stream);
  outage = null; // steps that are still being fetched are not reported
  showOut(code);
}

/** Say once that this page no longer updates, and whether what was typed is saved. Signing in leads back to this page. */
function showOut(code) {
  if (byId("connection").dataset.told === "refused") return;
  const out = code === SIGNED_OUT;
  const words = `${out ? "You are signed out" : "You are no longer a member of this project"}. This page no longer updates.${typedWords()}`;
  const way = byId("connection").querySelector("a");
  way.hidden = !out;
  way.href = `/login?next=${encodeURIComponent(location.pathname + location.search)}`;
  const banner = showBanner(words, false);
  banner.classList.add("lost");
  banner.hidden = false;
  banner.dataset.told = "refused";
  byId("dot")?.classList.add("lost");
  const state = byId("connection-words");
  if (state) state.textContent = "Disconnected";
  announce(words);
  for (const heard of cutOff) heard();
}

/** Count a lost socket into the current outage: it may notice the loss only when the network is back. */
function noteLost(stream, { away, heardAt }) {
  lost.add(stream);
  if (!outage) for (const { onLost } of streams.values()) onLost?.();
  outage ??= { since: Date.now() - away, heardAt };
  outage.heardAt = Math.min(outage.heardAt, heardAt);
}

/**
 * Return the banner's words during an outage.
 * @param {{silent: number, seq: number, safe: boolean}} state
 */
export function lostWords({ silent, seq, safe }) {
  const since = silent >= 2000 ? `, last update ${Math.round(silent / 1000)} s ago` : "";
  return `Reconnecting${since}. ${seq ? `Showing step ${seq}` : "This page may be out of date"}.${safe ? " Your text is saved." : ""}`;
}

function showLost() {
  const words = lostWords({ silent: Date.now() - outage.heardAt, seq: newest, safe: hasText() });
  const banner = showBanner(words, true);
  banner.classList.add("lost");
  banner.hidden = Date.now() - outage.since < BLINK_MS;
  if (!banner.hidden && banner.dataset.told !== "lost") announce(words);
  banner.dataset.told = banner.hidden ? "" : "lost";
  bannerTimer = setTimeout(() => lost.size && showLost(), 1000);
}

/** Return the banner's words about missed steps, given their number per list; null is a list that could not be fetched. */
export function backWords(counts) {
  if (!counts.length) return "Everything is up to date.";
  if (counts.includes(null)) return "Missed steps load when the server responds.";
  const fetched = counts.reduce((sum, count) => sum + count, 0);
  return `${counted(fetched, "new step,new steps")}, all steps loaded.`;
}

async function showBack() {
  clearTimeout(bannerTimer);
  const counts = await Promise.all([...streams.values()].flatMap(({ onBack }) => (onBack ? [onBack()] : [])));
  if (lost.size || !outage) return; // lost again meanwhile: the outage goes on
  const away = Date.now() - outage.since;
  outage = null;
  for (const heard of back) heard();
  if (byId("connection").hidden) return;
  const banner = showBanner(`Back after ${Math.max(1, Math.round(away / 1000))} s. ${backWords(counts)}`, false);
  banner.classList.remove("lost");
  banner.dataset.told = "";
  bannerTimer = setTimeout(() => { banner.hidden = true; }, BACK_MS);
}

/** Reconnect without a pause when a person presses the button, and when the network or the tab is back. */
export function startConnection() {
  document.addEventListener("click", (event) => {
    if (event.target instanceof Element && event.target.closest('[data-act="reconnect"]')) for (const one of lost) one.tryNow();
  });
  setInterval(() => { for (const stream of streams.keys()) stream.mind(); }, MIND_MS);
  addEventListener("online", () => {
    wake();
    for (const heard of back) heard();
  });
  document.addEventListener("awm:signed-out", () => showOut(SIGNED_OUT));
  document.addEventListener("visibilitychange", () => { if (document.visibilityState === "visible") wake(); });
}

// The toast about an answer that an earlier page sent: how long its delivery took. Looks back 15 minutes at most.

import { inProject } from "./address.js";
import { say } from "./toast.js";

const KEY = "awmweb-sent";
const OLD_MS = 15 * 60_000;

function load() {
  try {
    return JSON.parse(sessionStorage.getItem(KEY) || "[]");
  } catch {
    return []; // storage is closed: no toast
  }
}

function save(all) {
  try {
    sessionStorage.setItem(KEY, JSON.stringify(all));
  } catch {
    // without storage there is no toast
  }
}

/**
 * Note an answer that was sent, so the next page can report its delivery.
 * @param {string} ask
 * @param {string} at
 */
export function noteSent(ask, at) {
  save([...load().filter((one) => one.ask !== ask), { ask, at, base: inProject("") }].slice(-10));
}

/**
 * Forget answers that were undone.
 * @param {string[]} asks
 */
export const forgetSent = (asks) => save(load().filter((one) => !asks.includes(one.ask)));

/**
 * Return "Delivered in 0.4 s."
 * @param {string} sentAt
 * @param {string} deliveredAt
 */
export function deliveredWords(sentAt, deliveredAt) {
  const took = (Date.parse(deliveredAt) - Date.parse(sentAt)) / 1000;
  return `Delivered in ${took < 0.05 ? "<0.1" : took.toFixed(1)} s.`;
}

function tell(one, deliveredAt) {
  save(load().filter((other) => other.ask !== one.ask));
  const page = `${one.base}asks/${one.ask}/`;
  const way = page === location.pathname ? null : { href: page, words: "Watch the agent" };
  say(deliveredWords(one.at, deliveredAt), false, way);
}

function heard({ detail }) {
  if (detail.type !== "ask" || !detail.delivered_at) return;
  const one = load().find((sent) => sent.ask === detail.ask);
  if (one) tell(one, detail.delivered_at);
}

/** Listen for deliveries, and request once those that happened while the page changed. */
export function startSent() {
  document.addEventListener("awm:frame", heard);
  askOnce();
}

/** Request deliveries of noted answers: earlier frames found no note. */
export function askOnce() {
  const fresh = load().filter((one) => Date.now() - Date.parse(one.at) < OLD_MS);
  save(fresh);
  for (const one of fresh) {
    fetch(`${one.base}api/v1/asks/${one.ask}`, { credentials: "same-origin" })
      .then((response) => (response.ok ? response.json() : null))
      .then((view) => {
        if (view?.delivered_at) tell(one, view.delivered_at);
      })
      .catch(() => {}); // offline: a frame may still report it
  }
}

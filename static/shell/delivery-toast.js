// A word in passing about an answer that was sent from the page before: how long it took until the agent had it.

import { say } from "./toast.js";

const KEY = "awmweb-sent";
const OLD_MS = 15 * 60_000;

function load() {
  try {
    return JSON.parse(sessionStorage.getItem(KEY) || "[]");
  } catch {
    return []; // closed storage: then nothing is said
  }
}

function save(all) {
  try {
    sessionStorage.setItem(KEY, JSON.stringify(all));
  } catch {
    // the word is a courtesy; without storage there is none
  }
}

/**
 * Remember that an answer went out, so that the next page can say when it was delivered.
 * @param {string} ask
 * @param {string} at
 */
export function noteSent(ask, at) {
  save([...load().filter((one) => one.ask !== ask), { ask, at }].slice(-10));
}

/**
 * "Delivered in 0.4 s."
 * @param {string} sentAt
 * @param {string} deliveredAt
 */
export function deliveredWords(sentAt, deliveredAt) {
  const took = (Date.parse(deliveredAt) - Date.parse(sentAt)) / 1000;
  return `Delivered in ${took < 0.05 ? "<0.1" : took.toFixed(1)} s.`;
}

function tell(one, deliveredAt) {
  save(load().filter((other) => other.ask !== one.ask));
  const page = `/asks/${one.ask}/`;
  const way = page === location.pathname ? null : { href: page, words: "Watch the agent" };
  say(deliveredWords(one.at, deliveredAt), false, way);
}

function heard({ detail }) {
  if (detail.type !== "ask" || !detail.delivered_at) return;
  const one = load().find((sent) => sent.ask === detail.ask);
  if (one) tell(one, detail.delivered_at);
}

/** Listen; what was delivered while the page changed is asked for once. */
export function startSent() {
  document.addEventListener("awm:frame", heard);
  askOnce();
}

/** Frames that came before an answer was noted said nothing. */
export function askOnce() {
  const fresh = load().filter((one) => Date.now() - Date.parse(one.at) < OLD_MS);
  save(fresh);
  for (const one of fresh) {
    fetch(`/api/v1/asks/${one.ask}`, { credentials: "same-origin" })
      .then((response) => (response.ok ? response.json() : null))
      .then((view) => {
        if (view?.delivered_at) tell(one, view.delivered_at);
      })
      .catch(() => {}); // no contact: a frame will tell, or nobody
  }
}

// What a form needs whose ask closed while it was written: no countdown, and keys of a word choose and record nothing.

import { sayNear } from "./say-near.js";

const QUIET_MS = 700;

// a word that was being typed at the deadline
let [pressedAt, pressedBefore] = [0, 0];
if (typeof document !== "undefined") {
  addEventListener("keydown", () => { [pressedBefore, pressedAt] = [pressedAt, performance.now()]; }, true);
  addEventListener("pointerdown", () => { pressedBefore = -Infinity; pressedAt = performance.now(); }, true);
}

/** Return whether the last key was pressed by itself, not in a word. */
export const isQuiet = () => pressedAt - pressedBefore > QUIET_MS;

/**
 * Return the question that a frozen form asks.
 * @param {HTMLElement} page
 */
export const keepWords = (page) => `Save your text as an annotation on step ${page.dataset.seq}?`;

/**
 * Save what does not fit, such as a form that is half filled, as an annotation in words: those of the draft that the server has.
 * @param {import("../forms/drafts.js").Saver} saver
 * @param {() => Promise<void>} settle
 * @param {import("../forms/drafts.js").Store} store
 */
export async function keepUnsent(saver, settle, store) {
  saver.isPaused = false; // also of an ask that was only looked at
  for (let tries = 0; tries < 2 && !saver.settled; tries++) {
    await settle();
    await saver.save();
  }
  if (!saver.settled) return sayNear("[data-problem]", saver.state === "choosing" ? "Choose a version first." : "Not saved yet. Your text is still here. Try again.", true);
  saver.stop();
  store.clear();
  /** @type {HTMLFormElement} */ (document.getElementById("keep-unsent")).requestSubmit();
}

/**
 * Return what is said of an ask that has this person's own answer: from another tab, or one whose response was lost.
 * @param {HTMLElement} page
 */
export const answeredWords = (page) => `You answered this ask already. What is here now was not sent. ${keepWords(page)}`;

/**
 * Nothing counts down to the deadline of a closed ask any more, and it waits for no claim.
 * @param {HTMLElement} page
 */
export function stopCountdown(page) {
  page.querySelector("[data-in-hand]")?.replaceChildren(Object.assign(document.createElement("b"), { textContent: "Closed" }));
  for (const part of page.querySelectorAll("[data-fuse], [data-unclaimed]")) part.remove();
  for (const tag of /** @type {NodeListOf<HTMLButtonElement>} */ (page.querySelectorAll("button[name=tag]"))) tag.disabled = true; // a digit of a word is none
}

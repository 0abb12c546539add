// What a form needs whose ask closed while it was written: no countdown, and keys of a word choose nothing.

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
 * Nothing counts down to the deadline of a closed ask any more, and it waits for no claim.
 * @param {HTMLElement} page
 */
export function stopCountdown(page) {
  page.querySelector("[data-in-hand]")?.replaceChildren(Object.assign(document.createElement("b"), { textContent: "Closed" }));
  for (const part of page.querySelectorAll("[data-fuse], [data-unclaimed]")) part.remove();
}

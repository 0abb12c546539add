// The step strip of an episode, drawn from its letters as the server draws it (`episodes/stored/strip.py`, template tag `strip`); a
// test compares both. The page's picture book defines the marks.

import { counted, grouped } from "../shell/numbers.js";

let book = null;

/** Return marks and states by name, as the server defines them. */
export function pictures() {
  book ||= JSON.parse(document.getElementById("picture-book").textContent);
  return book;
}

const times = (codes, known) => [...codes].reduce((sum, code) => sum + (known(code) ? 1 : 0), 0);

/** Return the five words of each mark; a letter of a newer version counts as a thought. */
function marks(from) {
  return (code) => {
    const [symbol, css, word, plural, quiet, free] = from.marks[code] || from.marks.t;
    return { symbol, css, word, plural, quiet, free };
  };
}

/** Return the number of steps that count against the budget. */
export function actionsIn(codes, from = pictures()) {
  const mark = marks(from);
  return times(codes, (code) => !mark(code).quiet && !mark(code).free);
}

/** Return the strip in words for a screen reader. */
export function inWords(codes, from = pictures()) {
  if (!codes) return "no steps yet";
  const counts = new Map();
  for (const code of codes) counts.set(code, (counts.get(code) || 0) + 1);
  const mark = marks(from);
  const parts = [...counts].map(([code, n]) => counted(n, `${mark(code).word},${mark(code).plural}`));
  return `${counted(codes.length, "step,steps")}: ${parts.join(", ")}`;
}

/**
 * Return the strip as markup of numbers and words of the book. `codes` can be the end of a long strip: `acted` and `count` are then
 * its total actions and steps.
 * @param {string} codes
 * @param {{budget?: number, running?: boolean, stalled?: boolean, room?: number, acted?: number, count?: number}} [options]
 */
export function strip(codes, { budget = 0, running = false, stalled = false, room = 30, acted, count } = {}, from = pictures()) {
  const now = running && !stalled;
  const all = codes + (now ? "n" : "");
  const mark = marks(from);
  const loud = [...all].filter((code) => !mark(code).quiet);
  const kept = loud.length ? loud : [...all];
  const shown = kept.slice(-room);
  const used = acted === undefined ? actionsIn(all, from) : acted + (now ? 1 : 0);
  const left = Math.max(kept.length, loud.length && acted !== undefined ? used : 0) - shown.length;
  const dots = Math.max(0, Math.min(budget - used, room - shown.length));
  const [pitch, lead] = [from.pitch, left ? 14 + 6 * grouped(left).length : 0];
  const width = Math.max(pitch, lead + pitch * (shown.length + dots));
  const uses = shown.map((code, n) => {
    const { symbol, css } = mark(code);
    return `<use href="#${symbol}" class="${css}" x="${lead + pitch * n}" y="1" width="11" height="11"/>`;
  });
  const start = lead + pitch * shown.length;
  const todo = Array.from({ length: dots }, (_, n) => `<rect class="todo" x="${start + 4 + pitch * n}" y="5.5" width="3" height="2"/>`);
  const earlier = left ? `<text class="more" x="0" y="10.5">+${grouped(left)}</text>` : "";
  const part = count > codes.length ? `${grouped(count)} steps, of the last ` : "";
  return `<svg class="strip" width="${width}" height="13" viewBox="0 0 ${width} 13" fill="currentColor" role="img"`
    + ` aria-label="${part}${inWords(all, from)}">${earlier}${uses.join("")}${todo.join("")}</svg>`;
}

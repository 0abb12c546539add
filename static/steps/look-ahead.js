// The steps that keys of the replay jump to, fetched while the reader rests: the next three of each key on both sides, the
// first and the last. Owns which steps these are; `longlist.js` fetches and keeps them.

const DEEP = 3; // presses in a row that find their step here
const REST_MS = 90; // held keys fetch nothing, and a jump is drawn first

/**
 * Return the next steps on each side of `at` that a key goes to, the nearest first.
 * @param {string} letters one for each step
 * @param {number} at
 * @param {string[]} kinds letters that are one key's
 * @param {Iterable<number>} said steps that people said something of
 * @returns {number[]}
 */
export function jumpsFrom(letters, at, kinds, said = []) {
  const found = new Set([1, letters.length]);
  for (const kind of kinds) {
    for (const step of [1, -1]) {
      for (let seq = at + step, left = DEEP; left && seq >= 1 && seq <= letters.length; seq += step) {
        if (!kind.includes(letters[seq - 1])) continue;
        found.add(seq);
        left -= 1;
      }
    }
  }
  const near = [...said].sort((one, other) => Math.abs(one - at) - Math.abs(other - at));
  for (const step of [1, -1]) {
    for (const seq of near.filter((one) => (one - at) * step > 0).slice(0, DEEP)) found.add(seq);
  }
  return [...found].filter((seq) => seq >= 1).sort((one, other) => Math.abs(one - at) - Math.abs(other - at));
}

let timer = 0;

/**
 * Fetch the steps of `jumps` once the reader rests.
 * @param {{bring: (seqs: number[]) => Promise<void>}} list
 * @param {() => number[]} jumps
 */
export function lookAhead(list, jumps) {
  clearTimeout(timer);
  timer = setTimeout(() => list.bring(jumps()), REST_MS);
}

/** Fetch nothing more, because the page has ended. */
export function lookNoMore() { clearTimeout(timer); }

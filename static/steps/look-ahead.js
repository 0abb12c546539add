// The steps to which a key of the replay jumps from where the reader stands, fetched before it is pressed. Owns which ones
// those are; `longlist.js` fetches and keeps them.

const DEEP = 3; // presses of a key in a row that find their step here
const REST_MS = 90; // keys that are held down fetch nothing, and a jump is drawn first

/**
 * The numbers of the next steps on each side of `at` that a key goes to, the nearest first.
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
 * Fetch what `jumps` names once the reader rests.
 * @param {{bring: (seqs: number[]) => Promise<void>}} list
 * @param {() => number[]} jumps
 */
export function lookAhead(list, jumps) {
  clearTimeout(timer);
  timer = setTimeout(() => list.bring(jumps()), REST_MS);
}

/** Fetch nothing more: the page is over. */
export function lookNoMore() { clearTimeout(timer); }

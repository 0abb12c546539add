// Heights of the steps of a long list: the measured ones by number, the mean for the others, and sums of them in logarithmic
// time, so the position of step 9,999 is known without drawing the steps before it. Pure.

const START = 64;

/** Heights of rows 0 to `count` - 1. */
export class Heights {
  constructor(usual = START) {
    this.usual = usual;
    this.count = 0;
    this.room = 0;
    this.known = 0;
    this.sum = 0;
    this.#grow(1024);
  }

  #grow(room) {
    const heights = new Float32Array(room).fill(-1);
    if (this.heights) heights.set(this.heights);
    this.heights = heights;
    this.room = room;
    this.tree = new Float64Array(room + 1); // known heights
    this.marks = new Uint32Array(room + 1); // how many are known
    for (let n = 0; n < this.count; n += 1) if (heights[n] >= 0) this.#add(n, heights[n], 1);
  }

  #add(row, height, mark) {
    for (let n = row + 1; n <= this.room; n += n & -n) {
      this.tree[n] += height;
      this.marks[n] += mark;
    }
  }

  /** Set the number of rows. */
  extend(count) {
    if (count > this.room) this.#grow(Math.max(count, this.room * 2));
    this.count = Math.max(this.count, count);
  }

  /** Set the measured height of a row; return by how much it differs from the assumed one. */
  set(row, height) {
    const before = this.heights[row];
    if (before === height) return 0;
    const believed = before < 0 ? this.usual : before;
    this.#add(row, height - Math.max(before, 0), before < 0 ? 1 : 0);
    this.known += before < 0 ? 1 : 0;
    this.sum += height - Math.max(before, 0);
    this.heights[row] = height;
    return height - believed;
  }

  /** Forget the measured heights, because the width changed. */
  forget() {
    if (this.known) this.usual = this.sum / this.known;
    this.heights.fill(-1);
    this.tree.fill(0);
    this.marks.fill(0);
    this.known = this.sum = 0;
  }

  /** Return the height of all rows before `row`. */
  top(row) {
    let [sum, marks] = [0, 0];
    for (let n = Math.min(row, this.count); n > 0; n -= n & -n) {
      sum += this.tree[n];
      marks += this.marks[n];
    }
    return sum + (Math.min(row, this.count) - marks) * this.usual;
  }

  get total() {
    return this.top(this.count);
  }

  /** Return the row at a distance from the top of the list. */
  at(y) {
    let [low, high] = [0, Math.max(0, this.count - 1)];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.top(middle) <= y) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** Assume the mean of the known heights for the others. Only in a new list: later the view would jump. */
  learn() {
    if (this.known) this.usual = this.sum / this.known;
  }
}

/**
 * Return the rows to have on the page for a view from `top` to `bottom`: those in view and `over` beyond it, at most `most`.
 * @param {Heights} heights
 * @param {number} top
 * @param {number} bottom
 * @param {number} over
 * @param {number} most
 */
export function windowFor(heights, top, bottom, over, most) {
  if (!heights.count) return [0, -1];
  let first = heights.at(Math.max(0, top - over));
  let last = heights.at(Math.max(0, bottom + over));
  const seen = heights.at(Math.max(0, top));
  if (last - first + 1 > most) {
    first = Math.max(first, seen - Math.floor(most / 3));
    last = Math.min(last, first + most - 1);
  }
  return [first, last];
}

/**
 * Return the next stretch [from, to] of numbers from `first` to `last` that `has` lacks; null if there is none.
 * @param {number} first
 * @param {number} last
 * @param {(seq: number) => boolean} has
 * @param {number} most
 */
export function stretch(first, last, has, most) {
  let from = first;
  while (from <= last && has(from)) from += 1;
  if (from > last) return null;
  let to = from;
  for (let n = from; n <= Math.min(last, from + most - 1); n += 1) if (!has(n)) to = n;
  return [from, to];
}

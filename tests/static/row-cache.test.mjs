import assert from "node:assert/strict";
import { test } from "node:test";
import { Kept } from "../../static/steps/row-cache.js";

const row = (seq, ...open) => {
  const details = open.map((one) => ({ open: one }));
  return { dataset: { seq: String(seq) }, details, querySelectorAll: (what) => (what === "details" ? details : []) };
};
const opened = (one) => one.details.map((detail) => detail.open);

test("of many rows those far away are forgotten, the first that came first", () => {
  const kept = new Kept();
  for (let seq = 1; seq <= 1000; seq += 1) kept.keep(row(seq));
  kept.forget(400, 500);
  assert.equal(kept.rows.size, 360);
  assert.ok(kept.get(400) && kept.get(500) && kept.get(1000) && !kept.get(1));
});

test("a row comes back as the reader left it, and one that nobody touched as it comes", () => {
  const kept = new Kept();
  const [first, second] = [row(1, false, false), row(2, true)];
  for (const one of [first, second]) kept.keep(one);
  first.details[1].open = true;
  for (const one of [first, second]) kept.noteOpen(one);
  assert.deepEqual([...kept.opened.keys()], [1]);
  const again = row(1, false, false);
  kept.keep(again);
  assert.deepEqual(opened(again), [false, true]);
  again.details[1].open = false;
  kept.noteOpen(again);
  assert.equal(kept.opened.size, 0);
});

test("with everything open what comes is open too, and nothing is noted of it", () => {
  const kept = new Kept();
  const shown = row(1, false);
  kept.keep(shown);
  kept.openAll([shown]);
  const next = row(2, false);
  kept.keep(next);
  kept.noteOpen(next);
  assert.deepEqual([opened(shown), opened(next), kept.opened.size], [[true], [true], 0]);
  kept.openAll([shown, next]);
  assert.deepEqual([opened(shown), opened(next)], [[false], [false]]);
});

test("a row that is out of date is asked for, one that the server has not is left alone for a while", () => {
  const kept = new Kept();
  kept.keep(row(1));
  kept.miss(2);
  kept.miss(3, 0);
  assert.deepEqual([1, 2, 3, 4].map((seq) => kept.has(seq)), [true, true, false, false]);
  assert.deepEqual([1, 2, 4].map((seq) => kept.settled(seq)), [true, true, false]);
  kept.outdate(1);
  assert.equal(kept.has(1), false);
  kept.keep(row(1));
  kept.hope();
  assert.deepEqual([kept.has(1), kept.has(2)], [true, false]);
});

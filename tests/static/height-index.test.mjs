import assert from "node:assert/strict";
import { test } from "node:test";
import { Heights, stretch, windowFor } from "../../static/steps/height-index.js";

const list = (count, usual = 50) => {
  const heights = new Heights(usual);
  heights.extend(count);
  return heights;
};

test("rows that nobody measured have the usual height, measured ones their own", () => {
  const heights = list(10_000);
  assert.equal(heights.total, 500_000);
  heights.set(4, 90);
  heights.set(9_999, 10);
  assert.deepEqual([heights.top(4), heights.top(5), heights.total], [200, 290, 500_000]);
  heights.set(4, 60);
  assert.deepEqual([heights.top(5), heights.top(10_000)], [260, 499_970]);
});

test("the row at a height is the one whose top lies at or above it", () => {
  const heights = list(100);
  heights.set(0, 10);
  assert.deepEqual([heights.at(0), heights.at(9), heights.at(10), heights.at(59), heights.at(60), heights.at(1e9)], [0, 0, 1, 1, 2, 99]);
});

test("a list grows past its first room and keeps what was measured", () => {
  const heights = list(1000);
  heights.set(999, 80);
  heights.extend(5000);
  assert.deepEqual([heights.top(1000), heights.total], [999 * 50 + 80, 4999 * 50 + 80]);
});

test("sums of many measured rows are those of adding them up", () => {
  const heights = list(3000);
  let sum = 0;
  for (let n = 0; n < 3000; n += 1) {
    const height = n % 3 ? 20 + (n % 40) : 50;
    if (n % 3) heights.set(n, height);
    assert.equal(heights.top(n), sum);
    sum += height;
  }
});

test("a new width forgets what was measured and keeps the mean", () => {
  const heights = list(10);
  heights.set(0, 20);
  heights.set(1, 40);
  heights.forget();
  assert.equal(heights.total, 300);
});

test("a window holds the view and a margin, and never more than it may", () => {
  const heights = list(10_000);
  assert.deepEqual(windowFor(heights, 50_000, 50_800, 200, 500), [996, 1020]);
  assert.deepEqual(windowFor(heights, 0, 800, 200, 500), [0, 20]);
  const [first, last] = windowFor(heights, 50_000, 90_000, 900, 100);
  assert.ok(last - first + 1 === 100 && first <= 1000 && last >= 1000);
  assert.deepEqual(windowFor(list(0), 0, 800, 200, 500), [0, -1]);
});

test("what is missing is asked for in one stretch of bounded length", () => {
  const have = new Set([1, 2, 5]);
  assert.deepEqual(stretch(1, 8, (n) => have.has(n), 100), [3, 8]);
  assert.deepEqual(stretch(1, 80, (n) => have.has(n), 10), [3, 12]);
  assert.equal(stretch(1, 2, (n) => have.has(n), 10), null);
});

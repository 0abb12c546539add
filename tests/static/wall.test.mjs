import assert from "node:assert/strict";
import { test } from "node:test";
import { matters } from "../../static/lists/queue.js";
import { firstTick } from "../../static/steps/scrubber.js";
import { lostWords } from "../../static/shell/connection.js";
import { stepOf } from "../../static/steps/steps.js";
import { visible } from "../../static/shell/visible-text.js";
import { actedAfter, inOrder, lineOf, needOf } from "../../static/lists/wall.js";

const book = { marks: { t: ["k", "", "thought", "thoughts", true, false], r: ["k", "", "read", "reads", false, false] } };

test("a running episode without a step for more than 30 seconds is stalled, a waiting one needs a person", () => {
  const need = (state, now) => needOf(state, 0, now, { stalled: "30" });
  assert.deepEqual([need("running", 30_000), need("running", 30_001), need("waiting", 9e9), need("queued", 9e9), need("finished", 1)],
    ["running", "stalled", "person", "queued", "over"]);
});

test("rows stand by need and then by age", () => {
  const rows = [["a", "running", 1], ["b", "stalled", 3], ["c", "person", 9], ["d", "running", 0], ["f", "over", 0], ["e", "queued", 0]];
  assert.deepEqual(inOrder(rows.map(([key, need, order]) => ({ key, need, order }))).map((row) => row.key), ["c", "b", "d", "a", "e", "f"]);
});

test("what turns lines around is shown as a code", () => {
  assert.equal(visible("a\u202eb\u2067c\0"), "a⟨U+202E⟩b⟨U+2067⟩c⟨NUL⟩");
  assert.equal(visible("עברית"), "עברית");
});

test("the wall says its counts", () => {
  assert.equal(lineOf(["person", "stalled", "running"]), "3 live, 1 needs a person, 1 stalled");
  assert.equal(lineOf(["running"], 340), "1 of 340 live");
  assert.equal(lineOf([]), "");
});

test("actions are counted on from a frame that carries the end of a long strip", () => {
  assert.equal(actedAfter(0, 0, { last_seq: 3, strip: "rtr" }, book), 2);
  assert.equal(actedAfter(250, 300, { last_seq: 303, strip: `${"r".repeat(197)}rtr` }, book), 252);
  assert.equal(actedAfter(250, 300, { last_seq: 300, strip: "r".repeat(200) }, book), 250);
});

test("only a change of state makes a page fetch itself, a step does not", () => {
  const known = new Map([["e", "running"]]);
  assert.deepEqual([
    matters({ type: "episode", episode: "e", state: "running" }, known),
    matters({ type: "episode", episode: "e", state: "waiting" }, known),
    matters({ type: "ask" }, known),
    matters({ type: "presence" }, known),
  ], [false, true, true, true]);
});

test("an address names a step by hash or by query", () => {
  assert.deepEqual(["http://h/e/#step-7", "http://h/e/?step=8", "http://h/e/", "http://h/e/?step=x#other"].map(stepOf), [7, 8, null, null]);
});

test("the scrubber of a long episode begins around the step in view", () => {
  assert.deepEqual([firstTick(1, 10), firstTick(1, 1000), firstTick(500, 1000), firstTick(1000, 1000)], [1, 1, 470, 940]);
});

test("a lost line says how old the page is", () => {
  assert.equal(lostWords({ silent: 12_300, seq: 18204, safe: null }), "Reconnecting, last update 12 s ago. Showing step 18204.");
  assert.equal(lostWords({ silent: 900, seq: null, safe: {} }), "Reconnecting. This page may be out of date. Your text is saved.");
});

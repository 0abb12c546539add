import assert from "node:assert/strict";
import { test } from "node:test";
import { counted, grouped } from "../../static/shell/numbers.js";
import { duration, inAll } from "../../static/forms/fork-form.js";
import { sendOnce } from "../../static/forms/send-once.js";
import { lineOf } from "../../static/lists/wall.js";
import { whyNot } from "../../static/lists/episodes.js";

test("counts have thousands separators and one form of their noun", () => {
  assert.deepEqual([grouped(999), grouped(12345)], ["999", "12,345"]);
  assert.deepEqual([counted(1, "step,steps"), counted(1234, "step,steps")], ["1 step", "1,234 steps"]);
  assert.equal(lineOf(Array(1200).fill("running"), 12000), "1,200 of 12,000 live");
});

test("a command names how many episodes it takes", () => {
  assert.equal(whyNot("Compare", 1, { least: "2", most: "24" }), "Compare takes 2 to 24 episodes.");
  assert.equal(whyNot("Label", 201, { most: "200" }), "Label takes 1 to 200 episodes.");
  assert.equal(whyNot("Export", 5000, {}), "");
});

test("a fork adds up what the branches of both arms take", () => {
  assert.equal(inAll("350", " 16 "), "11,200");
  assert.equal(inAll("28.9", "4", duration), "3:51");
  assert.equal(inAll("0.1", "4", duration), "<1\u00a0s");
  assert.deepEqual([inAll("350", "x"), inAll("350", "0"), inAll("350", "")], ["?", "?", "?"]);
});

test("a form is sent once", () => {
  const form = new EventTarget();
  sendOnce(/** @type {any} */ (form));
  const send = () => form.dispatchEvent(new Event("submit", { cancelable: true }));
  assert.deepEqual([send(), send()], [true, false], "the answer to the first is on its way");
});

// The pure part of a decision's form: which fields a call has, and what is said of a verdict.

import assert from "node:assert/strict";
import { test } from "node:test";
import { parseExact, writeExact } from "../../static/forms/exact-json.js";
import { changedIn, choiceOf, decisionOn, shapeOfCall } from "../../static/ask/decision-form.js";

const schema = { type: "object", required: ["amount"], properties: { amount: { type: "number", minimum: 1, maximum: 249 } } };
const call = parseExact('{"id": "1", "name": "refund", "arguments": {"amount": 249.0, "order": 9007199254740993, "lines": [1], "note": "a"}}');
call.schema = schema;

test("a call has fields for what its schema names and for what the agent sent beside it", () => {
  const types = Object.fromEntries(Object.entries(shapeOfCall(call).properties).map(([name, one]) => [name, one.type]));
  assert.deepEqual(types, { amount: "number", order: "number", lines: "array", note: "string" });
  assert.deepEqual(Object.keys(shapeOfCall({ id: "1", name: "x", arguments: { constructor: 1 } }).properties), ["constructor"]);
});

test("an edit keeps every digit and names what does not fit", () => {
  const texts = { amount: "124.50", order: "9007199254740993", lines: "[1]", note: "a" };
  assert.deepEqual(changedIn(call, texts), ["amount"]);
  const { decision, problem } = decisionOn(call, { id: "1", verdict: "edit", texts }, 1);
  assert.equal(problem, "");
  assert.match(writeExact(decision), /"order":\s?9007199254740993/);
  assert.equal(decisionOn(call, { id: "1", verdict: "edit", texts: { ...texts, amount: "250" } }, 2).problem, "Call 2: amount must be at most 249.");
  const same = { ...texts, amount: "249.0" };
  assert.match(decisionOn(call, { id: "1", verdict: "edit", texts: same }, 1).problem, /Change a value of call 1/);
});

test("a rejection needs a reason and an undecided call is named", () => {
  assert.match(decisionOn(call, { id: "1" }, 3).problem, /Decide call 3: refund/);
  assert.match(decisionOn(call, { id: "1", verdict: "reject", reason: " " }, 1).problem, /Give a reason/);
  assert.deepEqual(decisionOn(call, { id: "1", verdict: "approve" }, 1), { decision: { id: "1", verdict: "approve" }, problem: "" });
});

test("a choice takes one option unless it takes many", () => {
  const typed = { kind: "choice", options: [], other: true };
  assert.equal(choiceOf(typed, [], "").problem, "Choose an option.");
  assert.equal(choiceOf(typed, ["a"], "and more").problem, "Choose one option.");
  assert.deepEqual(choiceOf({ ...typed, many: true }, ["a"], "b"), { decision: { chosen: ["a"], other: "b" }, problem: "" });
});

test("an edit of a call keeps the agent's order of names and every digit", () => {
  const call = parseExact('{"id":"1","name":"put","arguments":{"20":9007199254740993,"3":"x","1":{"b":1,"0":2.0}}}');
  const texts = { 20: "9007199254740993", 3: "y", 1: '{"b":1,"0":2.0}' };
  assert.deepEqual(changedIn(call, texts), ["3"]);
  const { decision } = decisionOn(call, { verdict: "edit", texts }, 1);
  assert.equal(writeExact(decision.arguments), '{"20":9007199254740993,"3":"y","1":{"b":1,"0":2.0}}');
});

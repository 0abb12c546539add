// The pure part of a decision's form: which fields a call has, and what is said of a verdict.

import assert from "node:assert/strict";
import { test } from "node:test";
import { parseExact, writeExact } from "../../static/forms/exact-json.js";
import { breakWords, changedIn, decisionOn, editOf, shapeOfCall } from "../../static/ask/call-edit.js";
import { choiceOf, draftWords } from "../../static/ask/decision-form.js";
import { helpOf } from "../../static/forms/schema-form.js";
import { coverWords } from "../../static/ask/standing-answer.js";

const schema = { type: "object", required: ["amount"], properties: { amount: { type: "number", minimum: 1, maximum: 249 } } };
const call = parseExact('{"id": "1", "name": "refund", "arguments": {"amount": 249.0, "order": 9007199254740993, "lines": [1], "note": "a"}}');
call.schema = schema;

test("a call has fields for what its schema names and for what the agent sent beside it", () => {
  const types = Object.fromEntries(Object.entries(shapeOfCall(call).properties).map(([name, one]) => [name, one.type]));
  assert.deepEqual(types, { amount: "number", order: "number", lines: "array", note: "string" });
  assert.deepEqual(Object.keys(shapeOfCall({ id: "1", name: "x", arguments: { constructor: 1 } }).properties), ["constructor"]);
});

test("an argument that is null and that no schema names becomes a text, or stays null", () => {
  const sent = { id: "1", name: "x", arguments: { note: null, amount: 5 } };
  const edited = (texts) => decisionOn(sent, { id: "1", verdict: "edit", texts: { note: "null", amount: "5", ...texts } }, 1);
  assert.deepEqual(edited({ note: "hello" }), { decision: { id: "1", verdict: "edit", arguments: { note: "hello", amount: 5 } }, problem: "" });
  assert.equal(edited({ amount: "6" }).decision.arguments.note, null);
  assert.equal(helpOf(shapeOfCall(sent).properties.note), "text; null as the agent sent it");
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

test("a draft says what it decides, so that one of two can be chosen", () => {
  const texts = { amount: "12.5", order: "9007199254740993", lines: "[1]", note: "a" };
  const words = (typed, draft) => draftWords(typed, draft).join("\n");
  assert.equal(words({ kind: "approval", calls: [call] }, { calls: [{ id: "1", verdict: "edit", texts }] }), "Edit refund; amount: 12.5");
  assert.equal(words({ kind: "approval", calls: [call] }, { calls: [{ id: "1", verdict: "reject", reason: "No." }] }), "Reject refund; No.");
  assert.equal(words({ kind: "choice", options: [{ id: "a", label: "North" }] }, { chosen: ["a", "b"], other: "c" }), "North\nb\nc");
  assert.equal(words({ kind: "form" }, { texts: { '["who","name"]': "Ada", day: "" } }), "who › name: Ada");
  assert.equal(words({ kind: "form" }, null), "");
});

test("an edit of a call keeps the agent's order of names and every digit", () => {
  const call = parseExact('{"id":"1","name":"put","arguments":{"20":9007199254740993,"3":"x","1":{"b":1,"0":2.0}}}');
  const texts = { 20: "9007199254740993", 3: "y", 1: '{"b":1,"0":2.0}' };
  assert.deepEqual(changedIn(call, texts), ["3"]);
  const { decision } = decisionOn(call, { verdict: "edit", texts }, 1);
  assert.equal(writeExact(decision.arguments), '{"20":9007199254740993,"3":"y","1":{"b":1,"0":2.0}}');
});

test("a standing answer says which calls it covers", () => {
  assert.match(coverWords({ equal: ["to"], free: [], further: false }), /^A call with other arguments than these comes to people\.$/);
  assert.match(coverWords({ equal: ["to"], free: ["note", "\u202eb"], further: false }), /^note, ⟨U\+202E⟩b can have any value or none\. A call with other/);
  assert.match(coverWords({ equal: ["to"], free: ["note"], further: true }), /the same to, whatever other arguments/);
  assert.match(coverWords({ equal: [], free: [], further: false }), /without arguments only/);
  assert.match(coverWords({ equal: [], free: ["a"], further: true }), /each call of this tool, with any/);
});

const MIXED = '{"amount":5,"note":null,"code":7,"flag":null,"kind":"x","free":null,"big":123456789012345678901234567890,"rate":1.0,"empty":"","lines":"a\\r\\nb","deep":{"2":[1.0,null],"1":-0.0},"wrong":"ten"}';
const UNIONS = {
  type: "object",
  properties: {
    amount: { type: "integer" }, note: { type: ["string", "null"] }, code: { type: ["string", "integer"] }, flag: { type: ["boolean", "null"] },
    kind: { enum: ["a", "b"] }, big: { type: ["number", "string"] }, rate: { type: "number" }, empty: { type: "string" }, wrong: { type: "integer" },
  },
};
/** What the fields of a call hold: a field ends its lines with one line feed. */
const fieldsOf = (given) => Object.fromEntries(Object.entries(given).map(([name, value]) => [name, (typeof value === "string" ? value : writeExact(value)).replaceAll("\r\n", "\n")]));

test("an edit of one argument leaves every other value as it was proposed", () => {
  const call = { id: "1", name: "pay", arguments: parseExact(MIXED), schema: UNIONS };
  const texts = { ...fieldsOf(call.arguments), amount: "6" };
  assert.deepEqual(changedIn(call, texts), ["amount"]);
  const { decision, problem } = decisionOn(call, { id: "1", verdict: "edit", texts }, 1);
  assert.equal(problem, "");
  assert.equal(writeExact(Object.fromEntries(Object.entries(decision.arguments).sort())), writeExact(Object.fromEntries(Object.entries({ ...call.arguments, amount: 6 }).sort())));
});

test("an edit of a decision leaves its other values as they were decided", () => {
  const call = { id: "1", name: "pay", arguments: parseExact(MIXED), schema: UNIONS };
  const decided = parseExact('{"amount":6,"note":null,"code":8,"flag":true}');
  const draft = { id: "1", verdict: "edit", texts: { ...fieldsOf(decided), amount: "9" }, arguments: decided };
  assert.equal(writeExact(decisionOn(call, draft, 1).decision.arguments), '{"amount":9,"note":null,"code":8,"flag":true}');
});

test("a value of a union that was edited keeps its type where that fits", () => {
  const edited = (text, value, type) => decisionOn({ id: "1", name: "x", arguments: { code: value }, schema: { properties: { code: { type } } } }, { id: "1", verdict: "edit", texts: { code: text } }, 1).decision.arguments.code;
  assert.equal(edited("8", 7, ["string", "integer"]), 8);
  assert.equal(edited("A8", 7, ["string", "integer"]), "A8");
  assert.equal(edited("8", "7", ["integer", "string"]), "8");
  assert.equal(edited("8", null, ["integer", "null"]), 8);
});

test("an untouched argument that breaks its schema is refused at its field", () => {
  const breaks = [{ name: "day", words: "day must be a date such as 2026-11-27" }, { name: "to", words: "to is missing" }];
  const call = { id: "1", name: "book", arguments: { day: "soon", room: 1 }, schema: { properties: { day: { type: "string" } } }, breaks };
  const edit = (texts) => editOf(call, { id: "1", verdict: "edit", texts: { day: "soon", room: "1", ...texts } }).reasons;
  assert.deepEqual([...edit({ room: "2" })], breaks.map(({ name, words }) => [name, words]));
  assert.deepEqual([...edit({ day: "2026-11-27" }).keys()], ["to"]);
  assert.equal(decisionOn(call, { id: "1", verdict: "edit", texts: { day: "soon", room: "2" } }, 2).problem, "Call 2: day must be a date such as 2026-11-27; to is missing.");
  assert.equal(breakWords(call, "So."), "day must be a date such as 2026-11-27; to is missing. So.");
  assert.equal(breakWords({ id: "1", name: "x" }, "So."), "");
});

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { ago, clock, inFull, level, timeIn } from "../../static/shell/clock.js";
import { matters } from "../../static/lists/queue.js";
import { moved, movedOver, nextAfter } from "../../static/forms/list-keys.js";
import { isOut, outWords, post, wordsOf } from "../../static/shell/post.js";
import { visible } from "../../static/shell/visible-text.js";
import { hasBelow, isForQuestion } from "../../static/ask/question-scroll.js";
import { keptInSight } from "../../static/ask/mobile-keyboard.js";
import { leaseWords } from "../../static/ask/lease.js";
import { chosen, helpOf, read, shapeOf, turnedWords, typeOf, valueOf } from "../../static/forms/schema-form.js";
import { jumpsFrom } from "../../static/steps/look-ahead.js";
import { nextMark, nextSaid, withStep } from "../../static/steps/scrubber.js";
import { backWords } from "../../static/shell/connection.js";
import { fieldNamed } from "../../static/shell/refused.js";
import { canTake, nearestOf, noteAsk, ripe } from "../../static/shell/shell.js";

test("seconds read as a clock and never below zero", () => {
  assert.deepEqual([0, 9.9, 42, 138, 3600, 3725, -3].map(clock), ["0:00", "0:09", "0:42", "2:18", "1:00:00", "1:02:05", "0:00"]);
});

test("a countdown is calm above 45 percent, soon to 20, late below", () => {
  const levels = { late: "0.2", soon: "0.45" };
  assert.deepEqual([1, 0.45, 0.449, 0.2, 0.199, 0].map((share) => level(share, levels)), ["", "", "soon", "soon", "late", "late"]);
});

test("times of the past are one unit, rounded down", () => {
  assert.deepEqual([2, 12, 61, 7300, 200000].map(ago), ["just now", "12 s ago", "1 min ago", "2 h ago", "2 d ago"]);
});

test("what was missed is called whole only when it was fetched", () => {
  assert.equal(backWords([]), "Everything is up to date.");
  assert.equal(backWords([1]), "1 new step, all steps loaded.");
  assert.equal(backWords([2, 3]), "5 new steps, all steps loaded.");
  assert.doesNotMatch(backWords([2, null]), /all steps loaded|up to date/);
});

test("the selection starts at the near end and stays in the list", () => {
  assert.deepEqual([moved(-1, 1, 3), moved(-1, -1, 3), moved(2, 1, 3), moved(0, -1, 3), moved(0, 1, 0)], [0, 2, 2, 0, -1]);
});

test("the scrubber jumps to the next of one kind", () => {
  const letters = "trweaorewt";
  assert.deepEqual([nextMark(letters, 0, 1, "e"), nextMark(letters, 3, 1, "e"), nextMark(letters, 9, -1, "oa")], [3, 7, 5]);
  assert.equal(nextMark(letters, 7, 1, "e"), 7);
});

test("the scrubber jumps to the next step with labels", () => {
  const said = new Set([70, 2, 9]);
  assert.deepEqual([nextSaid(said, 1, 1), nextSaid(said, 2, 1), nextSaid(said, 9, 1), nextSaid(said, 70, 1)], [2, 9, 70, 70]);
  assert.deepEqual([nextSaid(said, 80, -1), nextSaid(said, 70, -1), nextSaid(said, 2, -1), nextSaid([], 5, 1)], [70, 9, 2, 5]);
});

test("the scrubber jumps to the next write, error, ask or verification", () => {
  const letters = ["t", "r", "w", "r", "o", "C"];
  assert.deepEqual([nextMark(letters, 0, 1), nextMark(letters, 2, 1), nextMark(letters, 5, -1), nextMark(letters, 5, 1)], [2, 4, 4, 5]);
});

test("the step in view stands in the address and nothing else of it changes", () => {
  assert.equal(withStep("http://h/episodes/e/replay/?step=2&x=1#step-2", 14), "/episodes/e/replay/?step=14&x=1");
});

test("asks that people can take are kept by frame, and the nearest deadline is known", () => {
  const asks = new Map();
  const listed = (id, deadline_at, more) => ({ id, deadline_at, tier: "people", ...more });
  noteAsk({ type: "queue", asks: [listed("a", "2026-01-01T00:02:00Z"), listed("b", "2026-01-01T00:01:00+00:00"), listed("m", "2026-01-01T00:00:30Z", { tier: "llm" })] }, asks);
  assert.equal(nearestOf(asks), "2026-01-01T00:01:00+00:00");
  assert.equal(noteAsk({ type: "ask", ask: "b", status: "answered", tier: "people" }, asks), true);
  assert.equal(noteAsk({ type: "ask", ask: "a", status: "open", tier: "people", deadline_at: "2026-01-01T00:02:00Z" }, asks), false);
  assert.equal(noteAsk({ type: "ask", ask: "m", status: "open", tier: "senior", deadline_at: "2026-01-01T00:00:30Z" }, asks), true);
  assert.equal(noteAsk({ type: "ask", ask: "m", status: "open", tier: "llm", deadline_at: "2026-01-01T00:00:30Z" }, asks), true);
  assert.equal(noteAsk({ type: "episode" }, asks), false);
  assert.deepEqual([...asks.keys()], ["a"]);
  assert.equal(ripe(asks, Date.parse("2026-01-01T00:03:00Z")).size, 0);
});

test("an ask in somebody's hands is nothing to take until the lease has lapsed", () => {
  const asks = new Map();
  noteAsk({ type: "ask", ask: "a", status: "open", tier: "people", deadline_at: "2026-01-01T00:05:00Z", lease_until: "2026-01-01T00:01:30Z" }, asks);
  assert.equal(ripe(asks, Date.parse("2026-01-01T00:01:00Z")).size, 0);
  assert.equal(ripe(asks, Date.parse("2026-01-01T00:02:00Z")).size, 1);
});

test("a lease that goes on keeps its ask out of the count, and changes nothing that the server draws", () => {
  const asks = new Map();
  noteAsk({ type: "ask", ask: "a", status: "open", tier: "people", deadline_at: "2026-01-01T00:05:00Z", lease_until: "2026-01-01T00:01:30Z" }, asks);
  const renewed = { type: "lease", ask: "a", lease_until: "2026-01-01T00:02:30Z" };
  noteAsk(renewed, asks);
  noteAsk({ ...renewed, ask: "unknown" }, asks);
  assert.equal(ripe(asks, Date.parse("2026-01-01T00:02:00Z")).size, 0);
  assert.deepEqual([...asks.keys(), matters(renewed, new Map())], ["a", false]);
});

test("asks beyond the listed ones are counted until they are heard to be taken or closed, each once", () => {
  const asks = new Map();
  const rest = { count: 0, left: new Set() };
  const hear = (ask, more) => noteAsk({ type: "ask", ask, status: "open", tier: "people", deadline_at: "2026-01-01T00:05:00Z", ...more }, asks, rest);
  noteAsk({ type: "queue", asks: [{ id: "a", tier: "people", deadline_at: "2026-01-01T00:02:00Z" }], more: 3 }, asks, rest);
  hear("new");
  assert.equal(rest.count, 3);
  assert.equal(hear("far", { held_by: "edo", lease_until: "2026-01-01T00:01:30Z" }), true);
  hear("far", { status: "answered" });
  hear("far", { status: "answered", delivered_at: "2026-01-01T00:01:31Z" });
  assert.equal(rest.count, 2);
  hear("far2", { status: "cancelled" });
  hear("a", { status: "answered" });
  hear("model", { tier: "llm", status: "fell_back" });
  assert.deepEqual([rest.count, [...asks.keys()]], [1, ["new"]]);
});

test("the selection steps over rows that are gone and stays where none is left", () => {
  assert.equal(movedOver(0, 1, [false, true, false]), 2);
  assert.equal(movedOver(1, 1, [false, false, true]), 1);
  assert.equal(movedOver(-1, 1, [true, false]), 1);
  assert.equal(movedOver(0, -1, [false]), 0);
});

test("what comes next waits, and is first in the same group", () => {
  const one = (/** @type {string} */ key, group = key, place = "free", isClosed = false) => ({ key, group, place, isClosed });
  const all = [one("a", "a", "held"), one("b"), one("c", "c", "free", true), one("d", "c"), one("e", "c", "mine"), one("f", "f", "held"), one("g")];
  assert.equal(nextAfter(all, 2)?.key, "d"); // the head is answered
  assert.equal(nextAfter(all, 4)?.key, "d"); // before it, and in its group
  assert.equal(nextAfter([...all.slice(0, 4), ...all.slice(5)], 3)?.key, "g"); // what another holds does not wait
  assert.equal(nextAfter(all, 6)?.key, "e");
  assert.equal(nextAfter([one("x", "x", "held"), one("y")], 1)?.key, "x");
  assert.equal(nextAfter([one("x")], 0), null);
});

test("what an agent does with an answer draws no list anew", () => {
  assert.equal(matters({ type: "ask", status: "answered" }), true);
  assert.equal(matters({ type: "ask", status: "answered", delivered_at: "2026-01-01T00:00:00Z" }), false);
  assert.equal(matters({ type: "presence", who: "user:1", state: "away" }), true);
  assert.equal(matters({ type: "outcome", episode: "e" }), true); // the rates of lists and Home have changed
  assert.equal(matters({ type: "draft" }), false);
});

test("a field gives a value of the schema's type, and says what it wants otherwise", () => {
  assert.equal(valueOf("42", { type: "integer" }), 42);
  assert.equal(valueOf(" 4.5 ", { type: "number" }), 4.5);
  assert.equal(valueOf("true", { type: "boolean" }), true);
  assert.equal(valueOf("2", { enum: [1, 2] }), 2);
  assert.deepEqual(valueOf("[1, 2]", { type: "array" }), [1, 2]);
  assert.equal(valueOf("", { type: "string" }), undefined);
  assert.throws(() => valueOf("4x", { type: "integer" }), /whole number/);
  assert.throws(() => valueOf("{", { type: "object" }), /JSON/);
});

test("a union is filled in as its first real type", () => {
  assert.equal(typeOf({ anyOf: [{ type: "null" }, { type: "integer" }] }), "integer");
  assert.equal(typeOf({ type: ["null", "number"] }), "number");
  assert.equal(typeOf({}), "string");
});

test("a form reads into arguments and names what is missing or wrong", () => {
  const schema = { properties: { id: { type: "integer" }, tag: { type: "string" } }, required: ["id"] };
  assert.deepEqual(read({ id: "7", tag: "" }, schema), { arguments: { id: 7 }, problems: [], wrong: undefined, reasons: new Map() });
  assert.deepEqual(read({ id: "" }, schema), { arguments: {}, problems: ["id is missing"], wrong: "id", reasons: new Map([["id", "id is missing"]]) });
  assert.deepEqual(read({ id: "x" }, schema).problems, ["id must be a whole number"]);
});

test("a tool is meant by its whole name or by a part that only one has", () => {
  const names = ["merge", "merge_all", "close"];
  assert.equal(chosen(" Merge ", names).name, "merge");
  assert.equal(chosen("clo", names).name, "close");
  assert.match(chosen("mer", names).words, /^2 tools match: merge, merge_all/);
  assert.match(chosen("x", names).words, /No tool name/);
  assert.equal(chosen("", names).name, "");
});

test("a schema that is no schema has no arguments", () => {
  for (const odd of [undefined, null, 7, { properties: "none", required: 3 }]) assert.deepEqual(shapeOf(odd), { properties: {}, required: [], left: 0 });
});

test("of a schema that is made to be slow only so much is read", () => {
  const many = Array.from({ length: 20_000 }, (_, n) => `a${n}`);
  const start = process.cpuUsage();
  const shape = shapeOf({ properties: Object.fromEntries(many.map((name) => [name, { enum: many }])), required: many.toReversed() });
  assert.deepEqual([Object.keys(shape.properties).length, shape.required.length, shape.left], [100, 100, 19_900]);
  assert.equal(read(Object.fromEntries(many.map((name) => [name, "a19999"])), shape).problems.length, 0);
  assert.equal(typeOf({ type: many.map((name) => ({ name })) }), "string");
  assert.equal(typeOf({ anyOf: many.map(() => ({ type: many })) }), "string");
  assert.ok(helpOf({ description: "x".repeat(1e6), default: many }).length < 1000);
  assert.ok(process.cpuUsage(start).user < 1e6); // microseconds
  const few = shapeOf({ properties: Object.fromEntries(many.map((name) => [name, {}])), required: ["a777"] });
  assert.deepEqual([Object.keys(few.properties)[0], few.required], ["a777", ["a777"]]);
});

test("arguments named as parts of every object are fields like others", () => {
  const schema = shapeOf({ properties: JSON.parse('{"constructor": {}, "__proto__": {"type": "integer"}, "toString": {}}') });
  assert.deepEqual(read({}, schema), { arguments: {}, problems: [], wrong: undefined, reasons: new Map() });
  const texts = Object.fromEntries([["__proto__", "7"], ["constructor", "x"]]);
  assert.equal(JSON.stringify(read(texts, schema).arguments), '{"constructor":"x","__proto__":7}');
});

test("what was typed is one of the choices, or is told to be none", () => {
  assert.deepEqual(valueOf('{"a":1}', { enum: [{ a: 1 }, "b"] }), { a: 1 });
  assert.throws(() => valueOf("c", { enum: ["a", "b"] }), /one of its 2 choices/);
});

test("texts that turn lines around are shown as codes and sent as they are", () => {
  assert.equal(visible("a\u202eb\u2067\0\ud800😀 עברית"), "a⟨U+202E⟩b⟨U+2067⟩⟨NUL⟩⟨U+D800⟩😀 עברית");
  const turned = "to\u202enimda";
  const { arguments: given, problems } = read({ [turned]: "x" }, { properties: { [turned]: {}, "b\u2067": {} }, required: ["b\u2067"] });

test("scripts show signs that draw nothing as the server does", () => {
  const { stay, codes } = JSON.parse(readFileSync(new URL("../people/text/invisible_cases.json", import.meta.url), "utf8"));
  for (const text of stay) assert.equal(visible(text), text);
  for (const [text, shown] of Object.entries(codes)) assert.equal(visible(text), shown);
  assert.equal(visible("\u200d\u{e0041}".repeat(50_000)).length, 17 * 50_000);
});
  assert.deepEqual([given, problems], [{ [turned]: "x" }, ["b⟨U+2067⟩ is missing"]]);
  assert.equal(helpOf({ description: "say \u202dit\u2069", format: "\u2066" }), "say ⟨U+202D⟩it⟨U+2069⟩; ⟨U+2066⟩");
  assert.equal(chosen("to⟨U+202E⟩nimda", [turned, "close"]).name, turned);
  assert.match(chosen("\u202e", ["close"]).words, /⟨U\+202E⟩/);
  assert.equal(turnedWords("plain עברית"), "");
  assert.match(turnedWords("42\u202e71"), /^holds characters that draw nothing or turn lines around: 42⟨U\+202E⟩71$/);
  assert.equal(wordsOf(409, "application/json", '{"error":{"code":"x","message":"m\u202ea has it"}}').message, "m⟨U+202E⟩a has it");
  assert.equal(wordsOf(400, "text/plain", "m\u2067a").message, "m⟨U+2067⟩a");
  assert.match(leaseWords({ taken: true, holder: "m\u202ea" }).words, /Claimed by m⟨U\+202E⟩a/);
});

test("a refusal is told apart from no contact, in the server's own words", async () => {
  const answering = (status, type, body) => async () => (
    { ok: status < 400, status, headers: new Headers({ "Content-Type": type }), text: async () => body });
  const told = async (fetch) => (await post("/x", null, { fetch })).error;
  assert.equal((await told(async () => { throw new TypeError(); })).code, "no_contact");
  const gone = await told(answering(404, "application/json", '{"error": {"code": "not_found", "message": "No."}}'));
  assert.ok(isOut(gone) && outWords(gone) === "You are no longer a member of this project.");
  assert.equal((await told(answering(503, "text/html", "<h1>The database is away.</h1>"))).message, "The database is away.");
  assert.equal((await told(answering(401, "application/json", "{}"))).code, "signed_out");
  assert.deepEqual(await post("/x", null, { fetch: answering(200, "application/json", '{"next": "/"}') }), { ok: true, answer: { next: "/" } });
});

test("the steps that keys jump to are known before they are pressed, the nearest first", () => {
  const letters = `${"r".repeat(9)}o${"r".repeat(9)}e${"r".repeat(9)}ooooo`;
  assert.deepEqual(jumpsFrom(letters, 15, ["o", "e"]), [10, 20, 1, 30, 31, 32, 34]);
  assert.deepEqual(jumpsFrom("rrrrr", 3, ["o"], [1, 2, 5]), [2, 1, 5]);
  assert.deepEqual(jumpsFrom("r".repeat(50), 10, [], [40, 9, 30, 12, 20]), [9, 12, 1, 20, 30, 50]);
  assert.deepEqual([jumpsFrom("", 1, ["o"]), jumpsFrom("r", 1, ["o"])], [[1], [1]]);
});

test("times stand in the reader's zone, and a tooltip names it", () => {
  const at = new Date("2026-11-05T23:05:09Z");
  const [here, full] = [timeIn(at, "minute"), inFull(at)];
  assert.match(here, /^Nov \d+, 2026 \d\d:05$/);
  assert.match(full, /^Nov \d+, 2026, \d\d:\d\d:09 \S+$/);
});

test("the badge counts what a person can claim: skills, the senior's, and not what they declined", () => {
  const who = { skills: ["tax"], every_tier: false };
  assert.equal(canTake({ tier: "people", skills: ["tax"] }, who), true);
  assert.equal(canTake({ tier: "people", skills: ["tax", "law"] }, who), false);
  assert.equal(canTake({ tier: "senior" }, who), false);
  assert.equal(canTake({ tier: "senior", skills: ["law"] }, null), true);
  const alone = { ...who, key: "user:3", role: "expert" };
  assert.equal(canTake({ tier: "people", decided: ["user:3"] }, alone), false);
  assert.equal(canTake({ tier: "people", decided: ["user:4"], role: "expert" }, alone), true);
  assert.equal(canTake({ tier: "people", decided: [], role: "admin" }, alone), false);
  const asks = new Map();
  const listed = { tier: "people", deadline_at: "2026-01-01T00:02:00Z" };
  noteAsk({ type: "queue", asks: [{ id: "mine", ...listed }, { id: "theirs", ...listed }], declined: ["theirs"] }, asks);
  assert.deepEqual([...asks.keys()], ["mine"]);
});

test("a question has more below until its end is in sight", () => {
  assert.equal(hasBelow({ scrollTop: 0, scrollHeight: 900, clientHeight: 400 }), true);
  assert.equal(hasBelow({ scrollTop: 497, scrollHeight: 900, clientHeight: 400 }), false);
});

test("a press in a text that scrolls itself is not for the question", () => {
  assert.equal(isForQuestion({ tagName: "TEXTAREA", scrollHeight: 170, clientHeight: 168 }), true);
  assert.equal(isForQuestion({ tagName: "TEXTAREA", scrollHeight: 400, clientHeight: 168 }), false);
  assert.equal(isForQuestion({ tagName: "INPUT", type: "text" }), true);
  for (const type of ["date", "number"]) assert.equal(isForQuestion({ tagName: "INPUT", type }), false);
  assert.equal(isForQuestion({ tagName: "SELECT" }), false);
});

test("the part in hand stays in sight when the page gets another width", () => {
  const focused = /** @type {any} */ ({});
  assert.equal(keptInSight({ stacked: true, focused, was: "question" }), "field");
  assert.equal(keptInSight({ stacked: true, focused: null, was: "answer" }), "answer");
  assert.equal(keptInSight({ stacked: true, focused: null, was: "question" }), "");
  assert.equal(keptInSight({ stacked: false, focused, was: "answer" }), "");
});

test("a refusal names the field whose label comes before its colon", () => {
  const label = (text, control) => ({ firstChild: { textContent: `\n ${text} ` }, control });
  const labels = [label("Words", "words"), label("Question", "question")];
  assert.equal(fieldNamed("Question: enter some text.", labels), "question");
  assert.deepEqual(["No episode matches.", "Model: choose one.", "Question"].map((words) => fieldNamed(words, labels)), [null, null, null]);
});

import assert from "node:assert/strict";
import { test } from "node:test";
import { holds } from "../../static/ask/ask-panels.js";
import { Saver, Store, beganWith, best, isEmpty, joined, same } from "../../static/forms/drafts.js";
import { filled, variablesOf } from "../../static/ask/reply-variables.js";
import { leaseWords, lostWords } from "../../static/ask/lease.js";
import { entriesOf, parseExact, unfixed, writeExact } from "../../static/forms/exact-json.js";
import { draftOf, helpOf, misfit, read, shapeOf } from "../../static/forms/schema-form.js";
import { deliveredWords } from "../../static/shell/delivery-toast.js";
import { isTight } from "../../static/ask/mobile-keyboard.js";
import { stepped } from "../../static/shell/arrow-keys.js";

const words = (text, more = {}) => ({ text, calls: [], ...more });
const server = (text, version = 3, at = 100) => words(text, { version, at });

test("with nothing on this device the server's text stands", () => {
  assert.deepEqual(best(server("abc"), []), { words: server("abc"), others: [] });
  assert.equal(best(server("abc"), [words("", { at: 500 })]).words.text, "abc");
});

test("a later text of this device goes on where the server stopped", () => {
  const kept = words("abcd", { version: 3, at: 50 });
  assert.deepEqual(best(server("abc"), [kept]), { words: kept, others: [] });
  const sent = words("a new start", { version: 2, at: 50, sent: [words("x"), words("abc")] });
  assert.equal(best(server("abc"), [sent]).words, sent); // the receipt was lost with the page
  assert.equal(best(words("", { version: 0, at: 0 }), [words("only here", { version: 9, at: 1 })]).words.text, "only here");
});

test("the server's text goes on where this device stopped", () => {
  assert.deepEqual(best(server("abcd"), [words("abc", { version: 1, at: 500 })]), { words: server("abcd"), others: [] });
});

test("two texts that do not know of each other are both shown, the later one in the form", () => {
  const kept = words("other", { version: 1, at: 50 });
  assert.deepEqual(best(server("abc"), [kept]), { words: server("abc"), others: [kept] });
  const later = words("other", { version: 1, at: 500 });
  assert.deepEqual(best(server("abc"), [later]), { words: later, others: [server("abc")] });
});

test("no text of a second page is lost, and one that is held already is not shown twice", () => {
  const kept = [words("abcd", { version: 3, at: 9 }), words("abc", { version: 3, at: 8 }), words("zzz", { version: 3, at: 7 })];
  assert.deepEqual(best(server("abc"), kept).others.map((one) => one.text), ["zzz"]);
});

test("calls count as words", () => {
  const call = { name: "merge", arguments: { into: "4" } };
  assert.ok(!same(words("a"), words("a", { calls: [call] })));
  assert.ok(!isEmpty(words("", { calls: [call] })) && isEmpty(words("  ")));
  assert.equal(best(words("", { version: 0 }), [words("", { calls: [call], at: 1, version: 0 })]).words.calls.length, 1);
});

test("a newer text takes in an older one whole: its text, its calls, and its other decision in words", () => {
  const [merge, close] = [{ name: "merge", arguments: { into: "4" } }, { name: "close", arguments: {} }];
  const [north, south] = [{ chosen: ["n"] }, { chosen: ["s"] }];
  const newer = { ...words("not yet", { calls: [merge], decision: south }), version: 4, other: ["Chosen: North"] };
  const mine = words("yet", { calls: [merge, close], decision: north, version: 3 });
  const both = joined(newer, mine);
  assert.deepEqual(both, { text: "not yet\n\nyet\n\nAnother draft:\nChosen: North", calls: [merge, close], decision: south });
  assert.deepEqual(joined({ ...newer, ...both }, mine), both); // the response of a save was lost
  assert.deepEqual(joined({ ...words("a"), version: 4 }, mine).decision, north);
});

test("what this device wrote on from the newer text is in its place", () => {
  const on = words("abcd", { decision: { chosen: ["n"] }, sent: [words("abx")] });
  for (const newer of [words("abc"), words("abx")]) assert.equal(joined({ ...newer, version: 4 }, on), on);
});

function storage(first = {}) {
  const kept = { ...first };
  const methods = { getItem: (key) => kept[key] ?? null, setItem: (key, value) => { kept[key] = value; }, removeItem: (key) => delete kept[key] };
  return [new Proxy(kept, { get: (target, key) => methods[key] ?? target[key] }), kept];
}

test("each page keeps an entry of its own, and takes over those before it", () => {
  const [place, kept] = storage({ "awmweb-draft-a:old": '{"text":"x"}', "awmweb-draft-a:broken": "{", "awmweb-draft-ab:other": '{"text":"y"}' });
  const store = new Store("a", place, "mine");
  assert.deepEqual(store.all().map((one) => one.text), ["x"]);
  assert.ok(store.keep(words("x and more")));
  assert.deepEqual(store.all().map((one) => one.text), ["x"]);
  store.dropOthers();
  assert.deepEqual(Object.keys(kept).sort(), ["awmweb-draft-a:mine", "awmweb-draft-ab:other"]);
  store.clear();
  assert.deepEqual(Object.keys(kept), ["awmweb-draft-ab:other"]);
  assert.equal(new Store("a", null).keep(words("x")), false);
});

/** A desk of one person: what they type, what the server answers, what they hear. */
function desk(answers, { version = 0, sent = null } = {}) {
  const one = { text: "", told: [], posts: [], timers: [], clock: 0 };
  const timer = { set: (job, ms) => one.timers.push({ job, ms }), clear: (id) => { if (id) one.timers[id - 1] = null; }, now: () => one.clock };
  const deliver = async (said, at, keepalive) => {
    one.posts.push([said.text, at, keepalive]);
    return answers.shift() ?? { ok: true, answer: { version: at + 1, saved_at: "now" } };
  };
  one.saver = new Saver({ read: () => words(one.text), deliver, keep: () => true, tell: (...said) => one.told.push(said), version, sent, timer });
  one.type = (text) => { one.text = text; one.saver.touch(); };
  one.fire = async () => {
    const due = one.timers.findLast(Boolean);
    one.timers = [];
    await due.job();
    await new Promise((done) => setImmediate(done));
  };
  one.waits = () => one.timers.filter(Boolean).map(({ ms }) => ms);
  return one;
}
const refused = (code, more = {}) => ({ ok: false, error: { code, message: "no", ...more } });

test("it saves when the hand rests, while typing goes on, and not what the server has", async () => {
  const ada = desk([]);
  ada.type("a");
  assert.deepEqual(ada.waits(), [800]);
  ada.clock = 3900;
  ada.type("ab");
  assert.deepEqual(ada.waits(), [100]);
  await ada.fire();
  assert.deepEqual(ada.posts, [["ab", 0, false]]);
  assert.deepEqual(ada.told.at(-1), ["saved", "now"]);
  await ada.saver.save();
  assert.equal(ada.posts.length, 1);
  assert.ok(ada.saver.settled);
});

test("an empty form is not saved, but words that were taken out are", async () => {
  const ada = desk([]);
  ada.type("");
  await ada.fire();
  assert.equal(ada.posts.length, 0);
  ada.type("a");
  await ada.fire();
  ada.type("");
  await ada.fire();
  assert.deepEqual(ada.posts.map(([text]) => text), ["a", ""]);
});

test("without contact it says where the words are and tries again with a longer pause each time", async () => {
  const ada = desk([refused("no_contact"), refused("503"), refused("no_contact")]);
  ada.type("a");
  await ada.fire();
  assert.equal(ada.told.at(-1)[0], "here");
  const pauses = ada.waits();
  await ada.fire();
  pauses.push(...ada.waits());
  await ada.fire();
  pauses.push(...ada.waits());
  assert.ok(pauses[0] <= 500 && pauses[1] > pauses[0] && pauses[2] > pauses[1], String(pauses));
  ada.saver.retry();
  assert.deepEqual(ada.waits(), [0]);
  await ada.fire();
  assert.equal(ada.told.at(-1)[0], "saved");
});

test("a text from elsewhere stops the saving until a person chose", async () => {
  const ada = desk([refused("draft_conflict", { draft: words("from the phone", { version: 7 }) })]);
  ada.type("from the desk");
  await ada.fire();
  assert.equal(ada.told.at(-1)[0], "choose");
  ada.type("from the desk, more");
  await ada.fire();
  ada.saver.leave();
  assert.equal(ada.posts.length, 1);
  ada.saver.chosen(7);
  await ada.fire();
  assert.deepEqual(ada.posts.at(-1), ["from the desk, more", 7, false]);
});

test("its own words whose receipt was lost are no conflict", async () => {
  const ada = desk([refused("no_contact"), refused("draft_conflict", { draft: words("half", { version: 4 }) })]);
  ada.type("half");
  await ada.fire();
  ada.text = "other words";
  await ada.fire();
  await ada.fire();
  assert.deepEqual(ada.posts.at(-1), ["other words", 4, false]);
  assert.ok(!ada.told.some(([state]) => state === "choose"));
});

test("a page that goes sends what is left without waiting", () => {
  const ada = desk([], { version: 2, sent: words("old") });
  ada.text = "old and new";
  ada.saver.leave();
  assert.deepEqual(ada.posts, [["old and new", 2, true]]);
  ada.text = "old";
  ada.saver.leave();
  assert.equal(ada.posts.length, 1);
});

test("whoever is out, and whoever sent it, saves no more", async () => {
  const ada = desk([refused("signed_out")]);
  ada.type("a");
  await ada.fire();
  assert.equal(ada.told.at(-1)[0], "out");
  ada.type("ab");
  assert.deepEqual(ada.waits(), []);
});

test("lease chip is claimed, offline or lost, each in its color", () => {
  const now = { left: 60, toDeadline: false, nextIn: 14, trouble: "", taken: false, holder: "" };
  assert.deepEqual(leaseWords(now), { words: "Claimed, renews in 0:14", css: "act" });
  assert.equal(leaseWords({ ...now, toDeadline: true }).words, "Claimed until the deadline");
  assert.deepEqual(leaseWords({ ...now, left: 40.2, trouble: "Offline" }), { words: "Offline, claimed for 40 s more", css: "ask" });
  assert.deepEqual(leaseWords({ ...now, left: -1, trouble: "Offline" }), { words: "Claim expired; text saved", css: "bad" });
  assert.deepEqual(leaseWords({ ...now, taken: true, holder: "Mina" }), { words: "Claimed by Mina; your text is saved", css: "bad" });
});

test("a lost claim names its holder and can be claimed again only while no one has it", () => {
  const mine = { left: 60, taken: false, holder: "" };
  assert.deepEqual(lostWords(mine), { words: "", again: false });
  assert.deepEqual(lostWords({ ...mine, left: -1 }), { words: "Your claim expired. Your text is saved.", again: true });
  assert.deepEqual(lostWords({ ...mine, taken: true, holder: "Mina" }), { words: "Mina has this ask now. Your text is saved.", again: false });
  assert.equal(lostWords({ ...mine, left: -1, taken: true, holder: "Mina" }).again, false);
  assert.deepEqual(lostWords({ ...mine, taken: true }), { words: "You lost the claim, and no one has the ask now. Your text is saved.", again: true });
});

test("variables of a quick reply are named once and filled; other braces stay", () => {
  const text = 'Dear {customer}, order {order id} is {state}: {"a": 1} {} {customer}';
  assert.deepEqual(variablesOf(text), ["customer", "order id", "state"]);
  const values = { customer: "$& {state}", "order id": "7", state: " " };
  assert.equal(filled(text, values), 'Dear $& {state}, order 7 is {state}: {"a": 1} {} $& {state}');
  assert.deepEqual(variablesOf("no {1} variables {}"), []);
});

test("a filter takes all its words, in any order and case", () => {
  assert.ok(holds("tickets 4131 normal High", "high 41"));
  assert.ok(!holds("tickets 4131", "4131 low"));
  assert.ok(holds("anything", " "));
});

test("limits of a schema are said and kept", () => {
  assert.equal(misfit(7, { minimum: 1, maximum: 5 }), "at most 5");
  assert.equal(misfit("ab", { minLength: 3 }), "at least 3 characters long");
  assert.equal(misfit([1], { minItems: 2 }), "a list of at least 2");
  assert.equal(misfit(3, { minimum: "odd" }), "");
  assert.equal(helpOf({ type: "integer", description: "How many.", minimum: 1, maximum: 5, default: 2 }), "How many; whole number; 1 to 5; else 2");
  assert.equal(helpOf({ description: 7, format: 8 }), "");
  assert.deepEqual(read({ n: "9" }, { properties: { n: { type: "integer", maximum: 5 } } }).problems, ["n must be at most 5"]);
});

test("a delivery is told in seconds, never below zero", () => {
  assert.equal(deliveredWords("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.412Z"), "Delivered in 0.4 s.");
  assert.equal(deliveredWords("2026-01-01T00:00:01Z", "2026-01-01T00:00:00Z"), "Delivered in <0.1 s.");
});

test("the page makes room only for somebody who writes on a small screen with little left", () => {
  assert.ok(isTight({ small: true, writing: true, height: 380 }));
  for (const more of [{ small: false }, { writing: false }, { height: 800 }]) assert.ok(!isTight({ small: true, writing: true, height: 380, ...more }));
});

test("a text remembers the last draft and the last earlier answer that went into it", () => {
  assert.equal(beganWith("", "model:small"), "model:small");
  assert.equal(beganWith("model:small", "advice:7"), "model:small advice:7");
  assert.equal(beganWith("model:small advice:7", "advice:9"), "model:small advice:9");
  assert.equal(beganWith(undefined, undefined), "");
});

test("arrow keys walk around a list, other keys and other places leave it alone", () => {
  assert.deepEqual([stepped("ArrowDown", 0, 3), stepped("ArrowDown", 2, 3), stepped("ArrowUp", 0, 3)], [1, 0, 2]);
  assert.deepEqual([stepped("Enter", 0, 3), stepped("ArrowDown", -1, 3)], [-1, -1]);
});

// numbers that are typed or were recorded

const NUMBERS = { properties: { id: { type: "integer" }, price: { type: "number" }, filter: { type: "object" }, pick: { enum: parseExact("[9007199254740993, 2]") } } };

test("typed numbers are sent digit by digit", () => {
  const { arguments: given, problems } = read({ id: "9007199254740993", price: "10.10", filter: '{"at": [9007199254740993, 1e2, 0.10]}', pick: "9007199254740993" }, NUMBERS);
  assert.deepEqual(problems, []);
  assert.equal(writeExact(given), '{"id":9007199254740993,"price":10.10,"filter":{"at":[9007199254740993,1e2,0.10]},"pick":9007199254740993}');
});

test("numbers that can't be sent are refused by name", () => {
  const problem = (texts) => read(texts, NUMBERS).problems[0];
  assert.equal(problem({ price: "1e400" }), "price must be a number that can be sent: 1e400 is out of range");
  assert.equal(problem({ id: "9".repeat(400) }), `id must be a number that can be sent: ${"9".repeat(400)} is out of range`);
  assert.match(problem({ price: "0.12345678901234567890" }), /has more digits than a number keeps/);
  assert.equal(problem({ id: "007" }), "id must be a whole number without zeros before it");
  for (const text of ["0x10", "Infinity", "+5", ".5", "5."]) assert.equal(problem({ price: text }), "price must be a number, such as 0.5");
  assert.equal(problem({ filter: '{"a": 1e400}' }), "filter must be JSON (object): 1e400 is out of range");
  assert.equal(problem({ filter: '{"a": 1, "a": 2}' }), 'filter must be JSON (object): the name "a" comes twice');
  assert.equal(problem({ filter: "[".repeat(200000) }), "filter must be JSON (object): it nests too deeply");
  assert.equal(problem({ filter: '{"a": 1,}' }), "filter must be JSON (object): a text in quotes is missing at character 9");
});

test("limits compare long whole numbers by all digits", () => {
  const schema = parseExact('{"properties": {"id": {"type": "integer", "maximum": 9007199254740992}}}');
  assert.deepEqual(read({ id: "9007199254740993" }, schema).problems, ["id must be at most 9007199254740992"]);
  assert.deepEqual(read({ id: "9007199254740992" }, schema).problems, []);
});

test("a draft of a call keeps typed texts, and values that no one touched", () => {
  const began = parseExact('{"id": 9007199254740993, "price": 10.10, "to": "Ann", "rows": [1.50, {"n": null}], "note": null}');
  const texts = { id: "9007199254740993", price: "10.10", to: "Bob", rows: '[1.50,{"n":null}]', note: "null", left: "" };
  assert.equal(writeExact(draftOf(texts, began)), '{"id":9007199254740993,"price":10.10,"to":"Bob","rows":[1.50,{"n":null}],"note":null}');
  assert.equal(writeExact(draftOf({ ...texts, price: "10.20", note: "no" }, began)), '{"id":9007199254740993,"price":"10.20","to":"Bob","rows":[1.50,{"n":null}],"note":"no"}');
});

test("a draft on this device keeps every digit of its values", () => {
  const [place] = storage();
  const words = { text: "a", calls: [{ name: "pay", arguments: parseExact('{"id":9007199254740993,"price":1.0}') }] };
  new Store("A", place, "one").keep(words);
  const [back] = new Store("A", place, "two").all();
  assert.ok(same(words, back));
  assert.equal(writeExact(back.calls[0].arguments), '{"id":9007199254740993,"price":1.0}');
});

test("exact JSON reads and writes what JSON does", () => {
  for (const text of ['{"a":[1,-0.5,true,null,"x\\n\\u00e9\\ud800"],"__proto__":{},"b":{}}', '"x"', "[]", " [ 1 , 2 ] ".replaceAll(" ", ""), "12"]) {
    assert.equal(writeExact(parseExact(text)), writeExact(JSON.parse(text)));
  }
  assert.equal(writeExact(parseExact('{"a":[10.10],"c":[]}'), "\n"), '{\n  "a": [\n    10.10\n  ],\n  "c": []\n}');
  for (const text of ["", "[1", "{'a': 1}", "01", "1 2", "[1,]", "nul", '"a\nb"', "1e", "-"]) assert.throws(() => parseExact(text), SyntaxError, text);
  for (const text of ["10.10", "1e22", "100", "-0", "0.1", "5e-324", "123456789012345678901234567890"]) assert.equal(unfixed(text), "", text);
});

test("names of digits keep their order through every form", () => {
  const written = '{"2":9007199254740993,"b":{"10":1,"9":[{"1":1.0,"0":-0}]},"1":12345678901234567890.5}';
  assert.equal(writeExact(parseExact(written)), written);
  const value = parseExact(written);
  assert.deepEqual(entriesOf(value).map(([name]) => name), ["2", "b", "1"]);
  delete value.b;
  value.c = 1;
  assert.equal(writeExact(value), '{"2":9007199254740993,"1":12345678901234567890.5,"c":1}');
  assert.equal(writeExact(parseExact('{"2":1,"1":2,"2":3}')), '{"2":3,"1":2}');
});

test("the fields of a call are in the order of its schema, and so is what is sent", () => {
  const shape = shapeOf(parseExact('{"properties":{"2":{"type":"integer"},"1":{"type":"number"},"0":{"type":"object"}}}'));
  const { arguments: given } = read({ 0: '{"9":1,"8":2}', 1: "1.50", 2: "9007199254740993" }, shape);
  assert.equal(writeExact(given), '{"2":9007199254740993,"1":1.50,"0":{"9":1,"8":2}}');
});

test("a suggested call has the values of the failed one, to the digit", () => {
  const shape = shapeOf(parseExact('{"properties":{"2":{"type":"integer"},"1":{"type":"object"},"note":{"type":["string","null"]}}}'));
  const failed = parseExact('{"2":9007199254740993,"1":{"7":0.1,"6":1e2},"note":null}');
  const { arguments: given } = read({ 2: "9007199254740993", 1: '{"7":0.1,"6":1e2}', note: "null" }, shape, failed);
  assert.equal(writeExact(given), '{"2":9007199254740993,"1":{"7":0.1,"6":1e2},"note":null}');
});

import assert from "node:assert/strict";
import { test } from "node:test";
import { cellOf, linesOf, nodeAt, parse, pathOf, placeOf, stretchesOf, under, unitsOf, valuesIn, written } from "../../static/steps/places.js";

const stepOf = (step) => parse(JSON.stringify(step));

/** The place of the first `words` on a page that shows `shown` of what is at a path. */
function chosen(step, path, shown, words, how) {
  const root = stepOf(step);
  const units = unitsOf(shown, nodeAt(root, path), how);
  if (!units) return null;
  const from = shown.indexOf(words);
  const place = placeOf(units, from, from + words.length);
  return place?.start === undefined ? place : [place, written(root, place)];
}

test("letters of a text are counted as code points", () => {
  const content = "a🙂b\r\nsaid ‮evil";
  assert.deepEqual(chosen({ content }, "$.content", "a🙂b\nsaid ⟨U+202E⟩evil", "b\ns"), [{ path: "$.content", start: 2, end: 6 }, "b\r\ns"]);
  assert.deepEqual(chosen({ content }, "$.content", "a🙂b\nsaid ⟨U+202E⟩evil", "202E"), [{ path: "$.content", start: 10, end: 11 }, "‮"]);
});

test("the first line end that a browser swallows is counted", () => {
  assert.deepEqual(chosen({ result: "\nrow 7" }, "$.result", "row 7", "row"), [{ path: "$.result", start: 1, end: 4 }, "row"]);
});

test("the end of a long text has the letters of the whole", () => {
  const meta = { traceback: `${"x\n".repeat(9000)}  line 7\nKeyError: ‮` };
  const shown = `x\n  line 7\nKeyError: ⟨U+202E⟩`;
  const how = { part: "end" };
  assert.deepEqual(chosen({ meta }, "$.meta.traceback", shown, "KeyError", how), [{ path: "$.meta.traceback", start: 18009, end: 18017 }, "KeyError"]);
  assert.deepEqual(chosen({ meta: { traceback: "\nx" } }, "$.meta.traceback", "x", "x", how), [{ path: "$.meta.traceback", start: 1, end: 2 }, "x"]);
  assert.deepEqual(chosen({ meta: { traceback: "a b c" } }, "$.meta.traceback", "a b", "b", how), [{ path: "$.meta.traceback", start: 2, end: 3 }, "b"]); // cut
  assert.equal(chosen({ meta: { traceback: "a b" } }, "$.meta.traceback", "b c", "c", how), null);
});

test("lines of a text are told without the space around them", () => {
  const root = stepOf({ error: "No 🙂 row.\r\n\n  Try 7.\n", note: "one line" });
  const lines = linesOf(nodeAt(root, "$.error"));
  assert.deepEqual(lines.map((place) => written(root, place)), ["No 🙂 row.", "Try 7."]);
  assert.deepEqual(lines[1], { path: "$.error", start: 14, end: 20 });
  assert.deepEqual(linesOf(nodeAt(root, "$.note")), []);
});

test("an argument is letters behind its quotes and escapes", () => {
  const step = { arguments: { note: 'say "hi"\tnow' } };
  assert.deepEqual(chosen(step, "$.arguments.note", '"say \\"hi\\"\\tnow"', '\\"hi\\"'), [{ path: "$.arguments.note", start: 4, end: 8 }, '"hi"']);
  assert.deepEqual(chosen(step, "$.arguments.note", '"say \\"hi\\"\\tnow"', '"say'), [{ path: "$.arguments.note", start: 0, end: 3 }, "say"]);
});

test("a long argument that is shown cut keeps its letters", () => {
  const step = { arguments: { note: "x".repeat(500) } };
  const shown = `"${"x".repeat(119)}…`;
  assert.deepEqual(chosen(step, "$.arguments.note", shown, shown), [{ path: "$.arguments.note", start: 0, end: 119 }, "x".repeat(119)]);
});

test("a large step in its cut form keeps its letters", () => {
  const step = { arguments: { notes: ["x".repeat(3000), "y"], id: 7 } };
  const shown = `["${"x".repeat(2000)}"]`;
  assert.equal(chosen(step, "$.arguments.notes", shown, "xx"), null);
  assert.deepEqual(chosen(step, "$.arguments.notes", shown, "xx", { cut: true }), [{ path: "$.arguments.notes[0]", start: 0, end: 2 }, "xx"]);
});

test("parts of several values are the smallest value that holds them", () => {
  const step = { arguments: { row: { id: 7, tags: ["a", "b"] } } };
  const shown = '{"id": 7, "tags": ["a", "b"]}';
  assert.deepEqual(chosen(step, "$.arguments.row", shown, '"a", "b"'), { path: "$.arguments.row.tags" });
  assert.deepEqual(chosen(step, "$.arguments.row", shown, "7"), { path: "$.arguments.row.id" });
  assert.deepEqual(chosen(step, "$.arguments.row", shown, "tags"), { path: "$.arguments.row.tags" });
  assert.deepEqual(chosen(step, "$.arguments.row", shown, '7, "tags"'), { path: "$.arguments.row" });
});

test("JSON inside a text has the letters of that text", () => {
  const result = '{"id":7,"note":"caf\\u00e9 \\ud83d\\ude42","n":1.50}';
  const shown = '{\n  "id": 7,\n  "note": "café 🙂",\n  "n": 1.5\n}';
  const found = (words) => chosen({ result }, "$.result", shown, words)[1];
  assert.equal(found("é 🙂"), "\\u00e9 \\ud83d\\ude42");
  assert.equal(found('"id": 7'), '"id":7');
  assert.equal(found("1.5"), "1.50");
  assert.equal(chosen({ result: `é${result}` }, "$.result", shown, "7"), null);
});

test("letters after a wide sign of a JSON text are counted as code points", () => {
  const result = '{"a":"🙂","b":"two"}';
  const shown = '{\n  "a": "🙂",\n  "b": "two"\n}';
  assert.deepEqual(chosen({ result }, "$.result", shown, "two"), [{ path: "$.result", start: 14, end: 17 }, "two"]);
});

test("a cell is found in a list of objects, also inside of a text", () => {
  const rows = { tickets: [{ id: 1 }, { id: 2, by: "Ann" }], total: 2 };
  const root = stepOf({ result: rows, observation: JSON.stringify(rows) });
  assert.equal(pathOf(cellOf(nodeAt(root, "$.result"), 1, 1)), "$.result.tickets[1].by");
  const cell = cellOf(nodeAt(root, "$.observation"), 1, 1);
  const place = placeOf(unitsOf("Ann", cell), 0, 2);
  assert.equal(written(root, place), "An");
  assert.equal(cellOf(nodeAt(root, "$.result"), 0, 1), null);
});

test("an error's first line and its rest are parts of one text", () => {
  const step = { error: "  ab: no\nab: no\n  why\n" };
  assert.deepEqual(chosen(step, "$.error", "ab: no", "ab", { part: "line" }), [{ path: "$.error", start: 2, end: 4 }, "ab"]);
  assert.deepEqual(chosen(step, "$.error", "ab: no\n  why", "ab", { part: "rest" }), [{ path: "$.error", start: 9, end: 11 }, "ab"]);
});

test("what reads otherwise than it is stored has no places", () => {
  assert.equal(chosen({ content: "one" }, "$.content", "two", "two"), null);
  assert.equal(chosen({ content: "one" }, "$.content", "one more", "one"), null);
  assert.equal(chosen({ arguments: { 2: 1, 1: 2 } }, "$.arguments", '{"2": 1, "1": 2}', "2"), null);
  assert.throws(() => parse('{"a": }'));
});

test("a name that no path can hold is refused", () => {
  assert.equal(under("$.a", "b c"), '$.a["b c"]');
  for (const name of ['"', "\\", "", "a‮b", "x ".repeat(101), "a\0"]) assert.equal(under("$", name), "");
  const root = parse('{"arguments": {"a\\"b": {"c": 1}}}');
  const units = unitsOf('{"a\\"b": {"c": 1}}', nodeAt(root, "$.arguments"));
  assert.throws(() => placeOf(units, 16, 17));
});

test("values are listed once, from the whole to its parts", () => {
  const root = stepOf({ arguments: { row: { id: 7, tags: ["a"] } } });
  const node = nodeAt(root, "$.arguments.row");
  const units = unitsOf('{"id": 7, "tags": ["a"]}', node);
  assert.deepEqual(valuesIn(units, node).map(({ path }) => path), ["", ".id", ".tags", ".tags[0]"].map((end) => `$.arguments.row${end}`));
});

test("a place is found again where it is shown", () => {
  const root = stepOf({ result: { note: "row seven", more: { a: 1 } } });
  const shown = '{\n  "note": "row seven",\n  "more": {\n    "a": 1\n  }\n}';
  const units = unitsOf(shown, nodeAt(root, "$.result"));
  const at = (place) => stretchesOf(units, place).map(([from, to]) => shown.slice(from, to));
  assert.deepEqual(at({ path: "$.result.note", start: 4, end: 9 }), ["seven"]);
  assert.deepEqual(at({ path: "$.result.more" }), ['"more": {\n    "a": 1\n  }']);
  assert.deepEqual(at({ path: "$.result.mo" }), []);
});

test("null in a returned row is drawn as it is stored", () => {
  const root = parse('{"result": [{"id": 1, "by": null}]}');
  const cell = cellOf(nodeAt(root, "$.result"), 0, 1);
  assert.ok(unitsOf("null", cell)?.length && unitsOf("", cell) === null);
});

// A form's schema as a tree of fields: what is drawn, and the value that the texts say.

import assert from "node:assert/strict";
import { test } from "node:test";
import { parseExact, writeExact } from "../../static/forms/exact-json.js";
import { defaultsOf, fieldAt, fieldsOf, localOf, nameOf, planOf, readPlan, textOf, withoutRow, zonedOf } from "../../static/forms/form-plan.js";

const PICKUP = {
  type: "object",
  required: ["contact", "pallets"],
  properties: {
    contact: { $ref: "#/$defs/person" },
    second: { anyOf: [{ $ref: "#/$defs/person" }, { type: "null" }] },
    pallets: { type: "array", minItems: 1, items: { type: "object", required: ["kg"], properties: { kg: { type: "number", minimum: 1 }, note: { type: ["string", "null"] } } } },
    dock: { title: "Loading dock", oneOf: [{ const: "n", title: "North" }, { const: "s" }] },
    days: { type: "array", uniqueItems: true, items: { enum: ["mo", "tu"], enumNames: ["Monday", "Tuesday"] } },
    free: { type: "object" },
  },
  $defs: { person: { type: "object", title: "Person", required: ["name"], properties: { name: { type: "string", title: "Full name" }, mail: { type: "string" } } } },
};
const kindsOf = (plan) => Object.fromEntries(fieldsOf(plan).slice(1).map(({ key, kind }) => [key, kind]));
const valueOf = (schema, texts, begun = {}) => readPlan(planOf(schema, begun, texts), texts);

test("objects, lists, options and checkboxes are drawn, and what is left is JSON", () => {
  assert.deepEqual(kindsOf(planOf(PICKUP, {})), {
    contact: "object", '["contact","name"]': "leaf", '["contact","mail"]': "leaf", second: "object", '["second","name"]': "leaf", '["second","mail"]': "leaf",
    pallets: "list", '["pallets",0]': "object", '["pallets",0,"kg"]': "leaf", '["pallets",0,"note"]': "leaf", dock: "leaf", days: "many", free: "leaf",
  });
  const [dock, days] = [fieldAt(planOf(PICKUP, {}), ["dock"]), fieldAt(planOf(PICKUP, {}), ["days"])];
  assert.deepEqual([dock.title, dock.options.map(({ title }) => title)], ["Loading dock", ["North", "s"]]);
  assert.deepEqual(days.options.map(({ title }) => title), ["Monday", "Tuesday"]);
});

test("texts of fields make the value, with the types of the schema", () => {
  const texts = { '["contact","name"]': "Ada", '["pallets",0,"kg"]': "20.50", '["pallets",0,"note"]': "", '["pallets",1,"kg"]': "3", '["pallets",1,"note",null]': "1", dock: "n", days: '["tu"]', free: "" };
  const { value, reasons } = valueOf(PICKUP, texts);
  assert.equal(writeExact(value), '{"contact":{"name":"Ada"},"pallets":[{"kg":20.50},{"kg":3,"note":null}],"dock":"n","days":["tu"]}');
  assert.equal(reasons.size, 0);
});

test("all that does not fit is named at its field", () => {
  const texts = { '["contact","mail"]': "a@b", '["second","mail"]': "c@d", '["pallets",0,"kg"]': "0", dock: "x", days: "", free: "[" };
  const { reasons } = valueOf(PICKUP, texts);
  assert.deepEqual([...reasons.keys()], ['["contact","name"]', '["second","name"]', '["pallets",0,"kg"]', "dock", "free"]);
  assert.equal(reasons.get('["pallets",0,"kg"]'), "must be at least 1");
  assert.equal(nameOf(planOf(PICKUP, {}, texts), ["pallets", 0, "kg"]), "pallets › 1 › kg");
  assert.equal(nameOf(planOf(PICKUP, {}, texts), ["contact", "name"]), "Person › Full name");
});

test("an object that may be left out is left out until a field of it is filled", () => {
  const base = { '["contact","name"]': "Ada", '["pallets",0,"kg"]': "1" };
  assert.equal(Object.hasOwn(valueOf(PICKUP, base).value, "second"), false);
  assert.equal(valueOf(PICKUP, { ...base, '["second",null]': "1" }).value.second, null);
  assert.deepEqual(valueOf(PICKUP, { ...base, '["second","name"]': "Edo" }).value.second, { name: "Edo" });
});

test("values that no one touched stay as they were", () => {
  const text = '{"contact":{"name":"Ada","age":7.0},"pallets":[{"kg":1.0,"note":null},{"kg":2,"x":[1.0]}],"second":null,"days":[],"free":{"2":1.0,"1":null},"odd":{"a":[]}}';
  const begun = parseExact(text);
  const plan = planOf(PICKUP, begun);
  const texts = {};
  for (const field of fieldsOf(plan).slice(1)) {
    if (field.kind === "leaf" || field.kind === "many") texts[field.key] = textOf(field);
    if (field.nullable && field.begun === null) texts[JSON.stringify([...field.path, null])] = "1";
  }
  const { value, reasons } = readPlan(plan, texts);
  assert.equal(reasons.size, 0);
  const sorted = (one) => (Array.isArray(one) ? one.map(sorted) : one && one.constructor === Object ? Object.fromEntries(Object.keys(one).sort().map((name) => [name, sorted(one[name])])) : one);
  assert.equal(writeExact(sorted(value)), writeExact(sorted(begun)));
});

test("a row that is removed takes its texts and its value, and the others move up", () => {
  const texts = { '["pallets",0,"kg"]': "1", '["pallets",1,"kg"]': "2.0", '["pallets",2,"kg"]': "3", dock: "n" };
  const begun = parseExact('{"pallets":[{"kg":1},{"kg":2.0},{"kg":3}]}');
  const left = withoutRow(texts, begun, ["pallets", 0]);
  assert.deepEqual(left.texts, { '["pallets",0,"kg"]': "2.0", '["pallets",1,"kg"]': "3", dock: "n" });
  assert.equal(writeExact(left.begun), '{"pallets":[{"kg":2.0},{"kg":3}]}');
  assert.equal(writeExact(valueOf(PICKUP, { ...left.texts, '["contact","name"]': "A" }, left.begun).value.pallets), '[{"kg":2.0},{"kg":3}]');
});

test("a hostile schema is drawn in bounds", () => {
  const node = { type: "object", properties: { a: { $ref: "#" }, b: { $ref: "#" }, c: { type: "string" } } };
  assert.ok(fieldsOf(planOf(node, {})).length < 400);
  assert.equal(planOf({ properties: { a: { $ref: "#/$defs/a" } }, $defs: { a: { $ref: "#/$defs/a" } } }, {}).parts[0].kind, "leaf");
  const wide = { properties: Object.fromEntries(Array.from({ length: 5000 }, (_, at) => [`f${at}`, {}])), required: ["f4999"] };
  const plan = planOf(wide, {});
  assert.deepEqual([plan.parts.length, plan.left, plan.parts[0].key], [100, 4900, "f4999"]);
  const odd = { properties: { __proto__: { type: "string" }, constructor: { type: "integer" }, "[x": { type: "string" } } };
  assert.deepEqual(readPlan(planOf(odd, {}), { constructor: "1", '["[x"]': "y" }).value, { constructor: 1, "[x": "y" });
});

test("null is an option where options are, and defaults reach into what is required", () => {
  const schema = { properties: { a: { enum: ["x", null] }, b: { anyOf: [{ enum: ["y"] }, { type: "null" }] }, c: { type: ["boolean", "null"] }, d: { type: "object", properties: { e: { default: 3 } } } }, required: ["d"] };
  const plan = planOf(schema, {});
  assert.deepEqual(plan.parts.slice(0, 3).map(({ options }) => options.map(({ title }) => title)), [["x", "No value"], ["y", "No value"], ["Yes", "No", "No value"]]);
  assert.deepEqual(readPlan(plan, { a: "null", b: "null", c: "false" }).value, { a: null, b: null, c: false, d: {} });
  assert.deepEqual(defaultsOf(schema), { d: { e: 3 } });
});

test("a time of this place has its offset, and comes back as it was", () => {
  assert.equal(localOf(zonedOf("2026-11-27T09:00")), "2026-11-27T09:00:00");
  assert.equal(localOf("soon"), "");
});

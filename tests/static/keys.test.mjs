import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";
import { KEYS, capsOf, dispatcher, isIgnored, keysOf, nameOf } from "../../static/shell/keys.js";
import { matching } from "../../static/shell/command-palette.js";

const here = new URL("../../", import.meta.url);
const files = (folder, ending) => readdirSync(new URL(folder, here), { recursive: true }).filter((name) => name.endsWith(ending)).map((name) => readFileSync(new URL(folder + name, here), "utf8"));
const templates = files("templates/", ".html").join("\n");
const scripts = files("static/", ".js").join("\n");
const pages = [...new Set(KEYS.flatMap((key) => key.page.split(" ")))].filter((page) => page !== "*");

const event = (key, more = {}) => ({ key, ctrlKey: false, metaKey: false, shiftKey: false, altKey: false, defaultPrevented: false, ...more });
const free = { inField: false, inDialog: false, loading: false };

function pressOn(page, { surroundings = free, usable = () => true } = {}) {
  const ran = [];
  let clock = 0;
  const press = dispatcher({ page, usable, run: (id) => ran.push(id), surroundings: () => surroundings, now: () => clock });
  return { press, ran, wait: (ms) => { clock += ms; } };
}

test("no page gives one key two meanings", () => {
  for (const page of pages) {
    const keys = keysOf(page).map((key) => key.keys);
    assert.deepEqual(keys, [...new Set(keys)], page);
  }
});

test("every key has a deed: a handler bound in a module, or an element that is clicked", () => {
  for (const key of KEYS) {
    const bound = new RegExp(`bind\\("${key.id}"|\\["${key.id}"|startKeys\\([^)]*"${key.id}"`).test(scripts);
    assert.ok(bound || templates.includes(`data-act="${key.id}"`), `nothing happens at ${key.id}`);
  }
});

test("every key cap printed in a template belongs to a key", () => {
  for (const [, id] of templates.matchAll(/data-cap="([^"]+)"/g)) assert.ok(KEYS.some((key) => key.id === id), id);
});

test("no template prints a key cap by hand", () => {
  assert.doesNotMatch(templates, /<kbd/);
});

test("a letter with shift is a capital, a sign keeps its name, Cmd counts as Ctrl", () => {
  assert.equal(nameOf(event("N", { shiftKey: true })), "Shift+N");
  assert.equal(nameOf(event("?", { shiftKey: true })), "?");
  assert.equal(nameOf(event("Enter", { metaKey: true })), "Ctrl+Enter");
  assert.equal(nameOf(event(" ")), "Space");
  assert.equal(nameOf(event("ArrowLeft", { shiftKey: true })), "Shift+ArrowLeft");
});

test("a pair runs within its time and not after", () => {
  const { press, ran, wait } = pressOn("home");
  press(event("g"));
  press(event("q"));
  assert.deepEqual(ran, ["go-queue"]);
  press(event("g"));
  wait(2000);
  press(event("e"));
  assert.deepEqual(ran, ["go-queue"]);
});

test("bare keys are dead in fields, but send and leave work there", () => {
  const { press, ran } = pressOn("ask", { surroundings: { ...free, inField: true } });
  press(event("p"));
  press(event("Enter", { ctrlKey: true }));
  press(event("Escape"));
  assert.deepEqual(ran, ["send", "leave"]);
});

test("keys are dead in dialogs, while the next item loads, and with AltGr", () => {
  const bare = KEYS.find((key) => key.id === "pass");
  assert.ok(isIgnored(event("p"), bare, { ...free, inDialog: true }));
  assert.ok(isIgnored(event("Enter"), KEYS.find((key) => key.id === "send"), { ...free, loading: true }));
  assert.ok(isIgnored(event("p", { getModifierState: (name) => name === "AltGraph" }), bare, free));
  assert.ok(!isIgnored(event("p"), bare, free));
});

test("a key without a deed on this page does nothing", () => {
  const { press, ran } = pressOn("queue", { usable: (id) => id !== "claim" });
  press(event("c"));
  assert.deepEqual(ran, []);
});

test("caps are printed as people know them", () => {
  assert.deepEqual(capsOf("Ctrl+Shift+Enter"), ["Ctrl", "⇧", "Enter"]);
  assert.deepEqual(capsOf("g q"), ["g", "q"]);
});

test("command palette matches parts of words, prefix matches first", () => {
  const entries = ["send and next", "go to Queue", "next ask", "decline"].map((words) => ({ words }));
  assert.deepEqual(matching(entries, "next").map(({ words }) => words), ["next ask", "send and next"]);
  assert.deepEqual(matching(entries, "que go").map(({ words }) => words), ["go to Queue"]);
  assert.equal(matching(entries, " ").length, 4);
  assert.deepEqual(matching(entries, "zebra"), []);
});

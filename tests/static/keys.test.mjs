import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";
import { EVERYWHERE, KEYS } from "../../static/shell/key-map.js";
import { isByAlt, namesOf } from "../../static/shell/key-names.js";
import { dispatcher, isIgnored, keysOf, working } from "../../static/shell/key-rule.js";
import { capsOf, sendsForm } from "../../static/shell/keys.js";
import { PAGE, written } from "../../tools/keys.mjs";
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
  const dispatch = dispatcher({ page, usable, run: (id) => ran.push(id), surroundings: () => surroundings });
  const press = (pressed) => dispatch({ timeStamp: clock, ...pressed });
  return { press, ran, wait: (ms) => { clock += ms; } };
}

test("no page gives one key two meanings", () => {
  for (const page of pages) {
    const mine = keysOf(page).filter((key) => !key.onlyField);
    for (const [at, { id, keys, when }] of mine.entries()) {
      const after = mine.slice(at + 1).filter((key) => key.keys.some((spelling) => keys.includes(spelling)));
      assert.ok(when || !after.length, `${id} and ${after.map((key) => key.id)} on ${page}`);
    }
  }
});

test("every key has a deed: a handler bound in a module, or an element that is clicked", () => {
  for (const key of KEYS) {
    const bound = new RegExp(`bind\\("${key.id}"|\\["${key.id}"|startKeys\\([^)]*"${key.id}"`).test(scripts);
    assert.ok(bound || templates.includes(`data-act="${key.id}"`), `nothing happens at ${key.id}`);
  }
});

test("one command has the same keys on every page, and no ID comes twice", () => {
  const known = new Map();
  for (const { words, keys } of KEYS) {
    assert.deepEqual(known.get(words) || keys, keys, words);
    known.set(words, keys);
  }
  assert.equal(new Set(KEYS.map(({ id }) => id)).size, KEYS.length);
});

test("a key that means one thing everywhere means nothing else anywhere", () => {
  for (const { id, words, keys } of KEYS) {
    for (const key of keys) assert.match(words, EVERYWHERE[key] || /./, `${key} of ${id}`);
  }
});

test("no key is one of the browser's own or needs AltGr without a second spelling", () => {
  const browsers = /^Ctrl\+(Shift\+[BCIJNTPRW]|[acfhlnprstvwxz]|Tab)$/; // Chrome, Firefox and Safari
  for (const { id, keys } of KEYS) {
    assert.ok(!keys.some((key) => browsers.test(key)), id);
    assert.ok(keys.some((key) => !/[[\]{}@\\|~#]/.test(key)), id);
  }
});

test("docs/keys.md lists the keys of the map", () => {
  const page = readFileSync(PAGE, "utf8");
  assert.equal(page, written(page), "run `node tools/keys.mjs`");
});

test("every key cap printed in a template belongs to a key", () => {
  for (const [, id] of templates.matchAll(/data-cap="([^"]+)"/g)) assert.ok(KEYS.some((key) => key.id === id), id);
});

test("no template prints a key cap by hand", () => {
  assert.doesNotMatch(templates, /<kbd/);
});

test("a letter with shift is a capital, a sign keeps its name, Cmd counts as Ctrl", () => {
  assert.deepEqual(namesOf(event("N", { shiftKey: true })), ["Shift+N"]);
  assert.deepEqual(namesOf(event("?", { shiftKey: true })), ["?"]);
  assert.deepEqual(namesOf(event("Enter", { metaKey: true })), ["Ctrl+Enter"]);
  assert.deepEqual(namesOf(event(" ")), ["Space"]);
  assert.deepEqual(namesOf(event("ArrowLeft", { shiftKey: true })), ["Shift+ArrowLeft"]);
});

test("Caps Lock changes no key", () => {
  assert.deepEqual(namesOf(event("J", { code: "KeyJ" })), ["j"]);
  assert.deepEqual(namesOf(event("j", { code: "KeyJ", shiftKey: true })), ["Shift+J"]);
  assert.deepEqual(namesOf(event("K", { code: "KeyK", ctrlKey: true })), ["Ctrl+k"]);
});

test("a layout names its letters, and the place counts without a Latin one", () => {
  assert.deepEqual(namesOf(event("z", { code: "KeyY" })), ["z"]); // German
  assert.deepEqual(namesOf(event("ü", { code: "BracketLeft" })), ["["]);
  assert.deepEqual(namesOf(event("/", { code: "Digit7", shiftKey: true })), ["/"]);
  assert.deepEqual(namesOf(event("о", { code: "KeyJ" })), ["j"]); // Russian
  assert.deepEqual(namesOf(event("О", { code: "KeyJ", shiftKey: true })), ["Shift+J"]);
  assert.deepEqual(namesOf(event("л", { code: "KeyK", ctrlKey: true })), ["Ctrl+k"]);
  assert.deepEqual(namesOf(event("ě", { code: "Digit2" })), ["2"]); // Czech
  assert.deepEqual(namesOf(event("&", { code: "Digit1" })), ["&", "1"]); // French
  assert.deepEqual(namesOf(event("!", { code: "Digit1", shiftKey: true })), ["!"]);
});

const ROWS = [
  "Backquote Digit1 Digit2 Digit3 Digit4 Digit5 Digit6 Digit7 Digit8 Digit9 Digit0 Minus Equal",
  "KeyQ KeyW KeyE KeyR KeyT KeyY KeyU KeyI KeyO KeyP BracketLeft BracketRight",
  "KeyA KeyS KeyD KeyF KeyG KeyH KeyJ KeyK KeyL Semicolon Quote Backslash",
  "IntlBackslash KeyZ KeyX KeyC KeyV KeyB KeyN KeyM Comma Period Slash",
].map((row) => row.split(" "));
const LAYOUTS = { // rows without and with Shift; ^ ´ ` ¨ ~ are accents
  German: ["^1234567890ß´ qwertzuiopü+ asdfghjklöä# <yxcvbnm,.-", "°!\"§$%&/()=?` QWERTZUIOPÜ* ASDFGHJKLÖÄ' >YXCVBNM;:_"],
  French: ["²&é\"'(-è_çà)= azertyuiop^$ qsdfghjklmù* <wxcvbn,;:!", "~1234567890°+ AZERTYUIOP¨£ QSDFGHJKLM%µ >WXCVBN?./§"],
  Spanish: ["º1234567890'¡ qwertyuiop`+ asdfghjklñ´ç <zxcvbnm,.-", "ª!\"·$%&/()=?¿ QWERTYUIOP^* ASDFGHJKLÑ¨Ç >ZXCVBNM;:_"],
  Swiss: ["§1234567890'^ qwertzuiopü¨ asdfghjklöä$ <yxcvbnm,.-", "°+\"*ç%&/()=?` QWERTZUIOPè! ASDFGHJKLéà£ >YXCVBNM;:_"],
};

test("every key of the map is typed without AltGr on German, French, Spanish and Swiss keyboards", () => {
  const names = /^(Ctrl\+)?(Shift\+)?(Enter|Escape|Home|End|Space|Page(Up|Down)|Arrow(Left|Right))$/;
  for (const [layout, levels] of Object.entries(LAYOUTS)) {
    const typed = new Set(); // the first name of each press: a sign wins over a place
    for (const [level, rows] of levels.entries()) {
      for (const [at, row] of rows.split(" ").entries()) {
        assert.equal(row.length, ROWS[at].length, `${layout} ${row}`);
        for (const [place, letter] of [...row].entries()) {
          const key = /[\^´`¨~]/.test(letter) ? "Dead" : letter;
          for (const ctrlKey of [false, true]) {
            const found = namesOf(event(key, { code: ROWS[at][place], shiftKey: level === 1, ctrlKey }));
            typed.add(found.find((name) => KEYS.some(({ keys }) => keys.some((one) => one.split(" ").includes(name)))));
          }
        }
      }
    }
    for (const { id, keys } of KEYS) {
      const reached = keys.filter((key) => key.split(" ").every((name) => names.test(name) || typed.has(name)));
      assert.ok(reached.length, `${id} on a ${layout} keyboard`);
    }
    assert.ok(typed.has("[") && typed.has("]"), layout); // where a US keyboard has them
  }
});

test("a modifier on its own leaves a pair open, and a key that runs can begin one", () => {
  const { press, ran } = pressOn("review", { usable: (id) => !id.startsWith("reason-") });
  press(event("x"));
  press(event("Shift", { shiftKey: true }));
  press(event("1", { shiftKey: true }));
  press(event("1"));
  assert.deepEqual(ran, ["reject", "failure-1", "label-1"]);
});

test("Escape leaves a field on every page, and clears the selection only outside of one", () => {
  for (const page of [...pages, "plain"]) {
    const { press, ran } = pressOn(page, { surroundings: { ...free, inField: true } });
    press(event("Escape"));
    assert.deepEqual(ran, ["leave"], page);
  }
  const { press, ran } = pressOn("episodes");
  press(event("Escape"));
  assert.deepEqual(ran, ["unselect"]);
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

const GRAPH = { getModifierState: (name) => name === "AltGraph" };
const WINDOWS = { ctrlKey: true, altKey: true, getModifierState: () => false };
const OPTION = { altKey: true, getModifierState: () => false };
const BY_ALT = [
  ["[", "Digit8", GRAPH, "German"], ["]", "Digit9", WINDOWS, "German"], ["[", "Digit5", OPTION, "German on a Mac"],
  ["[", "Digit5", { ...OPTION, shiftKey: true }, "French on a Mac"], ["[", "Digit5", GRAPH, "French"], ["]", "Minus", WINDOWS, "French"],
  ["[", "BracketLeft", GRAPH, "Italian and Spanish"], ["]", "KeyG", WINDOWS, "Hungarian"], ["/", "KeyQ", GRAPH, "Portuguese of Brazil"],
  ["{", "Digit7", GRAPH, "German"], ["@", "KeyQ", WINDOWS, "German"], ["\\", "Minus", GRAPH, "German"], ["|", "IntlBackslash", GRAPH, "German"],
  ["~", "Digit2", WINDOWS, "French"], ["@", "KeyL", OPTION, "German on a Mac"], ["?", "KeyW", GRAPH, "Portuguese of Brazil"],
];

test("a sign that is typed by AltGr is that sign, and no other key", () => {
  for (const [key, code, more, layout] of BY_ALT) {
    const pressed = event(key, { code, ...more });
    assert.deepEqual(namesOf(pressed), [key], `${key} on a ${layout} keyboard`);
    assert.ok(!isIgnored(pressed, {}, free), `${key} on a ${layout} keyboard`);
    assert.ok(isIgnored(pressed, {}, { ...free, inField: true }), "in a field it is text");
  }
  const { press, ran } = pressOn("replay");
  for (const [key, code, more] of BY_ALT) press(event(key, { code, ...more }));
  const [up, down] = ["mark-up", "mark-down"];
  assert.deepEqual(ran, [up, down, up, up, up, down, up, down, "search", "help"]);
});

test("what Alt does with letters, digits and the signs of a US keyboard is the browser's", () => {
  for (const [key, code, more] of [
    ["[", "BracketLeft", OPTION], ["]", "BracketRight", WINDOWS], ["/", "Slash", OPTION], ["?", "Slash", { ...OPTION, shiftKey: true }],
    ["q", "KeyQ", GRAPH], ["8", "Digit8", WINDOWS], [".", "Period", OPTION], ["Enter", "Enter", WINDOWS],
    ["[", "Digit8", { ...WINDOWS, metaKey: true }],
  ]) {
    assert.ok(!isByAlt(event(key, { code, ...more })) && isIgnored(event(key, { code, ...more }), {}, free), `${key} ${code}`);
  }
});

test("keys are dead in dialogs, while the next item loads, and with AltGr", () => {
  const bare = KEYS.find((key) => key.id === "pass");
  assert.ok(isIgnored(event("p"), bare, { ...free, inDialog: true }));
  assert.ok(isIgnored(event("Enter"), KEYS.find((key) => key.id === "send"), { ...free, loading: true }));
  assert.ok(isIgnored(event("p", { getModifierState: (name) => name === "AltGraph" }), bare, free));
  assert.ok(!isIgnored(event("p"), bare, free));
});

test("a press belongs to the item on which it went down, with its repeats and the second key of a pair", () => {
  const around = { ...free, item: "first" };
  const { press, ran, wait } = pressOn("review", { surroundings: around });
  const held = { code: "KeyX", repeat: true };
  press(event("x", held)); // went down before this page
  assert.deepEqual(ran, []);
  press(event("j", { code: "KeyJ" }));
  press(event("j", { code: "KeyJ", repeat: true }));
  assert.equal(ran.length, 2);
  press(event("g", { code: "KeyG" }));
  around.item = "second";
  press(event("j", { code: "KeyJ", repeat: true }));
  press(event("q", { code: "KeyQ" }));
  assert.equal(ran.length, 2);
  wait(1000);
  press(event("j", { code: "KeyJ" }));
  assert.equal(ran.length, 3);
});

test("a key that is hammered into the next item, as some keyboards repeat it, does nothing until it rests", () => {
  const around = { ...free, item: "first" };
  const { press, ran, wait } = pressOn("review", { surroundings: around });
  press(event("1", { code: "Digit1" }));
  around.item = "second";
  for (let count = 0; count < 30; count += 1) {
    wait(60);
    press(event("1", { code: "Digit1" }));
  }
  assert.equal(ran.length, 1);
  wait(600);
  press(event("1", { code: "Digit1" }));
  assert.equal(ran.length, 2);
  around.item = "third";
  press(event("2", { code: "Digit2" })); // a rhythm is no repeat
  press(event("1", { code: "Digit1" }));
  assert.equal(ran.length, 4);
});

test("a press from before an item could be read is not for it", () => {
  const around = { ...free, item: "next", since: 100 };
  const { press, ran, wait } = pressOn("review", { surroundings: around });
  press(event("a", { code: "KeyA" })); // it waited for the page
  wait(100);
  press(event("x", { code: "KeyX" }));
  assert.deepEqual(ran, ["reject"]);
  around.since = Infinity; // not painted yet
  press(event("z", { code: "KeyZ" }));
  assert.deepEqual(ran, ["reject"]);
});

const SPELLINGS = [...new Set(KEYS.flatMap(({ keys }) => keys))];
const STATES = [false, true].flatMap((inField) => [false, true].map((onButton) => ({ ...free, inField, onButton })));

/** Press a spelling: its last part as an event. */
function pressed(press, spelling) {
  for (const part of spelling.split(" ")) {
    const names = part.split("+");
    const key = names.at(-1) === "Space" ? " " : names.at(-1);
    press(event(key, { ctrlKey: names.includes("Ctrl"), shiftKey: names.includes("Shift") }));
  }
}

test("what is held is undone before anything else that the page undoes", () => {
  for (const [page, own] of [["ask", "take-back"], ["review", "undo"], ["wheel", "undo-order"], ["queue", undefined]]) {
    for (const isHeld of [true, false]) {
      const { press, ran } = pressOn(page, { usable: (id) => isHeld || id !== "undo-answer" });
      press(event("z"));
      assert.deepEqual(ran, isHeld ? ["undo-answer"] : [own].filter(Boolean), page);
    }
  }
});

test("what is drawn is what works now: a press runs the key that is drawn for it, on every page and in every state", () => {
  for (const page of [...pages, "plain"]) {
    for (const surroundings of STATES) {
      for (const part of [0, 1, 2]) {
        const usable = (id) => (id.length + part) % 3 > 0 || part === 2;
        const drawn = new Map(working(keysOf(page), usable, surroundings).flatMap(({ id, keys }) => keys.map((key) => [key, id])));
        for (const spelling of SPELLINGS.filter((one) => !one.includes(" "))) {
          const { press, ran } = pressOn(page, { surroundings, usable });
          pressed(press, spelling);
          assert.deepEqual(ran, drawn.has(spelling) ? [drawn.get(spelling)] : [], `${spelling} on ${page}`);
        }
        for (const spelling of [...drawn.keys()].filter((one) => one.includes(" "))) {
          const { press, ran } = pressOn(page, { surroundings, usable });
          pressed(press, spelling);
          assert.equal(ran.at(-1), drawn.get(spelling), `${spelling} on ${page}`);
        }
      }
    }
  }
});

test("a cap is drawn by the module of keys alone", () => {
  const hand = files("static/", ".js").filter((text) => /["'`]kbd["'`]/.test(text) && !text.includes("function printCaps"));
  assert.deepEqual(hand.map((text) => text.slice(0, 80)), []);
});

test("the search key is promised for the pages that have a search", () => {
  const texts = new Map(readdirSync(new URL("templates/", here), { recursive: true }).filter((name) => name.endsWith(".html")).map((name) => [name, readFileSync(new URL(`templates/${name}`, here), "utf8")]));
  const searched = (text, seen = new Set()) => /\bdata-search\b/.test(text) || [...text.matchAll(/include "([^"]+)"/g)].some(([, name]) => !seen.has(name) && searched(texts.get(name) || "", new Set([...seen, name])));
  const having = [...texts.values()].filter((text) => searched(text)).flatMap((text) => text.match(/block page_name %\}(\w+)/)?.[1] || []);
  assert.deepEqual(KEYS.find(({ id }) => id === "search").page.split(" ").sort(), having.sort());
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

test("a plain form is sent by its main or its only button, unless that deletes", () => {
  const button = (name, css = "", more = {}) => ({ name, type: "submit", disabled: false, matches: (tag) => tag === "button", classList: { contains: (one) => css === one }, ...more });
  const sent = (...elements) => sendsForm(/** @type {any} */ ({ elements }))?.name;
  assert.equal(sent({ type: "textarea", matches: () => false }, button("save")), "save");
  assert.equal(sent(button("plan"), button("launch", "main")), "launch");
  for (const few of [[], [button("plan"), button("try")], [button("delete", "warn")], [button("save", "", { disabled: true })]]) assert.equal(sent(...few), undefined);
});

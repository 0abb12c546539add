import assert from "node:assert/strict";
import { test } from "node:test";
import { chime, isOn, turn } from "../../static/shell/sound.js";

const played = [];
class Sounds {
  constructor() { Object.assign(this, { currentTime: 0, destination: {} }); }
  createOscillator() {
    const note = { frequency: {}, connect: (next) => next, start: () => played.push(note.frequency.value), stop: () => {} };
    return note;
  }
  createGain() { return { gain: { setValueAtTime: () => {}, exponentialRampToValueAtTime: () => {} }, connect: (next) => next }; }
}

test("the sound is off at first, and off where nothing can be stored", () => {
  globalThis.AudioContext = Sounds;
  assert.ok(!isOn() && !turn(true) && !chime());
  const kept = {};
  globalThis.localStorage = { getItem: (key) => kept[key] ?? null, setItem: (key, value) => { kept[key] = value; } };
  assert.ok(!isOn() && !chime());
  assert.deepEqual(played, []);
});

test("turned on it plays two notes until it is turned off", () => {
  assert.ok(turn(true) && isOn() && chime());
  assert.deepEqual(played, [660, 880]);
  assert.ok(turn(false) && !chime());
  assert.equal(played.length, 2);
});

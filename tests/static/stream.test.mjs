import assert from "node:assert/strict";
import { test } from "node:test";
import { Stream, coalesce, pauseBefore, withSince } from "../../static/shell/stream.js";

function wire() {
  const sockets = [];
  const timers = [];
  let clock = 0;
  const socket = (url) => {
    const one = { url, close() {} };
    sockets.push(one);
    return one;
  };
  const timer = { set: (job, ms) => timers.push({ job, ms }), clear: (id) => { timers[id - 1] = null; }, now: () => clock };
  return { sockets, timers, socket, timer, wait: (ms) => { clock += ms; }, fire: () => timers.filter(Boolean).at(-1).job() };
}

test("pauses double from half a second to ten seconds, with a little chance", () => {
  assert.deepEqual([0, 1, 2, 3, 9].map((n) => pauseBefore(n, 1)), [500, 1000, 2000, 4000, 10000]);
  assert.equal(pauseBefore(0, 0), 400);
});

const TIMES = { silent: "6", deaf: "12" };

test("since is put into a path with and without a query", () => {
  assert.equal(withSince("/ws/episodes/e", 7), "/ws/episodes/e?since=7");
  assert.equal(withSince("/ws/x?a=1", 7), "/ws/x?a=1&since=7");
  assert.equal(withSince("/ws/queue", undefined), "/ws/queue");
});

test("after a loss it connects again from the last number seen and asks for what is missing", () => {
  const { sockets, timers, socket, timer, wait, fire } = wire();
  const [frames, states] = [[], []];
  let [last, gaps] = [3, 0];
  new Stream({ path: "/ws/e", times: TIMES, since: () => last, socket, timer, onFrame: (frame) => frames.push(frame), onState: (state, info) => states.push([state, info.away]), onGap: () => { gaps += 1; } }).start();
  sockets[0].onopen();
  sockets[0].onmessage({ data: '{"type": "steps", "steps": [{"seq": 4}]}' });
  last = 4;
  sockets[0].onclose();
  wait(600);
  fire();
  assert.equal(sockets[1].url, "/ws/e?beat=1&since=4");
  sockets[1].onopen();
  assert.equal(gaps, 1);
  assert.deepEqual(frames.map((frame) => frame.steps[0].seq), [4]);
  assert.deepEqual(states.map(([state]) => state), ["connecting", "live", "lost", "lost", "live"]);
  assert.equal(states.at(-1)[1], 600);
  assert.equal(timers.length, 1);
});

test("a gap frame and half a frame both ask for a catch-up and are not passed on", () => {
  const { sockets, socket, timer } = wire();
  let gaps = 0;
  new Stream({ path: "/ws/e", times: TIMES, socket, timer, onFrame: () => assert.fail("no frame was whole"), onGap: () => { gaps += 1; } }).start();
  sockets[0].onopen();
  sockets[0].onmessage({ data: '{"type": "gap"}' });
  sockets[0].onmessage({ data: '{"type": "st' });
  assert.equal(gaps, 2);
});

test("a person who does not want to wait starts the next attempt at once, and the old timer is gone", () => {
  const { sockets, timers, socket, timer } = wire();
  const stream = new Stream({ path: "/ws/e", times: TIMES, socket, timer, onFrame() {} }).start();
  sockets[0].onclose();
  stream.tryNow();
  assert.equal(sockets.length, 2);
  assert.equal(timers[0], null);
});

test("the close of a replaced socket does not start another", () => {
  const { sockets, timers, socket, timer } = wire();
  const stream = new Stream({ path: "/ws/e", times: TIMES, socket, timer, onFrame() {} }).start();
  sockets[0].onclose();
  stream.tryNow();
  sockets[0].onclose();
  assert.equal(timers.filter(Boolean).length, 0);
});

test("a silent socket that is doubted is lost and replaced once, one that spoke just now is not", () => {
  const { sockets, timers, socket, timer, wait, fire } = wire();
  const states = [];
  const stream = new Stream({ path: "/ws/e", times: TIMES, socket, timer, onFrame() {}, onState: (state) => states.push(state) }).start();
  sockets[0].onopen();
  wait(4000);
  stream.doubt();
  assert.equal(timers.length, 0);
  wait(2000);
  stream.doubt();
  stream.doubt();
  sockets[0].onclose(); // its own end comes late
  assert.equal(timers.length, 1);
  fire();
  sockets[1].onopen();
  assert.deepEqual([states, sockets.length], [["connecting", "live", "lost", "lost", "live"], 2]);
});

test("an open socket that misses two beats is replaced at once and asks for what was missed", () => {
  const { sockets, socket, timer, wait } = wire();
  const states = [];
  let gaps = 0;
  const hears = { onFrame: () => assert.fail("a beat is no frame"), onGap: () => { gaps += 1; } };
  const stream = new Stream({ path: "/ws/e", times: TIMES, socket, timer, ...hears, onState: (state, info) => states.push([state, info.away]) }).start();
  sockets[0].onopen();
  for (const slept of [5000, 5000, 11_999]) {
    wait(slept);
    stream.mind();
    sockets[0].onmessage({ data: '{"type": "beat"}' });
  }
  assert.equal(sockets.length, 1);
  wait(3_600_000); // asleep
  stream.check();
  assert.equal(sockets.length, 2);
  sockets[1].onopen();
  assert.deepEqual([gaps, states], [1, [["connecting", 0], ["live", 0], ["lost", 3_600_000], ["lost", 3_600_000], ["live", 3_600_000]]]);
});

test("a stopped stream stays stopped", () => {
  const { sockets, timers, socket, timer } = wire();
  const stream = new Stream({ path: "/ws/e", times: TIMES, socket, timer, onFrame() {} }).start();
  stream.stop();
  sockets[0].onclose();
  assert.equal(timers.length, 0);
});

test("many pokes during a run make one more run, never two at once", async () => {
  let [running, most, runs] = [0, 0, 0];
  const gates = [];
  const poke = coalesce(async () => {
    running += 1;
    runs += 1;
    most = Math.max(most, running);
    await new Promise((open) => gates.push(open));
    running -= 1;
  });
  const first = poke();
  poke();
  poke();
  gates[0]();
  await new Promise(setImmediate);
  gates[1]();
  await first;
  assert.deepEqual([most, runs], [1, 2]);
});

test("the second run follows at once, later ones of the same row wait", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  let runs = 0;
  const poke = coalesce(async () => {
    runs += 1;
    if (runs < 4) poke();
  }, 60);
  const settled = () => new Promise(setImmediate);
  const over = poke();
  await settled();
  assert.equal(runs, 2);
  t.mock.timers.tick(59);
  await settled();
  assert.equal(runs, 2);
  t.mock.timers.tick(1);
  await settled();
  assert.equal(runs, 3);
  t.mock.timers.tick(60);
  await over;
  assert.equal(runs, 4);
});

test("a failed run lets the next one go", async () => {
  let runs = 0;
  const poke = coalesce(async () => {
    runs += 1;
    if (runs === 1) throw new Error("away");
  });
  await assert.rejects(poke(), /away/);
  await poke();
  assert.equal(runs, 2);
});

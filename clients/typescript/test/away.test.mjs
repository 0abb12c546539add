/** What the client does when a desk is away, or breaks off: against a server that answers as each test says. */

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { test } from "node:test";
import { Desk, Refused } from "awmclient";

const EPISODE = { id: "e1", url: "/episodes/e1" };
const ADVICE = { text: "Oolong.", source: "human" };
const ANSWERED = { id: "a1", status: "answered", advice: ADVICE };

/** A desk whose calls `does` answers by method and path: with a body, or by itself. Without an answer the call waits. */
async function deskOf(t, does) {
  const calls = [];
  const server = createServer((request, response) => {
    const name = `${request.method} ${request.url.replace("/api/v1", "").replace(/\?.*/, "")}`;
    calls.push(name);
    const body = does[name]?.(response, calls.filter((call) => call === name).length);
    if (body) response.writeHead(200, { "Content-Type": "application/json" }).end(JSON.stringify(body));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => server.close() && server.closeAllConnections());
  return { desk: new Desk({ url: `http://127.0.0.1:${server.address().port}`, token: "token", retryS: 5 }), calls };
}

test("a body that is broken off is asked for again", async (t) => {
  const { desk, calls } = await deskOf(t, {
    "POST /runs": (response, time) => {
      if (time > 1) return { id: "r1" };
      response.socket.end('HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n{"id": "r');
    },
  });
  assert.equal(await desk.startRun("Runs"), "r1");
  assert.equal(calls.length, 2);
});

test("a page is no desk, and not asked again", async (t) => {
  const page = (response) => void response.writeHead(200, { "Content-Type": "text/html" }).end("<p>Hello</p>");
  const { desk, calls } = await deskOf(t, { "POST /runs": page });
  await assert.rejects(desk.startRun("Runs"), (error) => error instanceof Refused && error.code === "not_a_dashboard");
  assert.equal(calls.length, 1);
});

test("a wait of months is no wait of a moment", async (t) => {
  const stop = new AbortController();
  const busy = (response) => {
    response.writeHead(503, { "Retry-After": "9999999" }).end();
    setTimeout(() => stop.abort(new Error("enough")), 300);
  };
  const { desk, calls } = await deskOf(t, { "GET /asks/a1": busy });
  const params = { path: { ask_id: "a1" }, query: { wait: 1 } };
  const waits = desk.wire.send((api, signal) => api.GET("/api/v1/asks/{ask_id}", { params, signal }), {
    retryS: Number.POSITIVE_INFINITY,
    signal: stop.signal,
  });
  await assert.rejects(waits, /enough/);
  assert.equal(calls.length, 1);
});

test("a pause of none is one of our own", async (t) => {
  const busy = (response) => void response.writeHead(429, { "Retry-After": "0" }).end();
  const { desk, calls } = await deskOf(t, { "POST /runs": busy });
  await assert.rejects(desk.startRun("Runs"));
  assert.ok(calls.length < 30, `${calls.length} requests`);
});

test("a question that is aborted is withdrawn before its caller goes on", async (t) => {
  const stop = new AbortController();
  const { desk, calls } = await deskOf(t, {
    "POST /episodes": () => EPISODE,
    "POST /asks": () => ({ id: "a1", status: "open" }),
    "GET /asks/a1": () => void stop.abort(new Error("enough")),
    "POST /asks/a1/cancel": () => ({ id: "a1", status: "cancelled" }),
  });
  await assert.rejects(desk.ask("Which tea?", { signal: stop.signal }), /enough/);
  assert.equal(calls.at(-1), "POST /asks/a1/cancel");
});

test("a key that is asked again after an outage is answered", async (t) => {
  let isAway = true;
  const { desk, calls } = await deskOf(t, {
    "POST /episodes": () => EPISODE,
    "GET /episodes/e1": () => ({ ...EPISODE, last_seq: 0 }),
    "POST /asks": (response) => (isAway ? void response.socket.destroy() : { id: "a1", status: "open" }),
    "GET /asks/a1": () => (calls.includes("POST /asks/a1/cancel") ? { id: "a1", status: "cancelled" } : ANSWERED),
    "POST /asks/a1/consumed": () => ANSWERED,
    "POST /asks/a1/cancel": () => ({ id: "a1", status: "cancelled" }),
    "POST /episodes/e1/steps": () => ({ acknowledged: 2 }),
  });
  const episode = await desk.record("Brew");
  const fields = { key: "tea", deadline_s: 0.2 };
  assert.equal((await episode.ask("Which tea?", fields)).reason, "unreachable");
  isAway = false;
  assert.equal((await episode.ask("Which tea?", fields)).text, "Oolong.");
  await episode.append({ kind: "note", content: "brewed" });
  assert.ok(!calls.includes("POST /asks/a1/cancel"));
});

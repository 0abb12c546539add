import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import vm from "node:vm";
import { bytesOf, nameOf, obstacle } from "../../static/lists/notices.js";

const ABLE = { secure: true, worker: true, notification: true, permission: "default", push: true, wantsPush: true, ios: false, standalone: false };

test("a browser that can show notices meets no obstacle, and each obstacle has words of its own", () => {
  assert.equal(obstacle(ABLE), "");
  assert.equal(obstacle({ ...ABLE, push: false, wantsPush: false }), "");
  assert.match(obstacle({ ...ABLE, secure: false }), /HTTPS/);
  assert.match(obstacle({ ...ABLE, push: false }), /does not support push/);
  assert.match(obstacle({ ...ABLE, worker: false }), /private/);
  assert.match(obstacle({ ...ABLE, permission: "denied" }), /blocked for this site/);
  assert.match(obstacle({ ...ABLE, ios: true, notification: false, push: false }), /Add to Home Screen/);
  assert.match(obstacle({ ...ABLE, ios: true, standalone: true, permission: "denied" }), /settings/);
});

test("a key comes to browsers as bytes", () => {
  assert.deepEqual([...bytesOf("BP-_AA")], [4, 255, 191, 0]);
});

test("a browser is called by its name and its system", () => {
  assert.equal(nameOf("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"), "Firefox on Linux");
  assert.equal(nameOf("Mozilla/5.0 (Linux; Android 16) AppleWebKit/537.36 Chrome/150.0 Mobile Safari/537.36"), "Chrome on Android");
  assert.equal(nameOf("Mozilla/5.0 (iPhone; CPU iPhone OS 19_0) AppleWebKit/605.1 Version/19.0 Safari/604.1"), "Safari on iOS");
  assert.equal(nameOf("curl/8"), "Browser");
});

/** The service worker with its world around it: tabs as [path, visible], what was shown, and what was done. */
function worker(tabs = []) {
  const [heard, shown, done] = [{}, [], []];
  const clientOf = ([path, visible]) => ({
    url: `https://desk.example${path}`,
    visibilityState: visible ? "visible" : "hidden",
    focus: async () => done.push(`focus ${path}`),
    navigate: async (to) => (done.push(`${path} to ${to}`), clientOf([to, visible])),
  });
  const self = {
    addEventListener: (name, hear) => { heard[name] = hear; },
    skipWaiting: () => {},
    clients: {
      claim: async () => {},
      matchAll: async () => tabs.map(clientOf),
      openWindow: async (path) => done.push(`open ${path}`),
    },
    registration: { showNotification: async (title, options) => shown.push({ title, ...options }) },
  };
  vm.runInNewContext(readFileSync(new URL("../../static/sw.js", import.meta.url), "utf8"), { self, URL });
  const tell = async (name, event) => {
    let wait;
    heard[name]({ ...event, waitUntil: (promise) => { wait = promise; } });
    await wait;
  };
  const click = (data) => tell("notificationclick", { notification: { data, close: () => done.push("closed") } });
  return { tell, click, shown, done };
}

const NOTICE = { type: "notice", ask: "abc1", title: "An agent asks", body: "Into which one?", path: "/asks/abc1/", tag: "g" };

test("a push is shown as it came, without anything but words and our own address", async () => {
  const { tell, shown } = worker();
  await tell("push", { data: { json: () => ({ ...NOTICE, actions: ["x"], image: "https://evil.example/" }) } });
  assert.deepEqual(Object.keys(shown[0]).sort(), ["body", "data", "icon", "tag", "title"]);
  assert.deepEqual({ ...shown[0].data }, { path: "/asks/abc1/", ask: "abc1" });
});

test("a push that cannot be read still says that an agent asks", async () => {
  const { tell, shown } = worker();
  await tell("push", { data: null });
  assert.equal(shown[0].title, "An agent asks");
});

test("what the socket brought is shown only while nobody looks at any page", async () => {
  const seen = worker([["/queue/", false], ["/episodes/", true]]);
  await seen.tell("message", { data: NOTICE });
  const hidden = worker([["/queue/", false]]);
  await hidden.tell("message", { data: NOTICE });
  assert.deepEqual([seen.shown.length, hidden.shown.length], [0, 1]);
});

test("a click goes to the tab that shows the ask, else to one where nobody writes, else to a new one", async () => {
  const data = { path: "/asks/abc1/" };
  const there = worker([["/queue/", true], ["/asks/abc1/", false]]);
  await there.click(data);
  assert.deepEqual(there.done, ["closed", "focus /asks/abc1/"]);
  const idle = worker([["/asks/other/", true], ["/queue/", false]]);
  await idle.click(data);
  assert.deepEqual(idle.done, ["closed", "/queue/ to /asks/abc1/", "focus /asks/abc1/"]);
  const writing = worker([["/asks/other/", true]]);
  await writing.click(data);
  assert.deepEqual(writing.done, ["closed", "open /asks/abc1/"]);
});

test("a notice leads to no address but ours", async () => {
  for (const path of ["https://evil.example/", "//evil.example/", "/logout", "/asks/../logout", undefined]) {
    const { click, done } = worker();
    await click({ path });
    assert.deepEqual(done, ["closed", "open /queue/"]);
  }
});

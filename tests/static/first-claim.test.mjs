import assert from "node:assert/strict";
import { test } from "node:test";
import { claimLooked } from "../../static/ask/first-claim.js";

/** Claim the ask of a page that is still shown, or was left meanwhile; the addresses that were sent to. */
async function sentTo(isConnected) {
  const sent = [];
  globalThis.document = /** @type {any} */ ({ body: { dataset: {} }, querySelector: () => null });
  globalThis.fetch = async (path, { body }) => {
    sent.push([path, body.get("lease_token")]);
    return Response.json({ token: "t", until: "2026-01-01T00:00:00Z" });
  };
  const chip = { dataset: {}, remove() {} };
  const page = { dataset: { looks: "/asks/a/claim", ask: "a" }, isConnected, querySelectorAll: () => [], querySelector: () => chip };
  assert.equal(await claimLooked(/** @type {any} */ (page)), "");
  return sent;
}

test("a claim that arrives after its page was left is let go", async () => {
  assert.deepEqual(await sentTo(true), [["/asks/a/claim", null]]);
  assert.deepEqual(await sentTo(false), [["/asks/a/claim", null], ["/queue/a/release", "t"]]);
});

/** The contract of both clients: the table `contract.json`, here against the TypeScript client. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { Desk, Refused } from "awmclient";

const { AWMWEB_URL: url, AWMWEB_CUTTING_URL: cutting, AWMWEB_TOKEN: token, SESSION: session } = process.env;
const table = JSON.parse(readFileSync(new URL("contract.json", import.meta.url), "utf8"));

const DOES = {
  append: (episode, { steps }) => episode.append(steps),
  ask: (episode, { question, fields }) => episode.ask(question, fields),
  approve: (episode, { question, calls, fields }) => episode.approve(calls, { question, ...fields }),
  finish: (episode, { stop_reason, fields }) => episode.finish(stop_reason, fields),
  decided: async (episode, { step }) => (await episode.steps())[step - 1].advice.decided,
  wait: async (episode, { step }) => episode.wait((await episode.steps())[step - 1].ask, { deadline_s: 120 }),
};

for (const [at, { name, steps, cuts, recorded, state }] of table.entries()) {
  test(name, async () => {
    const desk = new Desk({ url: cuts ? `${cutting}/${at}-${session}` : url, token });
    let episode;
    for (const step of steps) {
      if (step.do === "record") {
        const key = `${session}:${at}:${step.fields.key ?? "only"}`;
        episode = await desk.record(`${step.task} ${session}`, { ...step.fields, key });
      } else if (step.refused) {
        const refused = (error) => error instanceof Refused && error.code === step.refused;
        await assert.rejects(DOES[step.do](episode, step), refused, `${step.do} is refused as ${step.refused}`);
      } else {
        const came = await DOES[step.do](episode, step);
        if ("gives" in step) assertHas(came, step.gives);
      }
    }
    assert.deepEqual((await episode.steps()).map((step) => step.kind), recorded);
    assert.equal((await episode.view()).state, state);
  });
}

/** Each field that is expected is there; others can be, too. */
function assertHas(came, expected) {
  if (typeof expected !== "object") return assert.equal(came, expected);
  if (Array.isArray(expected)) assert.equal(came.length, expected.length);
  for (const [name, value] of Object.entries(expected)) assertHas(came[name], value);
}

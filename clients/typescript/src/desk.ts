/**
 * The desk of a project: `new Desk({ url, token })`, with a token of scope *agent*.
 *
 * `record` starts an episode, and goes on with it after a restart. `ask` and `approve` need none of their own.
 */

import type { components } from "./api.js";
import { Episode, type Advice, type ApproveFields, type AskFields, type ProposedCall, type Verdict, verdicts } from "./episode.js";
import { Wire } from "./wire.js";

const WHOLE_MAX = 64;
const TASK_MAX = 200;

type Schemas = components["schemas"];
type Whole = Schemas["WholeBatch"]["episodes"][number];
export type EpisodeFields = Partial<Omit<Schemas["EpisodeStart"], "task">>;
/** `key` names the ask for good: the same again, in any process, is the same ask and its answer. */
export type AloneFields = AskFields & { task?: string };

export class Desk {
  readonly wire: Wire;

  /** Calls are sent again for `retryS` seconds while the connection fails or the dashboard is busy. */
  constructor({ url, token, retryS = 60 }: { url: string; token: string; retryS?: number }) {
    this.wire = new Wire(url, token.trim(), retryS);
  }

  /** Start an episode. The same `key` and fields again is the same episode, and its numbers go on. */
  async record(task: string, fields: EpisodeFields = {}): Promise<Episode> {
    const body = { key: crypto.randomUUID(), ...fields, task };
    const { fresh, status } = await this.#start(body);
    return status === 201 ? fresh : new Episode(this.wire, fresh.id, fresh.url, (await fresh.view()).last_seq);
  }

  /** An episode as of its first step, and whether it is new. */
  async #start(body: Schemas["EpisodeStart"]): Promise<{ fresh: Episode; status: number }> {
    const { data, status } = await this.wire.send((api, signal) => api.POST("/api/v1/episodes", { body, signal }));
    return { fresh: new Episode(this.wire, data.id, data.url, 0), status };
  }

  /** Ask the experts in an episode of its own, and wait for the answer. */
  async ask(question: string, { task, ...fields }: AloneFields = {}): Promise<Advice> {
    const key = fields.key ?? crypto.randomUUID();
    const name = task ?? question.slice(0, TASK_MAX);
    const { fresh: episode } = await this.#start({ task: name, key: `ask:${key}`, expert: "plain" });
    // As its first step, also in an episode that has one: the desk compares all that was asked.
    const advice = await episode.ask(question, { ...fields, key }).catch(async (error: unknown) => {
      await episode.leave();
      throw error;
    });
    await episode.finish("done", advice.text ? { final_answer: advice.text } : {});
    return advice;
  }

  /** Ask for an approval of calls in an episode of its own; returns what was decided on each. */
  async approve(calls: ProposedCall | ProposedCall[], fields: ApproveFields & { task?: string } = {}): Promise<Verdict[]> {
    const proposed = [calls].flat().map((call, at) => ({ ...call, id: call.id ?? String(at + 1) }));
    const { question = `May the agent call ${proposed.map((call) => call.name).join(", ")}?`, ...more } = fields;
    return verdicts(proposed, await this.ask(question, { on_timeout: "reject", ...more, kind: "approval", calls: proposed }));
  }

  /** Start a run, under which episodes are listed together; returns its ID. */
  async startRun(name: string, fields: Partial<Omit<Schemas["RunStart"], "name">> = {}): Promise<string> {
    const body = { key: crypto.randomUUID(), ...fields, name };
    return (await this.wire.send((api, signal) => api.POST("/api/v1/runs", { body, signal }))).data.id;
  }

  /** Record finished episodes, 64 in a request. Returns what became of each, in order. */
  async recordWhole(episodes: Whole[]): Promise<Schemas["WholeResult"][]> {
    const results: Schemas["WholeResult"][] = [];
    for (let from = 0; from < episodes.length; from += WHOLE_MAX) {
      const body = { episodes: episodes.slice(from, from + WHOLE_MAX) };
      const { data } = await this.wire.send((api, signal) => api.POST("/api/v1/episodes/whole", { body, signal }));
      results.push(...data.results);
    }
    return results;
  }
}

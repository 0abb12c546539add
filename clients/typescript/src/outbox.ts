/**
 * The order of one episode's calls: steps and questions, each with its numbers, until the dashboard has them.
 *
 * An entry goes only after the dashboard has it, so a call that failed loses nothing: the next one sends it again.
 */

import type { components } from "./api.js";
import { Refused } from "./errors.js";
import type { Patience, Wire } from "./wire.js";

const STEPS_PER_BATCH = 1000;
const BATCH_BYTES = 2 * 1024 * 1024 - 64;

type Schemas = components["schemas"];
type Recorded = Schemas["StepBatch"]["steps"][number];
type Numbered<Step> = Step extends unknown ? Omit<Step, "seq"> & { seq?: number } : never;
/** A step of an agent; without `seq` the episode numbers it. */
export type Step = Numbered<Recorded>;
export type AskBody = Omit<Schemas["AskOpen"], "episode" | "seq">;
export type AskView = Partial<Schemas["AskView"]> & Pick<Schemas["AskView"], "status">;
export type Heard = "deadline" | "unreachable";

export interface Batch {
  steps: Recorded[];
  before: number;
  error?: Refused;
}

export interface Question {
  body: Schemas["AskOpen"];
  id: string;
  view: AskView;
  isGivenUp: boolean;
  heard?: Heard | undefined;
  error?: Refused;
}

export class Outbox {
  acknowledged: number;
  readonly #entries: (Batch | Question)[] = [];
  /** Receipts and withdrawals, which go before the next entry. */
  readonly #owed: ((patience?: Patience) => Promise<unknown>)[] = [];
  readonly #byKey = new Map<string, Question>();
  #turn: Promise<unknown> = Promise.resolve();

  constructor(
    readonly wire: Wire,
    readonly episode: string,
    public lastSeq: number,
  ) {
    this.acknowledged = lastSeq;
  }

  putSteps(steps: Step[]): Batch {
    const before = this.lastSeq;
    const at = new Date().toISOString();
    const numbered = steps.map((step) => (step.seq === undefined ? { at, ...step, seq: ++this.lastSeq } : step));
    for (const step of numbered) this.lastSeq = Math.max(this.lastSeq, step.seq ?? 0);
    const batch: Batch = { steps: numbered as Recorded[], before };
    if (steps.length) this.#entries.push(batch);
    return batch;
  }

  /** The question of this body; one with a key that was asked before is that one. */
  putQuestion(body: AskBody): Question {
    const earlier = this.#byKey.get(body.key);
    if (earlier && !earlier.error && same({ ...body, episode: this.episode, seq: earlier.body.seq }, earlier.body)) {
      earlier.isGivenUp = false; // its caller waits again
      earlier.heard = undefined;
      return earlier;
    }
    const asked = { ...body, episode: this.episode, seq: ++this.lastSeq };
    const question: Question = { body: asked, id: "", view: { status: "open" }, isGivenUp: false };
    this.#byKey.set(body.key, question);
    this.#entries.push(question);
    return question;
  }

  /** Go on without this answer. Its number stays taken: it is sent if it was not, and withdrawn. */
  giveUp(question: Question, heard?: Heard): void {
    question.isGivenUp = true;
    question.heard = heard;
    if (question.id) this.#owed.push((patience) => this.#withdraw(question, patience));
  }

  oweReceipt(ask: string): void {
    const params = { path: { ask_id: ask } };
    this.#owed.push((patience) =>
      this.wire.send((api, signal) => api.POST("/api/v1/asks/{ask_id}/consumed", { params, signal }), patience),
    );
  }

  /** Send in order until nothing is left, one sender at a time. */
  flush(patience?: Patience): Promise<void> {
    const sent = this.#turn.then(() => this.#drain(patience));
    this.#turn = sent.catch(() => undefined);
    return sent;
  }

  async #drain(patience?: Patience): Promise<void> {
    while (this.#owed.length || this.#entries.length) {
      patience?.signal?.throwIfAborted();
      const [owed] = this.#owed;
      if (owed) {
        // What is refused is settled, too: the ask is closed already.
        await owed(patience).catch((error: unknown) => {
          if (!(error instanceof Refused)) throw error;
        });
        this.#owed.shift();
        continue;
      }
      const entry = this.#entries[0]!;
      await ("body" in entry ? this.#sendQuestion(entry, patience) : this.#sendBatch(entry, patience));
    }
  }

  async #sendBatch(batch: Batch, patience?: Patience): Promise<void> {
    const params = { path: { episode_id: this.episode } };
    try {
      while (batch.steps.length) {
        const steps = batch.steps.slice(0, fitting(batch.steps));
        const call = { params, body: { steps } };
        const { data } = await this.wire.send(
          (api, signal) => api.POST("/api/v1/episodes/{episode_id}/steps", { ...call, signal }), patience,
        ); // prettier-ignore
        this.acknowledged = Math.max(this.acknowledged, data.acknowledged);
        batch.steps.splice(0, steps.length);
      }
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      batch.error = error;
      // The numbers are free again, unless later ones are given out.
      if (this.#entries.length === 1) this.lastSeq = Math.max(batch.before, this.acknowledged);
    }
    this.#entries.shift();
  }

  async #sendQuestion(question: Question, patience?: Patience): Promise<void> {
    try {
      const { data } = await this.wire.send(
        (api, signal) => api.POST("/api/v1/asks", { body: question.body, signal }), patience,
      ); // prettier-ignore
      question.view = data;
      question.id = data.id;
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      question.error = error;
      const { seq } = question.body;
      if (seq === this.lastSeq) this.lastSeq -= 1;
      else {
        // Later numbers are given out, so its own needs a step.
        const content = `The dashboard refused a question (${error.code}); the agent got no_advice.`;
        this.#entries[0] = { steps: [{ seq, kind: "note", content }], before: seq - 1 };
        return;
      }
    }
    this.#entries.shift();
    if (!question.id) return;
    this.acknowledged = Math.max(this.acknowledged, question.body.seq);
    if (question.isGivenUp) this.#owed.push((later) => this.#withdraw(question, later));
  }

  async #withdraw(question: Question, patience?: Patience): Promise<void> {
    if (!question.isGivenUp) return; // asked again
    const params = { path: { ask_id: question.id }, query: question.heard ? { heard: question.heard } : {} };
    await this.wire.send((api, signal) => api.POST("/api/v1/asks/{ask_id}/cancel", { params, signal }), patience);
  }
}

/** How many of these fit into one request. A step that is larger goes alone, and the dashboard refuses it. */
function fitting(steps: Recorded[]): number {
  let room = BATCH_BYTES;
  const encoder = new TextEncoder();
  const over = steps.slice(0, STEPS_PER_BATCH).findIndex((step) => {
    room -= encoder.encode(JSON.stringify(step)).length + 1;
    return room < 0;
  });
  return over < 0 ? Math.min(steps.length, STEPS_PER_BATCH) : Math.max(over, 1);
}

function same(one: Schemas["AskOpen"], other: Schemas["AskOpen"]): boolean {
  const sorted = (body: Schemas["AskOpen"]): string => JSON.stringify(Object.entries(body).sort(([a], [b]) => (a < b ? -1 : 1)));
  return sorted(one) === sorted(other);
}

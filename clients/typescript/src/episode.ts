/** One episode at the dashboard: its steps, its questions, its end. Calls keep their order, whoever makes them. */

import type { components } from "./api.js";
import { Refused, Unreachable } from "./errors.js";
import { type AskBody, type AskView, type Heard, Outbox, type Question, type Step } from "./outbox.js";
import { TIMER_MAX_S, type Wire, now, sleep } from "./wire.js";

const POLL_S = 25;
/** Seconds after the deadline in which the dashboard can say what came of it; then the loop goes on alone. */
const GRACE_S = 1.5;
const RECEIPT_S = 1;
const LEAVE_S = 2;
const PAUSE_S = 0.5;

type Schemas = components["schemas"];
export type Advice = Schemas["Advice"];
export type ProposedCall = Omit<Schemas["ProposedCall"], "id"> & { id?: string };
export type AskFields = Partial<Omit<AskBody, "question">> & { signal?: AbortSignal };
export type ApproveFields = Omit<AskFields, "kind" | "calls"> & { question?: string };
/** What was decided on a call. Without a decision it is rejected: silence approves nothing. */
export interface Verdict {
  id: string;
  verdict: "approve" | "edit" | "reject";
  /** The arguments that run. */
  arguments: Record<string, unknown>;
  reason: string;
  by: "person" | "model" | "standing" | "timeout";
}
type End = Schemas["Finish"];

export class Episode {
  readonly #outbox: Outbox;

  constructor(
    readonly wire: Wire,
    readonly id: string,
    readonly url: string,
    lastSeq: number,
  ) {
    this.#outbox = new Outbox(wire, id, lastSeq);
  }

  /** The last step number given out. */
  get lastSeq(): number {
    return this.#outbox.lastSeq;
  }

  /** Record one step or many; returns the last number that is stored. */
  async append(steps: Step | Step[]): Promise<number> {
    const batch = this.#outbox.putSteps([steps].flat());
    await this.#outbox.flush();
    if (batch.error) throw batch.error;
    return this.#outbox.acknowledged;
  }

  /**
   * Ask the experts and wait, at most 2 s longer than `deadline_s` (300). Without an answer the advice is a fallback,
   * `local` if this client had to decide it alone. The same `key` and question again is the same ask.
   */
  async ask(question: string, fields: AskFields = {}): Promise<Advice> {
    const { signal, ...more } = fields;
    const body = { key: crypto.randomUUID(), deadline_s: 300, ...more, question };
    const asked = this.#outbox.putQuestion(body);
    const limit = new Limit(body.deadline_s + GRACE_S, signal);
    try {
      await this.#open(asked, limit.signal);
      return await this.#lastWord(asked.id, asked.view, limit.signal);
    } catch (error) {
      if (!limit.isOver) {
        this.#outbox.giveUp(asked);
        throw error;
      }
    } finally {
      limit.clear();
    }
    const heard = asked.id ? "deadline" : "unreachable";
    this.#outbox.giveUp(asked, heard);
    return unanswered(heard, body);
  }

  /** Ask for an approval of calls; returns what was decided on each, in their order. */
  async approve(calls: ProposedCall | ProposedCall[], fields: ApproveFields = {}): Promise<Verdict[]> {
    const proposed = [calls].flat().map((call, at) => ({ ...call, id: call.id ?? String(at + 1) }));
    const { question = `May the agent call ${proposed.map((call) => call.name).join(", ")}?`, ...more } = fields;
    return verdicts(proposed, await this.ask(question, { on_timeout: "reject", ...more, kind: "approval", calls: proposed }));
  }

  /** Wait for an ask that this episode opened before, by its ID: after a restart, in place of asking again. */
  async wait(ask: string, fields: AskFields = {}): Promise<Advice> {
    const limit = new Limit((fields.deadline_s ?? 300) + GRACE_S, fields.signal);
    try {
      return await this.#lastWord(ask, { status: "open" }, limit.signal);
    } catch (error) {
      if (!limit.isOver) throw error;
      return unanswered("deadline", fields);
    } finally {
      limit.clear();
    }
  }

  async #open(asked: Question, signal: AbortSignal): Promise<void> {
    while (!asked.id && !asked.error) {
      try {
        await Promise.race([this.#outbox.flush({ signal }), aborted(signal)]);
      } catch (error) {
        if (!(error instanceof Unreachable)) throw error;
        await sleep(PAUSE_S, signal);
      }
    }
    if (asked.error) throw asked.error;
  }

  async #lastWord(ask: string, first: AskView, signal: AbortSignal): Promise<Advice> {
    for (let view = first; ; ) {
      while (view.status === "open") view = await this.#poll(ask, signal);
      const receipt = await this.#receipt(ask, signal);
      // An expert can change an answer until it is read, and undo it.
      if (receipt?.status !== "open") return adviceOf(receipt?.advice ? receipt : view);
      view = receipt;
    }
  }

  async #poll(ask: string, signal: AbortSignal): Promise<AskView> {
    const params = { path: { ask_id: ask }, query: { wait: POLL_S } };
    const start = now();
    try {
      const patience = { retryS: Number.POSITIVE_INFINITY, readS: POLL_S + 10, signal };
      const { data } = await this.wire.send(
        (api, limit) => api.GET("/api/v1/asks/{ask_id}", { params, signal: limit }), patience,
      ); // prettier-ignore
      if (data.status === "open" && now() - start < PAUSE_S) await sleep(PAUSE_S, signal);
      return data;
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      return { status: "cancelled", reason: error.code };
    }
  }

  /** Say that the agent reads the answer now, which makes it final. */
  async #receipt(ask: string, signal: AbortSignal): Promise<AskView | undefined> {
    const params = { path: { ask_id: ask } };
    try {
      const call = await this.wire.send(
        (api, limit) => api.POST("/api/v1/asks/{ask_id}/consumed", { params, signal: limit }),
        { retryS: 0, readS: RECEIPT_S, signal },
      );
      return call.data;
    } catch (error) {
      if (error instanceof Refused) return error.code === "still_open" ? { status: "open" } : undefined;
      if (!(error instanceof Unreachable)) throw error;
      this.#outbox.oweReceipt(ask);
      return undefined;
    }
  }

  /** Send what is owed, for two seconds at most: no one asks in this episode again. */
  async leave(): Promise<void> {
    const patience = { retryS: LEAVE_S, signal: AbortSignal.timeout(LEAVE_S * 1000) };
    await Promise.race([this.#outbox.flush(patience), aborted(patience.signal)]).catch(() => undefined);
  }

  /** The recorded steps above `since`: a loop that starts again goes on from them. */
  async steps(since = 0): Promise<Record<string, unknown>[]> {
    const recorded: Record<string, unknown>[] = [];
    for (;;) {
      const params = { path: { episode_id: this.id }, query: { since } };
      const { data } = await this.wire.send((api, signal) => api.GET("/api/v1/episodes/{episode_id}/steps", { params, signal }));
      recorded.push(...data.steps);
      if (!data.more) return recorded;
      since = Number(recorded.at(-1)?.["seq"]);
    }
  }

  /** The episode's state at the dashboard. */
  async view(): Promise<Schemas["EpisodeView"]> {
    const params = { path: { episode_id: this.id } };
    return (await this.wire.send((api, signal) => api.GET("/api/v1/episodes/{episode_id}", { params, signal }))).data;
  }

  /** For long pauses; any other call of the episode counts as one. */
  async heartbeat(): Promise<void> {
    const params = { path: { episode_id: this.id } };
    await this.wire.send((api, signal) => api.POST("/api/v1/episodes/{episode_id}/heartbeat", { params, signal }), { retryS: 0 });
  }

  /** Say why the loop ended. An `outcome` is your own judgment. The same again changes nothing. */
  async finish(stop_reason: End["stop_reason"], more: Omit<End, "stop_reason"> = {}): Promise<void> {
    await this.#outbox.flush();
    const call = { params: { path: { episode_id: this.id } }, body: { ...more, stop_reason } };
    await this.wire.send((api, signal) => api.POST("/api/v1/episodes/{episode_id}/finish", { ...call, signal }));
  }
}

/** Ends after some seconds, or with the caller's own signal. */
class Limit {
  readonly #timer = new AbortController();
  readonly #end: number;
  readonly signal: AbortSignal;
  #armed: ReturnType<typeof setTimeout> | undefined;

  constructor(seconds: number, outer?: AbortSignal) {
    this.#end = now() + seconds;
    this.signal = outer ? AbortSignal.any([outer, this.#timer.signal]) : this.#timer.signal;
    this.#arm();
  }

  get isOver(): boolean {
    return this.#timer.signal.aborted;
  }

  #arm(): void {
    const left = this.#end - now();
    if (left <= 0) this.#timer.abort(new Unreachable("deadline"));
    else this.#armed = setTimeout(() => this.#arm(), Math.ceil(Math.min(left, TIMER_MAX_S) * 1000));
  }

  clear(): void {
    clearTimeout(this.#armed);
  }
}

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}

function adviceOf(view: AskView): Advice {
  const { advice } = view;
  if (view.status === "cancelled" || !advice)
    return { text: "", source: "fallback", reason: view.reason ?? view.status };
  return { ...advice, reason: advice.reason ?? view.reason ?? null, local: false };
}

/** What an agent gets whose client has to go on alone: of a typed ask, what silence means. */
function unanswered(heard: Heard, { kind, calls, on_timeout }: Partial<AskBody>): Advice {
  const fallback: Advice = { text: "", source: "fallback", reason: heard, local: true };
  if (kind === undefined || kind === "question") return fallback;
  const alone: Advice = { ...fallback, by: "timeout" };
  if (on_timeout === "reject") return { ...alone, decision: { calls: (calls ?? []).map(rejected) } };
  if (typeof on_timeout !== "object" || on_timeout === null) return alone;
  const value: unknown = on_timeout.value;
  const decision = kind === "form" ? { value } : { chosen: [value].flat() };
  return { ...alone, decision: decision as NonNullable<Advice["decision"]> };
}

const rejected = (call: Schemas["ProposedCall"]) => ({
  id: call.id,
  verdict: "reject" as const,
  arguments: call.arguments ?? {},
  reason: "no decision before the deadline",
});

export function verdicts(calls: Schemas["ProposedCall"][], advice: Advice): Verdict[] {
  const made = advice.decision && "calls" in advice.decision ? (advice.decision.calls ?? []) : [];
  const by = made.length ? (advice.by ?? "person") : "timeout";
  return calls.map((call) => {
    const decided = made.find((verdict) => verdict.id === call.id) ?? rejected(call);
    return { ...decided, arguments: decided.arguments ?? call.arguments ?? {}, reason: decided.reason ?? "", by };
  });
}

/**
 * Pauses of a framework's agent, decided at the desk.
 *
 * Nothing is kept here: a process that starts again names the same thread, run and pause, and finds the same ask.
 */

import type { components } from "./api.js";
import type { Desk } from "./desk.js";
import { type Verdict, verdicts } from "./episode.js";

const POLL_S = 25;
const DAY_S = 86_400;

type Schemas = components["schemas"];
type Entry = Schemas["ResumeEntry"];

/** One pause, by the framework's own ID. `typed` is a typed ask: `{ kind: "approval", calls }`. */
export interface Pause {
  id: string;
  message: string;
  typed?: Record<string, unknown>;
}

/** What was decided on a pause. Without a decision nothing is approved. */
export interface Decision {
  entry: Entry;
  /** What was decided on each call of an approval. */
  calls: Verdict[];
  /** What any other pause gets: the words, or the decision, or that there is none. */
  answer: unknown;
}

export class Pauses {
  #run: Promise<string> | undefined;

  /** `run` is the name of the run that collects the threads; a pause waits `deadlineS` (a day). */
  constructor(
    readonly desk: Desk,
    readonly run: string,
    readonly options: { deadlineS?: number; client?: string } = {},
  ) {}

  /** Wait until each pause of a run of a thread is decided. */
  async decide(thread: string, run: string, pauses: Pause[]): Promise<Decision[]> {
    const interrupts = pauses.map(({ id, message, typed }) => ({
      id,
      reason: typed?.["kind"] === "approval" ? "tool_call" : "input_required",
      message,
      ...(typed ? { metadata: { awmweb: typed } } : {}),
    }));
    for (;;) {
      const view = await this.#send(thread, run, { outcome: { type: "interrupt", interrupts } });
      const entries = view.resume;
      if (entries) return pauses.map((pause) => decisionOf(pause, entries.find((entry) => entry.interruptId === pause.id)!));
      await Promise.race(view.interrupts.flatMap(({ ask, resume }) => (ask && !resume ? [this.#closed(ask)] : [])));
    }
  }

  /** Confirm decisions after the framework acted on them. The same again changes nothing. */
  async taken(thread: string, decided: Decision[]): Promise<void> {
    if (decided.length) await this.#send(thread, "", { resume: decided.map((decision) => decision.entry) });
  }

  async #send(thread: string, run: string, about: Pick<Schemas["RunInterrupts"], "outcome" | "resume">) {
    this.#run ??= this.desk.startRun(this.run, { key: `pauses:${this.run}` });
    const { deadlineS = DAY_S, client = "TypeScript" } = this.options;
    const names = { threadId: thread, runId: run || "run", task: `Thread ${thread}`.slice(0, 200), client };
    const call = { params: { path: { run_id: await this.#run } }, body: { ...names, deadlineS, ...about } };
    return (await this.desk.wire.send((api, signal) => api.POST("/api/v1/runs/{run_id}/interrupts", { ...call, signal }))).data;
  }

  /** One long poll; the next look at the thread sees what came of it. */
  async #closed(ask: string): Promise<void> {
    const params = { path: { ask_id: ask }, query: { wait: POLL_S } };
    await this.desk.wire.send((api, signal) => api.GET("/api/v1/asks/{ask_id}", { params, signal }), { readS: POLL_S + 10 });
  }
}

function decisionOf(pause: Pause, entry: Entry): Decision {
  const about = (entry.metadata?.["awmweb"] ?? {}) as { by?: Verdict["by"]; decision?: never; text?: string; reason?: string };
  const proposed = (pause.typed?.["calls"] ?? []) as Schemas["ProposedCall"][];
  const advice = { text: "", source: "human" as const, decision: about.decision ?? null, by: about.by ?? null };
  const none = { status: "no_advice", reason: about.reason ?? "deadline" };
  return { entry, calls: verdicts(proposed, advice), answer: entry.status === "resolved" ? entry.payload : none };
}

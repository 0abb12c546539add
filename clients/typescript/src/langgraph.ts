/**
 * Interrupts of LangGraph.js, decided at the desk: `await runGraph(pauses, graph, input, config)`.
 *
 * The calls of LangChain's `humanInTheLoopMiddleware` get its decisions, a typed ask its decision, and any other value
 * the words of the answer.
 */

import { Command } from "@langchain/langgraph";
import type { Verdict } from "./episode.js";
import type { Decision, Pause, Pauses } from "./pauses.js";

interface Interrupt {
  id?: string;
  value?: unknown;
}

/** What is used of a compiled graph, which needs a checkpointer. */
export interface Graph<Result> {
  // biome-ignore lint: a graph's own input type cannot be named here
  invoke(input: any, config: any): Promise<Result>;
  getState(config: any): Promise<{ tasks: readonly { interrupts: readonly Interrupt[] }[]; next: readonly string[] }>;
}

interface Config {
  configurable: { thread_id: string; [name: string]: unknown };
}

/** Run a graph until it pauses no more. A thread that is paused goes on, and its input is not read. */
export async function runGraph<Result>(pauses: Pauses, graph: Graph<Result>, input: unknown, config: Config): Promise<Result> {
  const thread = config.configurable.thread_id;
  let paused = await interruptsOf(graph, config);
  let result: Result | undefined;
  if (!paused.length) {
    const isInside = (await graph.getState(config)).next.length > 0;
    result = await graph.invoke(isInside ? null : input, config);
    paused = await interruptsOf(graph, config);
  }
  while (paused.length) {
    const decided = await pauses.decide(thread, thread, paused.map(pauseOf));
    const answers = Object.fromEntries(paused.map((one, at) => [one.id, answerTo(one.value, decided[at]!)]));
    result = await graph.invoke(new Command({ resume: answers }), config);
    await pauses.taken(thread, decided);
    paused = await interruptsOf(graph, config);
  }
  return result as Result;
}

async function interruptsOf(graph: Graph<unknown>, config: Config): Promise<(Interrupt & { id: string })[]> {
  const { tasks } = await graph.getState(config);
  return tasks.flatMap((task) => task.interrupts.map((interrupt) => ({ ...interrupt, id: String(interrupt.id) })));
}

interface Review {
  actionRequests: { name: string; args: Record<string, unknown>; description?: string }[];
  reviewConfigs?: { actionName: string; allowedDecisions: string[] }[];
}

function pauseOf({ id, value }: Interrupt & { id: string }): Pause {
  if (isReview(value)) {
    const calls = value.actionRequests.map(({ name, args }, at) => {
      const call = { id: String(at + 1), name, arguments: args };
      const allowed = value.reviewConfigs?.find((config) => config.actionName === name)?.allowedDecisions;
      // No edit fits then, so the desk refuses one: the graph could not take it.
      return allowed && !allowed.includes("edit") ? { ...call, schema: { const: args } } : call;
    });
    const words = value.actionRequests.map((action) => action.description ?? "").join("\n\n").trim();
    return { id, message: words || "May the agent make these calls?", typed: { kind: "approval", calls } };
  }
  if (typeof value === "object" && value !== null && "kind" in value) {
    const typed = value as Record<string, unknown>;
    return { id, message: String(typed["question"] ?? typed["message"] ?? "The graph paused."), typed };
  }
  return { id, message: typeof value === "string" ? value : JSON.stringify(value ?? "The graph paused.") };
}

function isReview(value: unknown): value is Review {
  return typeof value === "object" && value !== null && "actionRequests" in value;
}

function answerTo(value: unknown, decided: Decision): unknown {
  if (!isReview(value)) return decided.answer;
  return { decisions: value.actionRequests.map((action, at) => decisionOf(action.name, decided.calls[at]!)) };
}

function decisionOf(name: string, { verdict, reason, arguments: args }: Verdict): Record<string, unknown> {
  if (verdict === "approve") return { type: "approve" };
  if (verdict === "edit") return { type: "edit", editedAction: { name, args } };
  return { type: "reject", message: reason || "A person rejected this call." };
}

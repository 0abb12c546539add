/**
 * The AI SDK's tool approval, decided at the desk: `toolApproval: approvals(pauses, thread, ["pay"])`.
 *
 * The SDK makes a call as the model wrote it, so the desk refuses edits; a rejection says what to call instead.
 */

import type { ModelMessage, ToolApprovalResponse, ToolApprovalStatus } from "ai";
import type { Pause, Pauses } from "./pauses.js";

interface Call {
  toolCallId: string;
  toolName: string;
  input: unknown;
}

/** A `toolApproval` that waits inside the generation. Tools that are not named run without approval. */
export function approvals(pauses: Pauses, thread: string, tools?: string[]) {
  // Some models number their calls in each generation from the start, so an ID names a call only here.
  const generation = crypto.randomUUID();
  return async ({ toolCall }: { toolCall: Call }): Promise<ToolApprovalStatus> => {
    if (tools && !tools.includes(toolCall.toolName)) return "not-applicable";
    const [decided] = await pauses.decide(thread, thread, [pauseOf(toolCall, generation)]);
    const [verdict] = decided!.calls;
    return verdict!.verdict === "approve" ? "approved" : { type: "denied", reason: verdict!.reason };
  };
}

/**
 * For `toolApproval: { pay: "user-approval" }`: the message to add after a generation whose content asks for approvals;
 * undefined if it asks for none. A process that starts again with the same messages finds the same decisions.
 */
export async function responses(
  pauses: Pauses,
  thread: string,
  content: readonly { type: string }[],
): Promise<ModelMessage | undefined> {
  const asked = content.filter(isRequest);
  if (!asked.length) return undefined;
  const decided = await pauses.decide(thread, thread, asked.map((request) => pauseOf(request.toolCall, request.approvalId)));
  const answers = asked.map(({ approvalId }, at): ToolApprovalResponse => {
    const [verdict] = decided[at]!.calls;
    return { type: "tool-approval-response", approvalId, approved: verdict!.verdict === "approve", reason: verdict!.reason };
  });
  return { role: "tool", content: answers };
}

interface Request {
  type: string;
  approvalId: string;
  toolCall: Call;
  isAutomatic?: boolean;
}

function isRequest(part: { type: string }): part is Request {
  return part.type === "tool-approval-request" && !(part as Request).isAutomatic;
}

function pauseOf({ toolCallId, toolName, input }: Call, scope: string): Pause {
  const call = { id: "1", name: toolName, arguments: input, schema: { const: input } };
  return { id: `${scope} ${toolCallId}`, message: `May the agent call ${toolName}?`, typed: { kind: "approval", calls: [call] } };
}

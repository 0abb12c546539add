/** What the desk does without an episode of one's own, and what frameworks' pauses become: real `ai` and LangGraph.js. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { END, interrupt, MemorySaver, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { generateText, isStepCount, jsonSchema, tool } from "ai";
import { MockLanguageModelV4 } from "ai/test";
import { Desk, Pauses, Refused } from "awmclient";
import { approvals, responses } from "awmclient/ai-sdk";
import { runGraph } from "awmclient/langgraph";

const { AWMWEB_URL: url, AWMWEB_TOKEN: token, SESSION: session } = process.env;
const desk = new Desk({ url, token });
const PATIENCE = { deadline_s: 120 };

test("a key is one ask in any process, and its answer", async () => {
  const fields = { ...PATIENCE, key: `${session}:alone`, task: `Alone ${session}` };
  const first = await desk.ask("Which tea?", fields);
  const again = await new Desk({ url, token }).ask("Which tea?", fields);
  assert.equal(first.text, "Oolong.");
  assert.equal(again.text, "Oolong.");
  await assert.rejects(desk.ask("Which cup?", fields), (error) => error instanceof Refused && error.code === "key_conflict");
});

test("an approval without an episode", async () => {
  const call = { name: "brew", arguments: { cups: 9 } };
  const fields = { ...PATIENCE, key: `${session}:brew`, question: "May I brew?", task: `Brew ${session}` };
  const [verdict] = await desk.approve(call, fields);
  assert.deepEqual([verdict.verdict, verdict.arguments, verdict.by], ["edit", { cups: 2 }, "person"]);
  assert.deepEqual(await desk.approve(call, fields), [verdict]);
  const other = desk.approve({ ...call, arguments: { cups: 900 } }, fields);
  await assert.rejects(other, (error) => error instanceof Refused && error.code === "key_conflict");
});

test("finished episodes go in one call", async () => {
  const whole = { episode: { key: `${session}:whole`, task: `Whole ${session}` }, steps: [], finish: { stop_reason: "done" } };
  const [first, bad] = await desk.recordWhole([whole, { ...whole, finish: { stop_reason: "?" } }]);
  const [again] = await desk.recordWhole([whole]);
  assert.equal(first.known, false);
  assert.equal(again.known, true);
  assert.ok(bad.error.code);
});

const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
const said = (content, unified) => ({ content, finishReason: { unified, raw: unified }, usage, warnings: [] });
const pays = (item) => said([{ type: "tool-call", toolCallId: `call-${item}`, toolName: "pay", input: JSON.stringify({ item }) }], "tool-calls");
const ends = said([{ type: "text", text: "Done." }], "stop");

function paying(paid) {
  const inputSchema = jsonSchema({ type: "object", properties: { item: { type: "string" } } });
  const execute = async ({ item }) => paid.push(item) && `paid ${item}`;
  return { pay: tool({ description: "Pay.", inputSchema, execute }) };
}

test("the AI SDK waits for its approvals inside a generation", async () => {
  const paid = [];
  const model = new MockLanguageModelV4({ doGenerate: [pays("milk"), pays("gold"), ends] });
  const toolApproval = approvals(new Pauses(desk, `ai ${session}`), `inside ${session}`, ["pay"]);
  const result = await generateText({ model, tools: paying(paid), toolApproval, prompt: "Pay", stopWhen: isStepCount(4) });
  assert.deepEqual(paid, ["milk"]);
  assert.equal(result.text, "Done.");
  assert.match(JSON.stringify(model.doGenerateCalls[2].prompt), /Too dear\./);
});

test("an approval in the AI SDK is of one call, also where a model uses its ID again", async () => {
  const calls = ["milk", "gold"].map((item) => ({ toolCallId: "call-1", toolName: "pay", input: { item } }));
  const pauses = new Pauses(desk, `ai ${session}`);
  const [milk, gold] = calls.map((toolCall) => approvals(pauses, `again ${session}`)({ toolCall }));
  assert.equal(await milk, "approved");
  assert.equal((await gold).type, "denied");
  const content = calls.map((toolCall, at) => ({ type: "tool-approval-request", approvalId: `${at}`, toolCall }));
  const decided = await responses(pauses, `again ${session}`, content);
  assert.deepEqual(decided.content.map(({ approved }) => approved), [true, false]);
});

test("the AI SDK goes on after a user approval, with the same decision again", async () => {
  const paid = [];
  const model = new MockLanguageModelV4({ doGenerate: [pays("milk"), ends] });
  const about = { model, tools: paying(paid), toolApproval: { pay: "user-approval" } };
  const messages = [{ role: "user", content: "Pay" }];
  const asked = await generateText({ ...about, messages });
  const pauses = new Pauses(desk, `ai ${session}`);
  const answer = await responses(pauses, `user ${session}`, asked.content);
  assert.deepEqual(await responses(new Pauses(desk, `ai ${session}`), `user ${session}`, asked.content), answer);
  const result = await generateText({ ...about, messages: [...messages, ...asked.responseMessages, answer] });
  assert.deepEqual([paid, result.text], [["milk"], "Done."]);
});

test("LangGraph.js goes on with what was decided", async () => {
  const seen = [];
  const review = { actionRequests: [{ name: "pay", args: { item: "milk" } }, { name: "pay", args: { item: "gold" } }] };
  const node = () => {
    seen.push(interrupt("Which tea?"), interrupt({ kind: "choice", question: "Which cup?", options: [{ id: "big", label: "Big" }] }));
    seen.push(interrupt(review));
    return { messages: [] };
  };
  const graph = new StateGraph(MessagesAnnotation).addNode("node", node).addEdge(START, "node").addEdge("node", END)
    .compile({ checkpointer: new MemorySaver() });
  const config = { configurable: { thread_id: `graph ${session}` } };
  await runGraph(new Pauses(desk, `graph ${session}`), graph, { messages: [] }, config);
  const [tea, cup, { decisions }] = seen.slice(-3);
  assert.deepEqual([tea, cup], ["Oolong.", { chosen: ["big"] }]);
  assert.deepEqual(decisions, [{ type: "approve" }, { type: "reject", message: "Too dear." }]);
});

"""The plugin that OpenCode loads: it runs the hook for each event, and replies to a prompt what the hook prints.

OpenCode 1.18 declares a hook `permission.ask` and never calls it. So the plugin hears the event of a prompt and uses
the reply of OpenCode's own API, which does nothing for a prompt that the terminal has answered.
"""

from __future__ import annotations

import json

PLUGIN = r"""// Written by: awmclient hook install opencode. It runs: awmclient hook run opencode
import { spawn, spawnSync } from "node:child_process"

const COMMAND = __COMMAND__
const calls = new Map() // what a prompt's call is, by its ID
const waiting = new Map() // the hooks that wait for an answer, by the prompt's ID
const due = new Set() // prompts that wait for what is recorded before them, by their ID
const rejected = new Set() // calls that the desk has rejected, which are recorded already
const sessions = new Set()
let queue = Promise.resolve()

export const Awmclient = async ({ client, directory }) => {
  const about = (name, session, more) =>
    JSON.stringify({ hook_event_name: name, session_id: session, cwd: directory, ...more })

  // Resolves with what the hook printed; whatever fails is no answer
  const run = (text, started) =>
    new Promise((resolve) => {
      let printed = ""
      try {
        const child = spawn(COMMAND[0], COMMAND.slice(1), { stdio: ["pipe", "pipe", "ignore"] })
        child.on("error", () => resolve(""))
        child.on("close", () => resolve(printed))
        child.stdout.on("data", (part) => (printed += part))
        child.stdin.on("error", () => resolve(""))
        child.stdin.end(text)
        started?.(child)
      } catch {
        resolve("")
      }
    })

  // One after another, so that steps keep their order; the session does not wait for them
  const record = (name, session, more) => {
    if (name !== "SessionEnd") sessions.add(session)
    queue = queue.then(() => run(about(name, session, more)))
    return queue
  }

  const asked = async (prompt) => {
    due.add(prompt.id)
    await queue
    // the terminal was first
    if (!due.delete(prompt.id)) return
    const call = calls.get(prompt.tool?.callID)
    const text = about("PermissionRequest", prompt.sessionID, {
      tool_name: call?.tool ?? prompt.permission,
      tool_input: call?.args ?? { ...prompt.metadata, patterns: prompt.patterns },
      tool_use_id: prompt.tool?.callID,
    })
    sessions.add(prompt.sessionID)
    const printed = await run(text, (child) => waiting.set(prompt.id, child))
    if (!waiting.delete(prompt.id) || !printed) return
    const answer = JSON.parse(printed)
    if (answer.reply === "reject" && prompt.tool) rejected.add(prompt.tool.callID)
    await client._client.post({
      url: "/permission/{requestID}/reply",
      path: { requestID: prompt.id },
      body: answer,
      headers: { "Content-Type": "application/json" },
    })
  }

  const said = async (session) => {
    const { data } = await client.session.messages({ path: { id: session } })
    const last = (data ?? []).filter((one) => one.info.role === "assistant").at(-1)
    const text = (last?.parts ?? []).filter((one) => one.type === "text").map((one) => one.text)
    record("Stop", session, { last_assistant_message: text.join("\n") })
  }

  const ended = (part) => {
    const { tool, callID, sessionID, state } = part
    if (part.type !== "tool" || state.status !== "error" || !calls.delete(callID)) return
    if (rejected.delete(callID)) return
    const more = { tool_name: tool, tool_input: state.input, tool_use_id: callID, error: state.error }
    record("PostToolUseFailure", sessionID, more)
  }

  const handlers = {
    "permission.asked": (one) => asked(one),
    "permission.replied": (one) => {
      due.delete(one.requestID)
      const child = waiting.get(one.requestID)
      // the terminal was first
      if (waiting.delete(one.requestID)) child.kill("SIGUSR1")
    },
    "message.part.updated": (one) => ended(one.part),
    "session.idle": (one) => sessions.has(one.sessionID) && said(one.sessionID),
  }

  const dispose = async () => {
    for (const session of sessions) record("SessionEnd", session)
    sessions.clear()
    await queue
  }

  process.once("exit", () => {
    for (const child of waiting.values()) child.kill("SIGTERM")
    for (const session of sessions)
      spawnSync(COMMAND[0], COMMAND.slice(1), { input: about("SessionEnd", session), timeout: 5000 })
    sessions.clear()
  })

  return {
    dispose,
    event: async ({ event }) => {
      // not awaited: a prompt can wait for hours
      Promise.resolve(handlers[event.type]?.(event.properties)).catch(() => {})
    },
    "chat.message": async (input, output) => {
      const text = output.parts.filter((one) => one.type === "text" && !one.synthetic).map((one) => one.text)
      record("UserPromptSubmit", input.sessionID, { prompt: text.join("\n") })
    },
    "tool.execute.before": async (input, output) => {
      calls.set(input.callID, { tool: input.tool, args: output.args })
    },
    "tool.execute.after": async (input, output) => {
      calls.delete(input.callID)
      const call = { tool_name: input.tool, tool_input: input.args, tool_use_id: input.callID }
      record("PostToolUse", input.sessionID, { ...call, tool_response: output.output })
    },
  }
}
"""


def plugin_of(command: list[str]) -> str:
    """Return the plugin that runs this command."""
    return PLUGIN.replace("__COMMAND__", json.dumps(command))

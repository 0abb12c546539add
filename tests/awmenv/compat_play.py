"""Run by test_compat in an environment where one distribution of openenv is first on the path.

Drives a server with its clients.
"""

import asyncio
import json
import sys
from typing import Any

sys.modules["gradio"] = None  # type: ignore[assignment]

import openenv  # noqa: E402
from openenv.core.env_server.mcp_types import CallToolAction, ListToolsAction  # noqa: E402
from openenv.core.generic_client import GenericEnvClient  # noqa: E402
from openenv.core.mcp_client import MCPToolClient  # noqa: E402


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "call_tool", "tool_name": name, "arguments": arguments}


async def with_generic_client(url: str) -> dict[str, Any]:
    async with GenericEnvClient(base_url=url) as env:
        started = await env.reset(scenario="Notes 1", task_idx=0)
        listed = await env.step({"type": "list_tools"})
        made = await env.step(call("create_note", title="Milk"))
        code = await env.step(call("verify"))
        sql = await env.step(call("verify", verifier_mode="sql"))
        ended = await env.step(call("done"))
        scenarios = await env.step(call("__list_scenarios__"))
        state = await env.state()
        return {
            "reset": started.observation["reward_type"],
            "tools": len(listed.observation["tools"]),
            "call": [made.observation["reward_type"], made.reward],
            "verify": [code.observation["reward_type"], code.reward, code.done],
            "sql": sql.observation["reward_type"],
            "done": [ended.observation["reward_type"], ended.done],
            "scenarios": scenarios.observation["total"],
            "steps": state["step_count"] if isinstance(state, dict) else state.step_count,
        }


async def with_tool_client(url: str) -> dict[str, Any]:
    """0.3's plain tool client drops AWM's own fields; that its calls arrived is told by the count of steps."""
    async with MCPToolClient(base_url=url) as env:
        started = await env.reset(scenario="notes_1", task_idx=0)
        tools = await env.list_tools()
        await env.call_tool("create_note", title="Milk")
        listed = await env.step(ListToolsAction())
        read = await env.step(CallToolAction(tool_name="list_labels", arguments={}))
        before_verify = await env.state()
        await env.step(CallToolAction(tool_name="verify", arguments={}))
        return {
            "reset_done": started.done,
            "tools": [tool.name for tool in tools][:2],
            "schema": tools[1].input_schema["required"],
            "step_tools": len(listed.observation.tools),
            "step_call": getattr(read.observation, "tool_name", None),
            "counted": before_verify.step_count >= 3,
        }


def main() -> None:
    url = sys.argv[1]
    found = {
        "from": openenv.__file__,
        "generic": asyncio.run(with_generic_client(url)),
        "tools": asyncio.run(with_tool_client(url)),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()

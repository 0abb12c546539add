"""What the desk's MCP server offers: its three tools as their callers see them, and two of them as tasks.

Owns their names, schemas and descriptions. Leaves what a call does to `server` and `sessions`.
"""

from __future__ import annotations

from mcp import types

from awmclient.nouns.typed import CALLS_MAX
from awmclient.schema import ASK_SPEC, ASK_TOOL, MAX_DEADLINE_S
from experts.mcp import sessions

TOOL = types.Tool(
    name=ASK_TOOL,
    title="Ask an expert",
    description=ASK_SPEC.description,
    inputSchema={
        **ASK_SPEC.input_schema,
        "properties": {
            **ASK_SPEC.input_schema["properties"],
            "deadline_s": {
                "type": "integer",
                "minimum": 1,
                "maximum": MAX_DEADLINE_S,
                "description": "seconds after which an answer is of no use any more; 300 if left out",
            },
        },
        "additionalProperties": False,
    },
    outputSchema={
        "type": "object",
        "properties": {
            "status": {"enum": ["advice", "no_advice"]},
            "advice": {"type": "string"},
            "tool_calls": {"type": "array", "items": {"type": "object"}},
            "reason": {"type": "string", "description": "why there is no advice"},
        },
        "required": ["status"],
    },
    annotations=types.ToolAnnotations(destructiveHint=False, openWorldHint=True),
)
_DEADLINE = TOOL.inputSchema["properties"]["deadline_s"]
APPROVAL = types.Tool(
    name=sessions.APPROVAL_TOOL,
    title="Request an approval",
    description=(
        "Ask a person to approve tool calls before you make them. Each comes back approved, edited or rejected. Make"
        " only calls that are approved or edited, with the arguments that come back."
    ),
    inputSchema={
        "type": "object",
        "properties": {
            "calls": {
                "type": "array",
                "minItems": 1,
                "maxItems": CALLS_MAX,
                "items": {
                    "type": "object",
                    "properties": {
                        "id": {"type": "string"},
                        "name": {"type": "string", "description": "the tool"},
                        "arguments": {"type": "object"},
                        "schema": {"type": "object", "description": "JSON Schema of the arguments"},
                        "reason": {"type": "string", "description": "why the call is needed"},
                    },
                    "required": ["name", "arguments"],
                    "additionalProperties": False,
                },
            },
            "question": {"type": "string"},
            "context": {"type": "string"},
            "deadline_s": _DEADLINE,
            "on_timeout": {"enum": ["reject", "no_advice"]},
        },
        "required": ["calls"],
        "additionalProperties": False,
    },
    outputSchema={
        "type": "object",
        "properties": {
            "status": {"enum": ["decided", "no_advice"]},
            "by": {"enum": ["person", "model", "standing", "timeout"]},
            "decision": {"type": "object", "description": "of each call: id, verdict, arguments, reason"},
            "advice": {"type": "string"},
            "reason": {"type": "string", "description": "why there is no decision"},
        },
        "required": ["status"],
    },
    annotations=types.ToolAnnotations(destructiveHint=False, openWorldHint=True),
)
ELICITATION = types.Tool(
    name=sessions.ELICITATION_TOOL,
    title="Answer an elicitation",
    description=(
        "Let a person fill in what another server asks your user for (MCP elicitation). Give the message and the schema"
        " as you got them, and return the result as it comes back."
    ),
    inputSchema={
        "type": "object",
        "properties": {
            "message": {"type": "string", "description": "the elicitation's message"},
            "requested_schema": {"type": "object", "description": "its requestedSchema"},
            "context": {"type": "string"},
            "deadline_s": _DEADLINE,
        },
        "required": ["message", "requested_schema"],
        "additionalProperties": False,
    },
    outputSchema={
        "type": "object",
        "properties": {
            "action": {"enum": ["accept", "cancel"]},
            "content": {"type": "object", "description": "the values that a person gave, which fit the schema"},
        },
        "required": ["action"],
    },
    annotations=types.ToolAnnotations(destructiveHint=False, openWorldHint=True),
)
MAY_BE_TASKS = types.ToolExecution(taskSupport="optional")
TASK_TOOLS = [one.model_copy(update={"execution": MAY_BE_TASKS}) for one in (TOOL, APPROVAL)] + [ELICITATION]
# written out: the SDK adds it only with its own store of tasks
_OF_CALLS = types.ServerTasksRequestsCapability(tools=types.TasksToolsCapability(call=types.TasksCallCapability()))
CAN_BE_TASKS = types.ServerTasksCapability(
    list=types.TasksListCapability(), cancel=types.TasksCancelCapability(), requests=_OF_CALLS
)

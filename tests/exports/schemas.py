"""Formats of others as JSON Schemas, written from their descriptions: ATIF 1.7, OpenAI fine-tuning of November 2026."""

from __future__ import annotations


def _object(required, **properties):
    return {"type": "object", "required": required, "properties": properties, "additionalProperties": False}


TEXT, WHOLE, COUNT, ANY = {"type": "string"}, {"type": "integer"}, {"type": "integer", "minimum": 0}, {"type": "object"}
NUMBERS = {"type": "array", "items": {"type": "number"}}
TIME = {"type": "string", "format": "date-time"}

ATIF_PART = _object(
    ["type"],
    type={"enum": ["text", "image"]},
    text=TEXT,
    source=_object(["media_type", "path"], media_type=TEXT, path=TEXT),
)
ATIF_CONTENT = {"anyOf": [TEXT, {"type": "array", "items": ATIF_PART}]}
ATIF_METRICS = _object(
    [],
    prompt_tokens=COUNT,
    completion_tokens=COUNT,
    cached_tokens=COUNT,
    cost_usd={"type": "number"},
    prompt_token_ids={"type": "array", "items": WHOLE},
    completion_token_ids={"type": "array", "items": WHOLE},
    logprobs=NUMBERS,
    extra=ANY,
)
ATIF_CALL = _object(
    ["tool_call_id", "function_name", "arguments"], tool_call_id=TEXT, function_name=TEXT, arguments=ANY, extra=ANY
)
ATIF_SUBAGENT = {
    **_object([], trajectory_id=TEXT, session_id=TEXT, trajectory_path={"type": ["string", "null"]}, extra=ANY),
    "anyOf": [{"required": ["trajectory_id"]}, {"required": ["trajectory_path"]}],
}
ATIF_RESULT = _object(
    [],
    source_call_id={"type": ["string", "null"]},
    content=ATIF_CONTENT,
    subagent_trajectory_ref={"type": "array", "items": ATIF_SUBAGENT},
    extra=ANY,
)
ATIF_OF_AGENT = ("model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics")
ATIF_STEP = {
    **_object(
        ["step_id", "source", "message"],
        step_id={"type": "integer", "minimum": 1},
        timestamp=TIME,
        source={"enum": ["system", "user", "agent"]},
        model_name=TEXT,
        reasoning_effort={"type": ["string", "number"]},
        message=ATIF_CONTENT,
        reasoning_content=TEXT,
        tool_calls={"type": "array", "items": ATIF_CALL},
        observation=_object(["results"], results={"type": "array", "items": ATIF_RESULT}),
        metrics=ATIF_METRICS,
        is_copied_context={"type": "boolean"},
        llm_call_count=COUNT,
        extra=ANY,
    ),
    "allOf": [
        {
            "if": {"properties": {"source": {"enum": ["system", "user"]}}},
            "then": {"not": {"anyOf": [{"required": [name]} for name in ATIF_OF_AGENT]}},
        },
        {
            "if": {"properties": {"llm_call_count": {"const": 0}}, "required": ["llm_call_count"]},
            "then": {"not": {"anyOf": [{"required": ["metrics"]}, {"required": ["reasoning_content"]}]}},
        },
    ],
}
ATIF = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    **_object(
        ["schema_version", "agent", "steps"],
        schema_version={"enum": [f"ATIF-v1.{minor}" for minor in range(8)]},
        session_id=TEXT,
        trajectory_id=TEXT,
        agent=_object(
            ["name", "version"],
            name=TEXT,
            version=TEXT,
            model_name=TEXT,
            tool_definitions={"type": "array", "items": ANY},
            extra=ANY,
        ),
        steps={"type": "array", "minItems": 1, "items": ATIF_STEP},
        notes=TEXT,
        final_metrics=_object(
            [],
            total_prompt_tokens=COUNT,
            total_completion_tokens=COUNT,
            total_cached_tokens=COUNT,
            total_cost_usd={"type": "number"},
            total_steps=COUNT,
            extra=ANY,
        ),
        continued_trajectory_ref=TEXT,
        extra=ANY,
        subagent_trajectories={"type": "array", "items": {"$ref": "#"}},
    ),
}


def atif_problem(trajectory):
    """What no schema can say: steps are numbered from 1, and a result answers a call of its own step."""
    for number, step in enumerate(trajectory["steps"], start=1):
        if step["step_id"] != number:
            return f"step {number} is called {step['step_id']}"
        calls = {call["tool_call_id"] for call in step.get("tool_calls", ())}
        for result in step.get("observation", {}).get("results", ()):
            if result.get("source_call_id") is not None and result["source_call_id"] not in calls:
                return f"step {number} has a result of {result['source_call_id']}"
    return None


_NAME = {"type": "string", "pattern": r"^.{1,64}$"}
_CALL = _object(
    ["id", "type", "function"],
    id=TEXT,
    type={"const": "function"},
    function=_object(["name", "arguments"], name=TEXT, arguments=TEXT),
)
OPENAI = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    **_object(
        ["messages"],
        messages={
            "type": "array",
            "minItems": 1,
            "items": {
                "oneOf": [
                    _object(["role", "content"], role={"enum": ["system", "user"]}, content=TEXT),
                    _object(
                        ["role", "content"],
                        role={"const": "assistant"},
                        content=TEXT,
                        weight={"enum": [0, 1]},
                        tool_calls={"type": "array", "minItems": 1, "items": _CALL},
                    ),
                    _object(
                        ["role", "content", "tool_call_id"], role={"const": "tool"}, content=TEXT, tool_call_id=TEXT
                    ),
                ]
            },
        },
        tools={
            "type": "array",
            "maxItems": 128,
            "items": _object(
                ["type", "function"],
                type={"const": "function"},
                function=_object(["name", "parameters"], name=_NAME, description=TEXT, parameters=ANY),
            ),
        },
        parallel_tool_calls={"type": "boolean"},
    ),
}

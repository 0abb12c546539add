"""What a plain OpenEnv server offers an agent: its tools, or its actions as tools, and its tasks. Pure.

Everything here is a stranger's word: it is read within bounds, and what does not fit raises `BrokenServer`. Called by
`plain` and by the dashboard, which stores an offer with the run.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from awmenv.errors import BrokenServer, NothingToPlay
from awmenv.models import RESERVED_TOOLS, Tool, one_line

SEED = "seed"
"""The name of the tasks of a server without a list of tasks: `seed/7` is a reset with this seed."""
OF_ENVIRONMENT = "environment"
"""The mode of an outcome that came with the environment's own last step, in place of a verifier's."""
MAX_TOOLS, MAX_VARIANTS, MAX_SPLITS = 1000, 100, 100
OF_SUCCESS = frozenset(
    {"reward", "rewards", "reward_type", "done", "terminated", "truncated", "score", "success", "verify_result"}
)
"""Names inside an observation that tell how an episode goes: neither its agent nor a blind reviewer reads them."""
_OF_CALLS = frozenset({"metadata", "type", "tool_name", "arguments"})
_TEXTS = ("instruction", "prompt", "question", "task", "goal", "description", "text", "query")
_NOT_NAME = re.compile(r"[^a-zA-Z0-9_-]+")
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(frozen=True)
class ActionTool:
    """An action of a server as a tool: `fixed` is what its schema leaves no choice about, and is always sent."""

    tool: Tool
    fixed: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Offer:
    """What a server offers an agent. `kind` says how a call is made, `digest` covers tools and kind. `reserved` are its
    tools that are left out, because the loop uses their names."""

    kind: Literal["tools", "actions"]
    tools: tuple[Tool, ...]
    fixed: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    reserved: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        parts = [self.kind, [[one.name, one.description, one.input_schema] for one in self.tools], self.fixed]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()


def offer_of(schema: Any, listed: Sequence[Tool]) -> Offer:
    """Return what a server offers, by its answer to `/schema` and its list of tools. Raises `NothingToPlay`."""
    action, tools = action_schema(schema), _named(listed)
    reserved = tuple(sorted({one_line(tool.name, 60) for tool in listed if _is_reserved(tool)}))
    if tools and calls_tools(action):
        return Offer("tools", tuple(sorted(tools, key=lambda tool: tool.name)), reserved=reserved)
    actions = [] if calls_tools(action) and not _is_own(action) else actions_in(action)
    if not actions:
        lists = f"lists only {', '.join(reserved[:5])}, which are reserved" if reserved else "lists no tools"
        raise NothingToPlay(f"The server offers nothing to play: it {lists}, and its /schema names no action.")
    return Offer("actions", tuple(one.tool for one in actions), {one.tool.name: one.fixed for one in actions})


def action_schema(schema: Any) -> dict[str, Any]:
    action = schema.get("action") if isinstance(schema, Mapping) else None
    return dict(action) if isinstance(action, Mapping) else {}


def calls_tools(action: Mapping[str, Any]) -> bool:
    """Return whether steps of the server take calls of tools: any further field belongs to an action of its own."""
    return not action.get("anyOf") and not action.get("oneOf") and set(_properties(action)) <= _OF_CALLS


def _is_own(action: Mapping[str, Any]) -> bool:
    """Return whether an action without fields is the server's own: OpenEnv's base class says nothing."""
    return bool(action) and not set(_properties(action)) - {"metadata"} and action.get("title") != "Action"


def _is_reserved(tool: Tool) -> bool:
    return tool.name.strip().casefold() in RESERVED_TOOLS


def _named(listed: Sequence[Tool]) -> list[Tool]:
    """Return the tools that an agent can call. Raises `BrokenServer` for lists that are none."""
    if len(listed) > MAX_TOOLS:
        raise BrokenServer(f"The server lists {len(listed)} tools, more than {MAX_TOOLS}.")
    tools = [tool for tool in listed if not _is_reserved(tool)]
    names = [tool.name for tool in tools]
    if odd := next((name for name in names if not name or len(name) > 200 or not name.isprintable()), None):
        raise BrokenServer(f"The server lists a tool with the name {one_line(repr(odd))}.")
    if "" in names:
        raise BrokenServer("The server lists a tool without a name.")
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise BrokenServer(f"The server lists the tool {one_line(twice)} twice.")
    return tools


def actions_in(action: Mapping[str, Any]) -> list[ActionTool]:
    """Return each action of a schema as a tool: one, or one for each alternative of a union."""
    alternatives = action.get("oneOf") or action.get("anyOf")
    shared = action.get("$defs")
    if not isinstance(alternatives, list):
        alternatives = [action] if action else []
    if len(alternatives) > MAX_VARIANTS:
        raise BrokenServer(f"The schema has {len(alternatives)} actions, more than {MAX_VARIANTS}.")
    tools: list[ActionTool] = []
    for alternative in alternatives:
        whole = _resolved(alternative, shared)
        if whole is None:
            raise BrokenServer("The schema of the server's actions names a part that it does not have.")
        tools.append(_as_tool(whole, shared, {known.tool.name for known in tools}))
    return tools


def _resolved(schema: Any, shared: Any) -> dict[str, Any] | None:
    if not isinstance(schema, Mapping):
        return None
    if isinstance(ref := schema.get("$ref"), str):
        inner = shared.get(ref.removeprefix("#/$defs/")) if isinstance(shared, Mapping) else None
        return dict(inner) if isinstance(inner, Mapping) else None
    return dict(schema)


def _properties(schema: Mapping[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties")
    return dict(properties) if isinstance(properties, Mapping) else {}


def _as_tool(schema: Mapping[str, Any], shared: Any, taken: set[str]) -> ActionTool:
    properties = {name: one for name, one in _properties(schema).items() if name != "metadata"}
    fixed = {name: one["const"] for name, one in properties.items() if isinstance(one, Mapping) and "const" in one}
    free = {name: one for name, one in properties.items() if name not in fixed}
    required = schema.get("required")
    needed = [name for name in required if isinstance(name, str) and name in free] if isinstance(required, list) else []
    shown: dict[str, Any] = {"type": "object", "properties": free, "additionalProperties": False}
    shown |= {"required": needed} if needed else {}
    shown |= {"$defs": dict(shared)} if isinstance(shared, Mapping) and shared else {}
    # a constant names an alternative better than the class of the server
    title = next((value for value in fixed.values() if isinstance(value, str)), None) or schema.get("title")
    description = schema.get("description")
    tool = Tool(_name(title, taken), description if isinstance(description, str) else "", shown)
    return ActionTool(tool, fixed)


def _name(title: Any, taken: set[str]) -> str:
    """Return a tool's name from a title: `GuessAction` is `guess`."""
    plain = _NOT_NAME.sub("_", _WORD.sub("_", title[:200])).strip("_").lower() if isinstance(title, str) else ""
    short = plain.removesuffix("_action") or "act"
    base = (short if short not in RESERVED_TOOLS else f"{short}_action")[:60]
    number = 1
    while (name := base if number == 1 else f"{base}_{number}") in taken:
        number += 1
    return name


def reward_of(data: Mapping[str, Any]) -> float | None:
    """Return the reward of a step's frame. Raises `BrokenServer` if it is no number."""
    reward = data.get("reward")
    if reward is None:
        return None
    try:
        if isinstance(reward, bool | int | float) and math.isfinite(float(reward)):
            return float(reward)
    except OverflowError:
        pass
    raise BrokenServer(f"The reward of the server is no number: {one_line(repr(reward))}")


def done_of(data: Mapping[str, Any]) -> bool:
    """Return whether a step's frame ends the episode. Raises `BrokenServer` if the server does not say so."""
    done = data.get("done", False)
    if done is None or isinstance(done, bool):
        return bool(done)
    raise BrokenServer(f"`done` of the server is neither true nor false: {one_line(repr(done))}")


def without_success(value: Any, depth: int = 0) -> Any:
    """Return a part of an observation without what it says of success; at most 100 levels of it."""
    if depth > 100:
        return "[cut: nested too deeply]"
    if isinstance(value, Mapping):
        kept = {name: one for name, one in value.items() if name.casefold() not in OF_SUCCESS}
        return {name: without_success(one, depth + 1) for name, one in kept.items()}
    return [without_success(one, depth + 1) for one in value] if isinstance(value, list) else value


def seen_in(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an agent sees of a frame's observation: no reward, no end, no metadata."""
    body = data.get("observation")
    if not isinstance(body, Mapping):
        return {} if body is None else {"value": without_success(body)}
    seen: dict[str, Any] = without_success({name: one for name, one in body.items() if name != "metadata"})
    return seen


def result_in(data: Mapping[str, Any]) -> tuple[Any, str | None]:
    """Return the result and the error of a tool call in a frame."""
    body = data.get("observation")
    if not isinstance(body, Mapping) or "tool_name" not in body:
        return seen_in(data), None  # the server ends an episode with an observation of its own
    if (error := body.get("error")) is not None:
        return None, _words(error.get("message") if isinstance(error, Mapping) else error)
    result = body.get("result")
    if isinstance(result, Mapping) and result.keys() & {"content", "structured_content", "is_error"}:
        text = _text_of(result.get("content"))
        if result.get("is_error"):
            return None, _words(text or "the tool failed")
        candidates = (result.get("data"), result.get("structured_content"), text)
        result = next((one for one in candidates if one is not None), None)
    names = {"tool_name", "result", "error"}
    more = {name: one for name, one in seen_in(data).items() if name not in names and one is not None}
    return ({"result": result, **more} if more else result), None


def _text_of(content: Any) -> str | None:
    if not isinstance(content, list):
        return None
    texts = [one["text"] for one in content if isinstance(one, Mapping) and isinstance(one.get("text"), str)]
    return "\n".join(texts) if texts else None


def _words(content: Any) -> str:
    text = content if isinstance(content, str) else json.dumps(content, default=str)
    return text if len(text) <= 4000 else f"{text[:4000]} [cut: {len(text)} characters]"


def task_text(spec: Any) -> str:
    """Return the words of a task from its server, or "": a spec can hold the answer, so only known names are read."""
    if isinstance(spec, str):
        return spec.strip()
    fields = spec if isinstance(spec, Mapping) else {}
    return next((one.strip() for name in _TEXTS if isinstance(one := fields.get(name), str) and one.strip()), "")


def reset_arguments(splits: Sequence[str], scenario: str, task_idx: int, seed: int | None) -> dict[str, Any]:
    """Return the arguments of a reset: split and index of the Task API, a seed, or the ID of a task."""
    repeated = {} if seed is None else {"seed": seed}
    if scenario in splits:
        return {"split": scenario, "index": task_idx, **repeated}
    return {"seed": task_idx} if scenario == SEED else {"task_id": scenario, **repeated}


def changed(before: Offer, now: Offer) -> str:
    """Return how an offer changed, in words."""
    were, are = ({tool.name: tool for tool in one.tools} for one in (before, now))
    missing, new = sorted(were.keys() - are.keys()), sorted(are.keys() - were.keys())
    other = sorted(name for name in were.keys() & are.keys() if were[name] != are[name])
    parts = [
        f"{what} {', '.join(one_line(name) for name in names[:5])}"
        for what, names in (("missing:", missing), ("new:", new), ("other:", other))
        if names
    ]
    differences = "; ".join(parts) or f"{before.kind} are {now.kind} now"
    return f"The server changed its tools since the launch ({differences})."


def lie_in(offer: Offer, name: str, errors: Sequence[Any]) -> str:
    """Return where the errors of a refused action contradict the published schema; "" if nowhere."""
    tool = next(one for one in offer.tools if one.name == name)
    names = {*_properties(tool.input_schema), *offer.fixed.get(name, {}), "metadata"}
    for error in errors:
        place = error.get("loc") if isinstance(error, Mapping) else None
        if not isinstance(place, list) or len(place) != 1 or not isinstance(place[0], str):
            continue
        if error.get("type") == "missing" and place[0] not in names:
            return f"it wants {one_line(place[0])}, which is not in it"
        if error.get("type") == "extra_forbidden" and place[0] in names:
            return f"it refuses {one_line(place[0])}, which is in it"
    return ""

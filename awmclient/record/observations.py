"""Results of an environment, made into steps that can be recorded.

Pure. Owns which signals are stored beside a result and what is cut because it is huge. Called by the loop.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from typing import Any

from awmclient.errors import Invalid
from awmclient.nouns.fields import LEVELS, problem_of_diff, too_large
from awmclient.nouns.tools import ToolSpec
from awmclient.nouns.values import MAX_STEP_BYTES
from awmclient.words.encoding import encode

TRACEBACK = 16_000
WORLD = "world"
"""The key in a call's `meta` of the environment's mark, by which a replay is compared."""
_SHOWN_OF_HUGE = 100_000
_SHAPE, _LONG_NUMBER = bytes.maketrans(b"012345678", b"999999999"), b"9" * sys.float_info.max_10_exp


def as_spec(tool: Any) -> ToolSpec:
    return ToolSpec(name=tool.name, description=tool.description or "", input_schema=dict(tool.input_schema or {}))


def result_of(observation: Any) -> dict[str, Any]:
    """Return result or error, with the signals that are recorded beside it."""
    came: dict[str, Any] = (
        {"error": str(observation.error)} if observation.error is not None else {"result": observation.tool_result}
    )
    kind = observation.reward_type
    # Another kind is left out: it comes from a foreign environment, and no column holds it.
    if isinstance(kind, str) and 0 < len(kind) <= 200 and kind.isascii() and kind.isprintable():
        came["reward_type"] = kind
    meta = {"traceback": _traceback_of(observation), WORLD: _metadata(observation, "mark")}
    if meta := {name: value for name, value in meta.items() if value}:
        came["meta"] = meta
    return {**came, **signals_of(observation)}


def _metadata(observation: Any, name: str) -> Any:
    metadata = getattr(observation, "metadata", None)
    return metadata.get(name) if isinstance(metadata, Mapping) else None


def _traceback_of(observation: Any) -> str:
    """Return the traceback of a failed tool, if the environment reports it.

    For people only: an agent never sees `meta`.
    """
    detail = _metadata(observation, "detail")
    # The end, because it names the error.
    return detail[-TRACEBACK:] if isinstance(detail, str) else ""


def signals_of(observation: Any) -> dict[str, Any]:
    """Return what is recorded beside a result. Raises `Invalid` for a reward that is no finite number: without it a
    step would look like one that the environment did not rate."""
    signals: dict[str, Any] = {}
    reward, diff = getattr(observation, "reward", None), getattr(observation, "state_diff", None)
    if reward is not None:
        signals["reward"] = _number(reward)
    if isinstance(diff, dict) and not problem_of_diff(diff):  # empty: known to have changed nothing
        signals["state_diff"] = diff
    if getattr(observation, "done", False) is True:
        signals["done"] = True
    return signals


def _number(reward: Any) -> float:
    try:
        # a number of an array library is none of Python's
        value = math.nan if isinstance(reward, str | bytes) else float(reward)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not math.isfinite(value):
        raise Invalid(f"reward: {repr(reward)[:80]} is no finite number.")
    return value


def observed(step_result: Any) -> Any:
    observation = getattr(step_result, "observation", step_result)
    return observation.model_dump() if hasattr(observation, "model_dump") else observation


def as_object(value: Any) -> dict[str, Any]:
    whole = plain(value)
    return whole if isinstance(whole, dict) else {"value": whole}


def bounded(step: dict[str, Any]) -> dict[str, Any]:
    """Return the step as the dashboard stores it: plain JSON, with huge values cut.

    The loop continues with the returned step, so that the agent reads what is recorded.
    """
    text = recordable(step) or encode(plain(step))
    stored: dict[str, Any] = json.loads(text)
    # Room for number and time, which are added later.
    if len(text) < MAX_STEP_BYTES - 1024:
        return stored
    return {name: value if len(encode(value)) < _SHOWN_OF_HUGE else _cut(name, value) for name, value in stored.items()}


def _cut(name: str, value: Any) -> Any:
    text = value if isinstance(value, str) else encode(value).decode()
    shown = f"{text[:_SHOWN_OF_HUGE]} [cut: {len(text)} characters]"
    return shown if isinstance(value, str) or name == "result" else {"cut": shown}


def recordable(value: dict[str, Any]) -> bytes:
    """Return the JSON of a value, empty if the dashboard would refuse it: foreign types, its depth, a number that no
    double holds.
    """
    try:
        text = encode(value)
    except Invalid:
        return b""
    if text.count(b"{") + text.count(b"[") > LEVELS and too_large(value, sys.maxsize, LEVELS, sys.maxsize):
        return b""
    return b"" if _LONG_NUMBER in text.translate(_SHAPE) else text


def plain(value: Any, depth: int = 0) -> Any:
    """Return JSON without NaN, infinities, numbers beyond a double and foreign types, at most 100 levels deep; those
    become text.
    """
    if depth > LEVELS:
        return "[cut: nested too deeply]"
    if isinstance(value, Mapping):
        return {str(key): plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, depth + 1) for item in value]
    if isinstance(value, int) and abs(value) > sys.float_info.max:
        return f"[cut: a number of {int(math.log10(abs(value))) + 1} digits]"
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return str(value)

"""ATIF, the trajectory of Harbor's agents, as steps of an episode that is being recorded.

Pure. The reader of imports makes the same steps of a whole file, and counts what it leaves out; this one gets the file
step by step. Called by `harbor.py`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any

from awmclient.adapters.transcript import Step, as_arguments
from awmclient.nouns.fields import COPIED
from awmclient.nouns.kinds import is_approval, is_ask, is_call, is_said
from awmclient.nouns.values import ASK_TOOL
from awmclient.words.thinking import read_reasoning

Json = Mapping[str, Any]
COUNTS = ("prompt_tokens", "completion_tokens")
IDS = {"prompt_token_ids": "prompt_ids", "completion_token_ids": "completion_ids", "logprobs": "logprobs"}
"""Lists of a step's metrics, by their names in a step's `meta`."""
EMPTY: tuple[Any, ...] = (None, "", [], {})
LINE = 200
APPROVAL_TOOL, ELICITATION_TOOL = "request_approval", "answer_elicitation"
ASK_TOOLS = (ASK_TOOL, APPROVAL_TOOL, ELICITATION_TOOL)
"""The tools with which an agent asks at the desk's `/mcp`."""


def asks(step: Json) -> bool:
    """Return whether a step asks an expert with one of its calls, whatever prefix its harness gives the tool."""
    return any(str(call.get("function_name")).endswith(ASK_TOOLS) for call in _objects(step.get("tool_calls")))


def asked_in(recorded: Collection[Json]) -> set[str]:
    """Return what the asks among recorded steps asked, as a call of the same words has it."""
    return {_words_of(step) for step in recorded if is_ask(step)} - {""}


def _words_of(step: Json) -> str:
    """Return what an ask asked: the calls that it would approve, else its words."""
    typed = _object(step.get("typed"))
    return _of_calls(typed.get("calls")) if is_approval(step) else _of_words(step.get("question"))


def _of_calls(calls: Any) -> str:
    plain = [[call.get("name"), call.get("arguments") or {}] for call in _objects(calls)]
    return "calls " + json.dumps(plain, sort_keys=True)


def _of_words(words: Any) -> str:
    return f"words {words}" if isinstance(words, str) else ""


def _is_known(row: Step, asked: Collection[str]) -> bool:
    """Return whether a call asks what is in `asked`. Its arguments are a model's, of any type."""
    if not is_call(row) or not row["name"].endswith(ASK_TOOLS):
        return False
    arguments = row["arguments"]
    if row["name"].endswith(APPROVAL_TOOL):
        return _of_calls(arguments.get("calls")) in asked
    return _of_words(arguments.get("message" if row["name"].endswith(ELICITATION_TOOL) else "question")) in asked


def main_steps(document: Any) -> list[Json]:
    """Return the steps of a trajectory without those of subagents, which Claude Code writes among them."""
    steps = _objects(_object(document).get("steps"))
    return [step for step in steps if _object(step.get("extra")).get("is_sidechain") is not True]


def settled(steps: list[Json]) -> list[Json]:
    """Return the steps that stay as they are while a trajectory grows: none from the first that waits for a result on,
    and never the last."""
    return steps[: next((at for at, step in enumerate(steps[:-1]) if _waits(step)), max(0, len(steps) - 1))]


def _waits(step: Json) -> bool:
    results = _objects(_object(step.get("observation")).get("results"))
    answered = {str(result.get("source_call_id") or "") for result in results}
    calls = {str(call["tool_call_id"]) for call in _objects(step.get("tool_calls")) if call.get("tool_call_id")}
    return "" not in answered and not calls <= answered


def identity_of(step: Json) -> str:
    """Return by what a step is the same in a longer trajectory, in which others can come before it: its time, or else
    its number. Its words are not part of it: Harbor removes secrets from them at the end."""
    calls = [call.get("tool_call_id") for call in _objects(step.get("tool_calls"))]
    return json.dumps([step.get("source"), step.get("timestamp") or step.get("step_id") or step.get("message"), calls])


def model_of(document: Any) -> Any:
    return _object(_object(document).get("agent")).get("model_name")


def _objects(value: Any) -> list[Json]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def _object(value: Any) -> Json:
    return value if isinstance(value, Mapping) else {}


class AtifSteps:
    """The steps of one trajectory, in the order in which they come."""

    def __init__(self) -> None:
        self.turn = 0
        self.model: Any = None
        """The model that the head of the file names; a turn of another one says so."""
        self.answer: str | None = None
        """The agent's last message, if nothing follows it."""

    def steps_of(self, step: Json, asked: Collection[str] = ()) -> list[Step]:
        """Return the steps that a step of the file is. What is `asked` is in the record already."""
        is_copied = step.get("is_copied_context") is True
        if step.get("source") == "agent":
            rows = self._turn(step, {} if is_copied else _object(step.get("metrics")))
        else:
            role = "system" if step.get("source") == "system" else "user"
            rows = [{"kind": "message", "role": role, "content": text_of(step.get("message"))}]
        self._add_results(rows, step)
        last = rows[-1]
        is_answer = is_said(last)
        self.answer = last["content"] if is_answer else None
        kept = [row for row in rows if not _is_known(row, asked)]
        at = _moment(step.get("timestamp"))
        for row in kept:
            if at:
                row["at"] = at
            if is_copied:
                row["meta"] = {**row.get("meta", {}), COPIED: True}
        return kept

    def _turn(self, step: Json, metrics: Json) -> list[Step]:
        self.turn += 1
        text, usage = text_of(step.get("message")), usage_of(metrics)
        _, thought = read_reasoning(step)
        calls = _objects(step.get("tool_calls"))
        rows: list[Step] = []
        if text or thought or usage or not calls:
            beside = {name: value for name, value in (("reasoning", thought), ("usage", usage)) if value}
            rows.append({"kind": "message", "role": "assistant", "content": text, "turn": self.turn, **beside})
        for call in calls:
            row: Step = {"kind": "tool_call", "name": str(call.get("function_name") or "tool")[:LINE]}
            row |= {"arguments": as_arguments(call.get("arguments")), "turn": self.turn}
            rows.append(row | ({"call_id": str(call["tool_call_id"])[:LINE]} if call.get("tool_call_id") else {}))
        names = ("model_name", "reasoning_effort")
        meta = {name: step[name] for name in names if step.get(name) not in (*EMPTY, self.model)}
        meta |= {name: metrics[source] for source, name in IDS.items() if metrics.get(source) not in EMPTY}
        if meta:
            rows[0]["meta"] = meta
        return rows

    def _add_results(self, rows: list[Step], step: Json) -> None:
        """Add each result to its call. One without a call is what the environment said by itself."""
        waiting = [row for row in rows if is_call(row)]
        for result in _objects(_object(step.get("observation")).get("results")):
            text, name = text_of(result.get("content")), result.get("source_call_id")
            call = next((row for row in waiting if not name or row.get("call_id") == str(name)[:LINE]), None)
            if call is not None:
                waiting.remove(call)
                call["result"] = text
            else:
                role, turn = "tool" if waiting else "user", {"turn": self.turn} if self.turn and not waiting else {}
                rows.append({"kind": "message", "role": role, "content": text, **turn})


def text_of(content: Any) -> str:
    """Return the text of a content. Of a part that is no text, such as a picture, its type is named."""
    if not isinstance(content, list):
        return content if isinstance(content, str) else ""
    texts = (part.get("text") or f"[{part.get('type') or 'part'}]" for part in _objects(content))
    return "".join(str(text) for text in texts)


def usage_of(metrics: Json) -> dict[str, Any] | None:
    """Return what a turn used, by the names that the record's usage has."""
    counted = {name: metrics[name] for name in COUNTS if _is_count(metrics.get(name))}
    if _is_count(cached := metrics.get("cached_tokens")):
        counted["prompt_tokens_details"] = {"cached_tokens": cached}
    reported = {name: one for name, one in metrics.items() if name not in IDS and one not in EMPTY}
    return {**counted, "reported": reported} if reported else None


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _moment(value: Any) -> str | None:
    try:
        moment = datetime.fromisoformat(str(value))
        moment.astimezone(UTC)  # which the first and the last year can fail
        return str(value) if moment.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None

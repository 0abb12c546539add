"""Rows about tasks and decisions: prompts to run (`prompts`), and turns at which asking was possible (`ask_decision`).
Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from awmclient.nouns.kinds import is_ask
from awmclient.schema import ASK_TOOL
from exports.formats.columns import JSON_LIST, MESSAGES, SOURCE, TEXT, TEXT_LIST, WHOLE, YES_NO, kind_of, sha256, source
from exports.record import NoRow, Record
from exports.rules.leakage import Ground
from exports.rules.shaping import Shaped, TrainingLine

PROMPTS, ASKING = "awmweb.prompts/1", "awmweb.ask_decision/4"
PROMPTS_FEATURES: dict[str, Any] = {
    "prompt": MESSAGES,
    "tools": JSON_LIST,
    "scenario": TEXT,
    "task_idx": WHOLE,
    "task": TEXT,
    "split": TEXT,
    "expert_available": YES_NO,
    "schema_version": TEXT,
    "content_sha256": TEXT,
}
ASKING_FEATURES: dict[str, Any] = {
    "prompt": MESSAGES,
    "completion": MESSAGES,
    "tools": JSON_LIST,
    "asked": YES_NO,
    "tags": TEXT_LIST,
    "advice": TEXT,
    "advice_source": TEXT,
    "errors_before": WHOLE,
    "next_failed": YES_NO,
    "complete": YES_NO,
    "seq": WHOLE,
    **SOURCE,
}


def prompts(record: Record, shaped: Shaped, _ground: Ground) -> Iterator[dict[str, Any]]:
    """Return one row per distinct prompt of a task, for a trainer to run. It has no reward and no answer."""
    prompt = []
    for line in shaped.lines:
        if line.said.part != "prompt":
            break
        prompt.append(line.message)
    row = {"prompt": prompt, "tools": list(shaped.tools)}
    about = {
        "scenario": record.scenario,
        "task_idx": record.task_idx if record.task_idx is not None else -1,
        "task": record.task,
        "split": record.split,
        "expert_available": record.expert != "off",
    }
    yield {**row, **about, "schema_version": PROMPTS, "content_sha256": sha256([row, about])}


def ask_decision(record: Record, shaped: Shaped, ground: Ground) -> Iterator[dict[str, Any]]:
    """Yield one row per turn of an episode with an expert: asked or not, labels of the question, and the result."""
    if record.expert == "off":
        raise NoRow("it had no expert to ask")
    lines, messages, errors = shaped.lines, shaped.messages, 0
    about = source(ASKING, record, ground, messages)
    for place, line in enumerate(lines):
        # a call that could not be read is no decision, and a copied turn is one of another episode
        if line.said.part == "assistant" and place and not (line.said.refused or line.said.copied):
            ask = next((call for call in line.said.calls if is_ask(call)), None)
            row = {"prompt": messages[:place], "completion": [line.message], "tools": list(shaped.tools)}
            about_ask = _about_ask(record, ask, has_advice=ground.recipe.has_advice)
            ask_fields = {**about_ask, "errors_before": errors, "next_failed": _fails_after(lines, place)}
            seq = {"seq": line.said.seqs[-1] if line.said.seqs else 0, "complete": about["reward_type"] == "complete"}
            yield {**row, **ask_fields, **seq, **about, "content_sha256": sha256(row)}
        # after the row: a turn's own errors are not before it
        errors += sum(call.get("error") is not None for call in line.said.calls)


def _about_ask(record: Record, ask: Mapping[str, Any] | None, *, has_advice: bool) -> dict[str, Any]:
    if ask is None:
        return {"asked": False, "tags": [], "advice": "", "advice_source": ""}
    advice = ask.get("advice")
    seen = advice if isinstance(advice, Mapping) else {}
    labels = record.tags.get(int(ask.get("seq") or 0), {})
    return {
        "asked": True,
        "tags": sorted(f"{label}={value}" for label, value in labels.items() if value),
        # what the recipe cuts out of messages is in no other field
        "advice": str(seen.get("text", "")) if has_advice else "",
        "advice_source": kind_of(seen),
    }


def _fails_after(lines: tuple[TrainingLine, ...], place: int) -> bool:
    """Return whether a call of the next turn, asks excluded, returned an error."""
    for line in lines[place + 1 :]:
        calls = [call for call in line.said.calls if call.get("name") != ASK_TOOL and not is_ask(call)]
        if calls:
            return any(call.get("error") is not None for call in calls)
    return False

"""An interrupt of another agent as a typed ask, and its decision as the entry that resumes the agent. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from awmclient.nouns.ask_kinds import ask_kind
from awmclient.nouns.interrupts import Interrupt, ResumeEntry, RunInterrupts
from awmclient.nouns.typed import OPTIONS_MAX, TypedAsk
from awmclient.schema import CONTEXT_MAX, MAX_DEADLINE_S, QUESTION_MAX, Advice
from people.errors import Invalid

OURS = "awmweb"
YES, NO = "true", "false"
VALUE = "value"
LABEL_MAX = 200


def asked(interrupt: Interrupt, run: RunInterrupts) -> dict[str, Any]:
    """Return the fields of the ask for an interrupt: question, context, kind and what belongs to it.

    1. A typed ask in `metadata.awmweb`. 2. A known call: an approval, if its answer can say so. 3. A schema: a form,
    or a choice for one value. 4. A confirmation: yes or no. 5. A question.
    """
    call, about = _call_of(interrupt.tool_call_id, run), {"question": _words(interrupt)}
    typed = (interrupt.metadata or {}).get(OURS)
    if isinstance(typed, Mapping):
        fields = {name: value for name, value in typed.items() if name in {*TypedAsk.model_fields, "context"}}
        return {**about, "question": str(typed.get("question") or about["question"])[:QUESTION_MAX], **fields}
    if call is not None and _can_edit(interrupt.response_schema):
        edited = ((interrupt.response_schema or {}).get("properties") or {}).get("editedArgs") or {}
        schema = edited if isinstance(edited, Mapping) and edited.get("properties") else _schema_of(call["name"], run)
        return {**about, "kind": "approval", "calls": [{**call, **({"schema": schema} if schema else {})}]}
    if call is not None:
        about["context"] = f"{call['name']} {json.dumps(call['arguments'])}"[:CONTEXT_MAX]
    if interrupt.response_schema:
        return {**about, **_by_schema(interrupt.response_schema)}
    if interrupt.reason in ("confirmation", "tool_call"):
        return {**about, **_yes_or_no()}
    return about


def seconds_left(interrupt: Interrupt, now: datetime, otherwise: int) -> int:
    """Return how long an interrupt can be answered. A time that is no date never ends, as AG-UI says."""
    try:
        end = datetime.fromisoformat(str(interrupt.expires_at))
    except ValueError:
        return otherwise
    left = int(((end if end.tzinfo else end.replace(tzinfo=UTC)) - now).total_seconds())
    if left < 1:
        raise Invalid(f"outcome.interrupts: {interrupt.id} expired at {interrupt.expires_at}.")
    return min(left, MAX_DEADLINE_S)


def resumed(interrupt: Interrupt, fields: Mapping[str, Any], advice: Advice | None, status: str) -> ResumeEntry:
    """Return the entry that answers an interrupt. Without a decision it is *cancelled*: silence approves nothing."""
    beside: dict[str, Any] = {"status": status}
    if advice is not None:
        reason = advice.reason if advice.is_fallback else None
        notes = {"by": advice.by or (None if advice.is_fallback else "person"), "reason": reason, "text": advice.text}
        beside |= {name: value for name, value in notes.items() if value}
        if advice.decision is not None:
            beside["decision"] = advice.decision.model_dump(exclude_none=True)
    about = {"interrupt_id": interrupt.id, "metadata": {OURS: beside}}
    if advice is None or (advice.is_fallback and advice.decision is None):
        return ResumeEntry(status="cancelled", **about)
    return ResumeEntry(status="resolved", payload=_payload(interrupt, fields, advice), **about)


def _payload(interrupt: Interrupt, fields: Mapping[str, Any], advice: Advice) -> Any:
    if advice.decision is None:
        return advice.text
    decision = advice.decision.model_dump(exclude_none=True)
    if isinstance((interrupt.metadata or {}).get(OURS), Mapping):
        return decision
    if ask_kind(fields).is_approval:
        return _approved(decision["calls"][0], interrupt.response_schema)
    schema = interrupt.response_schema or {}
    if ask_kind(fields).is_choice:
        chosen = decision["chosen"][0]
        return chosen if _words_of_enum(schema) else chosen == YES
    return decision["value"] if schema.get("type") == "object" else decision["value"].get(VALUE)


def _approved(call: Mapping[str, Any], schema: Mapping[str, Any] | None) -> dict[str, Any]:
    payload: dict[str, Any] = {"approved": call["verdict"] != "reject"}
    if call["verdict"] == "edit":
        payload["editedArgs"] = call["arguments"]
    takes = (schema or {}).get("properties") or {}
    # an agent can check the payload against its own schema, and refuse a name that it does not know
    if call.get("reason") and ("reason" in takes or (schema or {}).get("additionalProperties") is not False):
        payload["reason"] = call["reason"]
    return payload


def _by_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    if schema.get("type") == "boolean":
        return _yes_or_no()
    if values := _words_of_enum(schema):
        return {"kind": "choice", "options": [{"id": one, "label": one} for one in values]}
    if schema.get("type") == "object":
        return {"kind": "form", "response_schema": {"properties": {}, **schema}}
    whole = {"type": "object", "properties": {VALUE: {**schema}}, "required": [VALUE]}
    return {"kind": "form", "response_schema": whole}


def _words_of_enum(schema: Mapping[str, Any]) -> list[str]:
    """Return the words that an answer chooses from; empty for values that are no options of a choice."""
    values = schema.get("enum")
    if not isinstance(values, list) or len(values) > OPTIONS_MAX:
        return []
    return values if all(isinstance(one, str) and 0 < len(one) <= LABEL_MAX for one in values) else []


def _yes_or_no() -> dict[str, Any]:
    return {"kind": "choice", "options": [{"id": YES, "label": "Yes"}, {"id": NO, "label": "No"}]}


def _can_edit(schema: Mapping[str, Any] | None) -> bool:
    """Return whether an agent would run edited arguments. One that does not say so runs its own."""
    return schema is None or "editedArgs" in (schema.get("properties") or {})


def _words(interrupt: Interrupt) -> str:
    text = (interrupt.message or "").strip() or f"The agent paused: {interrupt.reason}"
    return text[:QUESTION_MAX]


def _call_of(call_id: str | None, run: RunInterrupts) -> dict[str, Any] | None:
    """Return the call of an interrupt from the conversation, as an approval proposes it."""
    if not call_id:
        return None
    for message in reversed(run.messages or []):
        calls = message.get("toolCalls")
        for call in calls if isinstance(calls, list) else []:
            function = call.get("function") if isinstance(call, Mapping) and call.get("id") == call_id else None
            if isinstance(function, Mapping) and isinstance(function.get("name"), str):
                return {"id": call_id, "name": function["name"], "arguments": _arguments(function.get("arguments"))}
    return None


def _arguments(arguments: Any) -> dict[str, Any]:
    try:
        read = json.loads(arguments) if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError):
        return {"text": arguments}
    return read if isinstance(read, dict) else {VALUE: read}


def _schema_of(tool: str, run: RunInterrupts) -> Any:
    schemas: Sequence[Any] = [one.get("parameters") for one in run.tools or [] if one.get("name") == tool]
    return schemas[0] if schemas and isinstance(schemas[0], Mapping) else None

"""Whether a decision fits what an ask wants: each call decided, options that exist, a value that fits the form. Pure.

The agent wrote the schemas, so every check has one budget of steps. Called before a row is locked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from awmclient.nouns.ask_kinds import ask_kind
from awmclient.nouns.fields import too_large
from awmclient.nouns.typed import SPEC_CHARACTERS, SPEC_LEVELS, SPEC_VALUES, TypedDecision, decision_on_timeout
from episodes.closed_schemas import problem_of_form
from episodes.tool_schemas import Checker, MisfitPlace
from experts.rules.call_fit import schema_of, schemas_of
from people.errors import AppError, Invalid, words_of
from people.text.in_words import count
from people.text.plain_text import clean

SHOWN, SHOWN_CHARS = 3, 300


class Misfit(Invalid):
    """The decision does not fit the ask."""

    code = "decision"

    def __init__(self, *messages: str, places: Sequence[tuple[str, MisfitPlace]] = ()) -> None:
        """Prepare a refusal; each of `places` is in the call with an id, or in a form where that is empty."""
        super().__init__(" ".join(messages))
        self.messages, self.places = messages, places

    def words(self) -> str:
        """Return the refusal as a form says it."""
        return " ".join(map(for_people, self.messages))

    def fields(self) -> list[dict[str, Any]]:
        """Return the places for a page, as `fields_at` does."""
        return fields_at(self.places)


def refusal_words(refused: AppError) -> str:
    """Return a refusal of an answer as forms, links and Slack say it."""
    return refused.words() if isinstance(refused, Misfit) else for_people(refused.message)


def fields_at(places: Iterable[tuple[str, MisfitPlace]]) -> list[dict[str, Any]]:
    """Return of each place its call, its path, words that follow the field's name, and both in one."""
    return [
        {
            "call": call,
            "path": place.path,
            "words": clean(place.words[:SHOWN_CHARS]),
            "said": clean(place.in_words()[:SHOWN_CHARS]),
        }
        for call, place in places
    ]


_PATH = re.compile(r"decision(?:\.calls\[(?P<call>\d+)\]|\.calls|\.chosen(?:\[\d+\])?|\.value|\.other)?")
_PART = re.compile(r"\.(?:arguments|reason|verdict|id)\b")


def for_people(words: str) -> str:
    """Return a refusal as a form says it: with the call's number or the field, without the path that programs read.

    >>> for_people("decision.calls[1].arguments.amount must be at most 249.")
    'Call 2: amount must be at most 249.'
    >>> for_people("decision.value.day must be a date."), for_people("decision.chosen: choose an option.")
    ('day must be a date.', 'Choose an option.')
    """
    path = _PATH.match(words)
    if path is None:
        return words
    rest = words[path.end() :]
    if (part := _PART.match(rest)) is not None:
        rest = rest[part.end() :]
    # a name of the agent keeps its letters
    message = rest[1:] if rest.startswith(".") else rest.lstrip(": ")
    if path["call"] is not None:
        return f"Call {int(path['call']) + 1}: {message}"
    return message if rest.startswith(".") else message[:1].upper() + message[1:]


def checked(
    typed: Mapping[str, Any], decision: Any, tools: Iterable[dict[str, Any]], name: str = "decision"
) -> dict[str, Any]:
    """Return the decision as it is stored: with the final arguments of every call. Raises `Misfit` with the path.

    The `tools` are read for an edited call only.
    """
    if decision is None:
        raise Misfit(f"{name}: this ask wants a decision of kind {typed['kind']}, not only a text.")
    part = ask_kind(typed).decided_in
    fields = _read_decision(decision, name)
    if stray := sorted(fields.keys() - {part} - ({"other"} if ask_kind(typed).is_choice else set())):
        raise Misfit(f"{name}.{stray[0]}: an ask of kind {typed['kind']} takes `{part}`.")
    if ask_kind(typed).is_approval:
        return {"calls": _calls(typed["calls"], fields.get("calls") or [], tools, f"{name}.calls")}
    if ask_kind(typed).is_choice:
        return _choice(typed, fields, name)
    return {"value": _value(typed["response_schema"], fields.get("value"), f"{name}.value")}


def _read_decision(decision: Any, name: str) -> dict[str, Any]:
    try:
        return TypedDecision.model_validate(decision).model_dump(exclude_none=True)
    except ValidationError as error:
        wrong = error.errors()[0]
        path = "".join(f"[{one}]" if isinstance(one, int) else f".{clean(one)}" for one in wrong["loc"])
        raise Misfit(f"{name}{path}: {clean(words_of(wrong))}.") from error


def refuse_unfit_form(typed: Mapping[str, Any]) -> None:
    """Raise for a form whose answers could not be checked whole, or whose own schema refuses its default."""
    if not ask_kind(typed).is_form:
        return
    if problem := problem_of_form(typed["response_schema"]):
        raise Invalid(f"{clean(problem[:400])}.")
    if (default := decision_on_timeout(typed)) is not None:
        _value(typed["response_schema"], default["value"], "on_timeout.value")


def _calls(
    calls: list[dict[str, Any]], decided: list[dict[str, Any]], tools: Iterable[dict[str, Any]], name: str
) -> list[dict[str, Any]]:
    """Return one decision for each call, in the order of the calls."""
    places = {one["id"]: (place, one) for place, one in enumerate(decided)}
    call_ids = {call["id"] for call in calls}
    for place, decision in enumerate(decided):
        if decision["id"] not in call_ids:
            raise Misfit(f"{name}[{place}].id: no call has the id {clean(decision['id'])}.")
        if places[decision["id"]][0] != place:
            raise Misfit(f"{name}[{place}].id: the call {clean(decision['id'])} is decided twice.")
    edits = any(one["verdict"] == "edit" for one in decided)
    schemas = schemas_of(tools) if edits else {}
    checker, made, refusals = Checker(formats=True), [], list[Misfit]()
    for call in calls:
        try:
            if call["id"] not in places:
                raise Misfit(f"{name}: the call {clean(call['id'])} ({clean(call['name'])}) is not decided.")
            place, decision = places[call["id"]]
            made.append(_call(call, decision, checker, schema_of(call, schemas), f"{name}[{place}]"))
        except Misfit as refused:
            refusals.append(refused)
    if refusals:
        more = [f"{count(len(refusals) - SHOWN, 'more call')} can't be sent like this."][: len(refusals) > SHOWN]
        shown = [words for refused in refusals[:SHOWN] for words in refused.messages]
        raise Misfit(*shown, *more, places=[place for refused in refusals for place in refused.places])
    _refuse_large([one["arguments"] for one in made if one["verdict"] == "edit"], name)
    return made


def _call(call: dict[str, Any], decision: dict[str, Any], checker: Checker, schema: Any, name: str) -> dict[str, Any]:
    proposed, arguments = call.get("arguments") or {}, decision.get("arguments")
    reason = (decision.get("reason") or "").strip()
    decided: dict[str, Any] = {"id": call["id"], "verdict": decision["verdict"], "arguments": proposed}
    if decision["verdict"] == "edit":
        if arguments is None or _same(arguments, proposed):
            raise Misfit(f"{name}.arguments: an edit has arguments that differ from the proposed ones.")
        _refuse_misfit(checker, arguments, schema, f"{name}.arguments", call["id"])
        decided["arguments"] = arguments
    elif arguments is not None and not _same(arguments, proposed):
        raise Misfit(f"{name}.arguments: {decision['verdict']} keeps the proposed arguments; say edit to change them.")
    if decision["verdict"] == "reject" and not reason:
        raise Misfit(f"{name}.reason: a rejection needs a reason, which the agent gets.")
    return decided | ({"reason": reason} if reason else {})


def _same(left: Any, other: Any) -> bool:
    """Return whether two JSON values are equal: 1 is 1.0, and true is not 1, as in Python."""
    if isinstance(left, bool) or isinstance(other, bool):
        return left is other
    if isinstance(left, dict) and isinstance(other, dict):
        return left.keys() == other.keys() and all(_same(value, other[name]) for name, value in left.items())
    if isinstance(left, list) and isinstance(other, list):
        return len(left) == len(other) and all(map(_same, left, other))
    return bool(left == other)


def _choice(typed: Mapping[str, Any], decision: dict[str, Any], name: str) -> dict[str, Any]:
    chosen, other = decision.get("chosen") or [], (decision.get("other") or "").strip()
    option_ids = [one["id"] for one in typed["options"]]
    for place, option in enumerate(chosen):
        if option not in option_ids:
            raise Misfit(f"{name}.chosen[{place}]: no option has the id {clean(option)}.")
        if option in chosen[:place]:
            raise Misfit(f"{name}.chosen[{place}]: {clean(option)} is chosen twice.")
    if other and not typed.get("other"):
        raise Misfit(f"{name}.other: this choice takes its options only.")
    if len(chosen) + bool(other) == 0:
        raise Misfit(f"{name}.chosen: choose an option.")
    if len(chosen) + bool(other) > 1 and not typed.get("many"):
        raise Misfit(f"{name}.chosen: choose one option.")
    # in the order of the options, so that equal choices are equal
    return {"chosen": sorted(chosen, key=option_ids.index)} | ({"other": other} if other else {})


def _value(schema: Any, value: Any, name: str) -> Any:
    if not isinstance(value, dict):
        raise Misfit(f"{name}: the value of a form is an object.")
    _refuse_misfit(Checker(formats=True), value, schema, name)
    _refuse_large(value, name)
    return value


def _refuse_large(written: Any, name: str) -> None:
    # a schema can let fields pass that it does not name, so it is no bound of what reaches the agent
    if why := too_large(written, SPEC_VALUES, SPEC_LEVELS, SPEC_CHARACTERS):
        raise Misfit(f"{name}: what the agent would get {why}.")


def _refuse_misfit(checker: Checker, value: Any, schema: Any, name: str, call_id: str = "") -> None:
    if places := checker.misfits(value, schema):
        # the first with its whole path, and the others below the same
        words = [clean(place.in_words("" if n else name)[:SHOWN_CHARS]) for n, place in enumerate(places[:SHOWN])]
        more = f"; {len(places) - SHOWN} more" if len(places) > SHOWN else ""
        raise Misfit(f"{'; '.join(words)}{more}.", places=[(call_id, place) for place in places])
    if checker.is_spent:
        raise Misfit(f"{name}: this is too large to be checked.")

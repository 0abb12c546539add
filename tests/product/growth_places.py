"""Every place where a stranger's text is read: what makes a text of a size, what reads it, and what it can cost.

`docs/security.md` names each of them; `test_growth.py` reads them at two sizes, and `growth_figures.py` measures a
megabyte in a process of its own.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from awmclient.asking import gates
from awmclient.errors import MalformedCall
from awmclient.nouns.typed import typed_of
from awmclient.schema import StepBatch
from awmclient.words import blotting, listening, textcalls, thinking, toolcalls
from awmclient.words.conversation import conversation
from awmclient.words.toolcalls import Call
from awmenv import rows
from awmenv.server.verify import judge
from episodes.find import search_text
from episodes.find.near_tasks import NearTasks
from episodes.quoting import Secret
from episodes.show import step_cards, tables
from episodes.show.alignment import Act, align, matches
from episodes.stored.entries import entries_of_batch
from episodes.tool_schemas import Checker
from experts.find import similar
from experts.mcp.messages import MOST_BYTES as MCP_BYTES
from experts.mcp.messages import message_of
from experts.models import StandingAnswer
from experts.record import standing_answers
from experts.rules import decisions
from exports.formats.preference import dpo
from exports.recipe import Recipe
from exports.rules.held_out import HeldOutTasks
from exports.rules.leakage import Ground
from exports.rules.pairs import ShapedEpisode
from exports.rules.quotations import VerifierWords
from exports.rules.redaction import Redactor
from exports.rules.shaping import shape
from imports.readers import otlp
from imports.readers.open_calls import OpenCalls
from notices import quoting
from people.errors import AppError, BadJson, Invalid
from people.text import plain_text, prose, yaml_text
from people.text.json_text import parse_json, parse_typed, read_object
from reviews.record import mentions
from tests.exports.records import record
from tests.imports import large_traces, wires

MEGABYTE = 1_000_000
SECRETS = Redactor(Recipe.read({"format": "raw"}))
PEOPLE = Redactor(Recipe.read({"format": "raw", "redact": "personal"}), "salt")
VERIFIER = VerifierWords(["total = sum(row.price for row in rows if row.open and row.paid)"])
CODE = Secret(["total = sum(row.price for row in rows if row.open and row.paid)"])
PAIRS = Ground(Recipe.read({"format": "dpo"}))
NAMES = ["*a" * 40 + "*b", "[a-z]*" * 30 + "!"]
HELD_OUT = HeldOutTasks({
    "a/0": "Merge the newest duplicate ticket of Dock and close the older merge ticket of Dock for Ruben with a stamp",
    "a/1": "close the older one now",
})  # fmt: skip
ONE_HASH = 2**61 - 1
"""Multiples of it have one hash, and a set of them is a list that is searched for each."""
FIELDS = {"type": "object", "additionalProperties": False}


@dataclass(frozen=True)
class Place:
    """`first` is a size that is read in a millisecond or so, `most` the bytes of a text that can reach the place.

    A megabyte (or `most`) of input takes at most `memory` megabytes beside the input.
    """

    make: Callable[[int], Any]
    read: Callable[[Any], object]
    first: int
    most: int = MEGABYTE
    memory: int = 16

    def bytes_of(self, size: int) -> int:
        made = self.make(size)
        return len(made if isinstance(made, bytes) else json.dumps(made, default=str))

    def largest(self) -> int:
        """Return the size whose input has a megabyte, or as much as can reach the place."""
        return max(1, round(self.first * min(self.most, MEGABYTE) / self.bytes_of(self.first)))


def distilled(size):
    """An episode whose call has many short values, of which each stands in a long result."""
    values = [f"{number}" for number in range(size // 200)]
    ask = {"seq": 1, "kind": "ask", "question": "Which?", "advice": {"source": "human", "text": "Those."}}
    result = "1" * size + " " + " ".join(values)
    seen = {"seq": 2, "kind": "tool_call", "name": "see", "arguments": {}, "result": result}
    call = {"seq": 3, "kind": "tool_call", "name": "put", "arguments": {"all": values}, "result": 1}
    said = [{"seq": 0, "kind": "message", "role": "user", "content": "Go."}]
    return [{**one, "seq": seq} for seq, one in enumerate([*said, ask, seen, call], 1)]


def advised(size):
    """An episode with long advice, of which its agent says every other word."""
    words = " ".join(f"w{number}" for number in range(size))
    said = [
        {"kind": "message", "role": "user", "content": words[::2]},
        {"kind": "ask", "question": "Which?", "advice": {"source": "human", "text": words}},
        {"kind": "message", "role": "assistant", "content": words[::3]},
    ]
    return [{**one, "seq": seq} for seq, one in enumerate(said, 1)]


def refused(kind, function):
    def read(text):
        with contextlib.suppress(kind):
            function(text)

    return read


def acts(size, names):
    return [Act(number, names[number % len(names)], str(number % 7), "") for number in range(size)]


def form_of(size):
    return {f"f{number}": {"type": "integer", "enum": [1, 2]} for number in range(size)}


def fill(fields):
    typed = typed_of({"kind": "form", "response_schema": {**FIELDS, "required": list(fields), "properties": fields}})
    decisions.checked(typed, {"value": dict.fromkeys(fields, 2)}, [])


def references(size):
    part = {"anyOf": [{"$ref": "#/$defs/b"}, {"$ref": "#/$defs/b"}], "description": "x" * 20}
    names = {f"f{number}": {"$ref": "#/$defs/a"} for number in range(size)}
    return {**FIELDS, "properties": names, "$defs": {"a": part, "b": {"type": "null"}}}


def open_form(schema):
    decisions.refuse_unfit_form(typed_of({"kind": "form", "response_schema": schema}))


def edited(size):
    """A decision that changes each of many arguments."""
    call = {"id": "1", "name": "put", "arguments": {f"a{number}": [number] for number in range(size)}}
    into = {f"b{number}": [number] for number in range(size)}
    return {"kind": "approval", "calls": [call]}, {"calls": [{"id": "1", "verdict": "edit", "arguments": into}]}


def ask_card(made):
    typed, decision = made
    advice = {"source": "human", "text": "", "by": "person", "decision": decision}
    step_cards.card_of({"seq": 1, "kind": "ask", "question": "May I?", "typed": typed, "advice": advice})


def covered(values):
    standing_answers.covers(StandingAnswer(tool="put", arguments=values), {"name": "put", "arguments": dict(values)})


def edits(size):
    """An episode of many edited calls, whose pairs have all that came before them as their prompt."""
    mark = {"verdict": "edit", "by": "person", "proposed": {"into": 8}}
    call = {"kind": "tool_call", "name": "merge", "arguments": {"into": 7}, "result": 1, "approval": mark}
    steps = [{"seq": 1, "kind": "message", "role": "user", "content": "Go."}]
    return steps + [{**call, "seq": seq, "turn": seq} for seq in range(2, size + 2)]


def paired(steps):
    one = record(steps=steps, final_answer="x")
    list(dpo([ShapedEpisode(one, shape(one, "keep"), True)], PAIRS))


def one_turn(size):
    call = {"kind": "tool_call", "name": "see", "arguments": {}, "result": 1, "turn": 1}
    return [{**call, "seq": seq} for seq in range(1, size + 1)]


def row_of(kind, row):
    return lambda size: [{"seq": 1, "state_diff": {"t": {kind: [row(number) for number in range(size)]}}}]


def range_of(size):
    return [ONE_HASH * number for number in range(1, size + 1)]


def json_of_names(size):
    return "{" + ",".join(f'"{number}":1' for number in [*range(size), size - 1]) + "}"


def appended(raw):
    body = read_object(raw, 8 * MEGABYTE)
    entries_of_batch(body["steps"], StepBatch.model_validate(body).steps)


def mcp_call(size):
    arguments = b'{"calls":[%s]}' % b",".join([b"[]"] * size)
    return b'{"method":"tools/call","id":1,"params":{"name":"request_approval","arguments":%s}}' % arguments


def texts(words, before="", after=""):
    return lambda size: before + words * size + after


def raws(words, before=b"", after=b""):
    return lambda size: before + words * size + after


def shaped(how):
    return lambda steps: shape(record(steps=steps, final_answer="x"), how)


REDACTED = SECRETS.redact
PRIVATE = PEOPLE.redact


def calls_in_order(size):
    return [{"name": "a", "number": number} for number in range(size)]


def taken_in_order(steps):
    calls = OpenCalls()
    for step in steps:
        calls.add("", step, 1)
    while calls.take("", "", 1) is not None:
        pass


PLACES: dict[str, Place] = {
    "redaction: one token, then its beginnings": Place(texts("eyJ", "eyJa.b "), REDACTED, 60_000),
    "redaction: beginnings of every rule": Place(
        texts("sk-//x/:_authToken=aws key bearer AKC://a:b@-----BEGIN PRIVATE KEY-----"), REDACTED, 500),
    "redaction: many secrets": Place(
        lambda n: '"' + "AKIAIOSFODNN7EXAMPLE\\n" * n + '"', SECRETS.redact_json, 500, memory=48),
    "redaction: nearly mail addresses": Place(
        lambda n: "!" * n + "a." * n + "@" * n + "a@b." * n, PRIVATE, 4_000, memory=48),
    "redaction: many mail addresses": Place(texts("a@b.de "), PRIVATE, 500, memory=96),
    "redaction: names with values": Place(
        lambda n: "a_password: b password=" * n + "token_" * n, REDACTED, 500, memory=48),
    "redaction: nearly keys of 40 signs": Place(lambda n: ("aB3/" * 10 + ".") * n + "aB" * n, REDACTED, 300),
    "redaction: nearly account numbers": Place(
        lambda n: "DE89 3704 " * n + "GB29" * n + "- - " * n, PRIVATE, 500, memory=48),
    "redaction: digits": Place(lambda n: "4111 1111 " * n + "1" * n + "+1 " * n, PRIVATE, 500, memory=48),
    "distilled calls": Place(distilled, shaped("distil"), 60_000),
    "distilled words": Place(advised, shaped("distil"), 2_000, memory=96),
    "rule of near tasks": Place(texts("a b c "), lambda t: NearTasks(["a b c " * 9]).holds_like(t), 4_000, memory=48),
    "rule of quoted verifiers": Place(texts("total sum row price for row "), CODE.quoted_in, 1_000, memory=64),
    "verifiers in rows": Place(
        texts("total sum row price for row in rows if "), lambda t: any(VERIFIER.pieces_in(t)), 1_000, memory=64),
    "held-out tasks in texts": Place(
        texts("close the older ticket of Dock now "), lambda t: HELD_OUT.told_in([t], ""), 900, memory=64),
    "recipes and plans": Place(
        texts("a: &x 1, ", "["), refused(yaml_text.BadYaml, yaml_text.read), 300, most=yaml_text.LENGTH_MAX),
    "YAML of many names": Place(
        lambda n: "".join(f"k{i}: [1, {{a: b}}]\n" for i in range(n)), refused(yaml_text.BadYaml, yaml_text.read),
        300, most=300_000, memory=64),
    "bodies of many values": Place(raws(b"1,", b"[", b"1]"), refused(BadJson, parse_json), 8_000,
        most=798_000, memory=32),
    "bodies of deep values": Place(
        lambda n: b"[" * n + b"]" * n, refused(BadJson, parse_json), 4_000),
    "bodies of quotes": Place(raws(b'\\",', b'["', b'"]'), refused(BadJson, parse_json), 100_000),
    "steps of empty lists": Place(
        raws(b"[],", b'{"steps":[{"seq":1,"kind":"tool_call","name":"a","arguments":{"a":[', b'[]]},"result":1}]}'),
        refused(AppError, appended), 2_000, most=590_000, memory=64),
    "MCP messages of many values": Place(mcp_call, refused(AppError, message_of), 2_000, most=59_000),
    "MCP messages of long texts": Place(
        lambda n: json.dumps({"method": "tools/call", "params": {"arguments": {"question": "\\é" * n}}}).encode(),
        refused(AppError, message_of), 20_000, most=MCP_BYTES),
    "rows of packs": Place(raws(b'\\",', b'{"a":["', b'"]}'), refused(rows.BadRow, rows.parse), 100_000),
    "alignment: one call over and over": Place(
        lambda n: (acts(n, "a"), acts(n + 1, "ab")), lambda both: align(*both), 500, memory=64),
    "alignment: two calls in turn": Place(
        lambda n: (acts(n, "ab"), acts(n, "abb")), lambda both: align(*both), 150, memory=64),
    "alignment: nothing equal": Place(
        lambda n: (list(range(n)), list(range(n, 0, -1))), lambda both: matches(*both), 2_000, memory=96),
    "search: excerpt": Place(texts("a "), lambda t: search_text.excerpt_of(t, "b " * 50), 20_000),
    "search: words": Place(texts('-"a '), search_text.terms_of, 5_000, memory=48),
    "pages: direction marks": Place(raws(b"\xe2\x80\xae"), plain_text.cleaned, 2_000, memory=96),
    "pages: JSON of a result": Place(
        lambda n: {"seq": 1, "kind": "tool_call", "name": "a", "arguments": {}, "result": '{"a" ' + '"\\"' * n},
        step_cards.card_of, 20_000, memory=48),
    "pages: Markdown with many marks": Place(texts("**a** "), prose.prose, 300, most=600),
    "pages: Markdown with a wide table": Place(
        lambda n: "|" + "a|" * n + "\n|" + "-|" * n + "\n" + "|\n" * n, prose.prose, 60, most=240),
    "pages: Markdown with many lines": Place(texts("1. `a`\n"), prose.prose, 60, most=1_390),
    "tool calls in a text": Place(
        texts("<think>", after="<tool_call>"), refused(MalformedCall, textcalls.text_calls), 20_000),
    "tool calls in JSON without marks": Place(
        lambda n: "{}" * n + '{"name":' * n, refused(MalformedCall, lambda t: textcalls.text_calls(t, ["b"])), 5_000),
    "thoughts before an answer": Place(texts("<think></think>"), thinking.behind_thoughts, 20_000),
    "tool calls and the signs of an end": Place(
        texts("</s>"), lambda t: refused(MalformedCall, textcalls.text_calls)("<|python_tag|>" + t), 20_000),
    "tool calls that cannot be read": Place(texts('```["'), refused(MalformedCall, textcalls.text_calls), 5_000),
    "tool calls beside their words": Place(texts("[TOOL_CALLS]a{}"), textcalls.words_beside, 5_000),
    "calls in an advice": Place(
        lambda n: "```json\n" * n + "a(" * n, lambda t: toolcalls.advised_calls(t, ["b"]), 1_000),
    "scripts that listen": Place(texts("a"), lambda t: listening.heard("(?:a+.*)+.*.*b", t), 50, most=2_000),
    "scripts that look around": Place(
        texts("a"), lambda t: listening.heard("(?:(?=.*.*.*b|a)(?!.*b)a)+b", t), 50, most=2_000),
    "secrets of an endpoint": Place(
        texts("%41\\u0041&#65;"), lambda t: blotting.blot(t, frozenset({"secret-of-it"})), 2_000, memory=96),
    "secrets in a receiver's answer": Place(
        texts("QUJD%41"), lambda t: quoting.quoted(t, ["secret-of-it"]), 500, most=20_000),
    "drafts in an answer": Place(
        lambda n: ("a b " * n, "b a " * n), lambda both: similar.kept(*both), 500, most=20_000),
    "mentions": Place(lambda n: "@" * n + "a." * n, mentions._NAMED.findall, 20_000, most=60_000),
    "decisions: forms": Place(form_of, fill, 60, most=100_000),
    "decisions: references": Place(
        references, refused(ValidationError, open_form), 60,
        most=100_000),
    "decisions: patterns": Place(
        texts("a"), lambda t: Checker(steps=1_000_000).misfit(f"{t}b", {"pattern": "^(a|a)*(a+)+$"}), 2_000,
        most=100_000),
    "decisions: many errors": Place(
        lambda n: ["x" * 10] * n, lambda value: Checker(steps=1_000_000).misfits(value, {"items": {"type": "null"}}),
        200, most=100_000),
    "decisions: edited calls": Place(edited, lambda both: decisions.checked(*both, []), 200, most=200_000),
    "decisions: numbers of one hash": Place(
        range_of, lambda enum: Checker(formats=True).misfit({"a": 0}, {"properties": {"a": {"enum": enum}}}), 400,
        most=100_000),
    "decisions: lists of one hash": Place(
        range_of, lambda value: Checker().misfit(value, {"uniqueItems": True}), 400, most=100_000),
    "decisions: names that come twice": Place(
        json_of_names, refused(Invalid, lambda t: parse_typed(t, "The decision")), 1_000, memory=64),
    "decisions: cards": Place(edited, ask_card, 200, most=200_000, memory=64),
    "approvals: patterns": Place(texts("a"), lambda t: gates.is_gated(t, NAMES), 20_000),
    "approvals: calls of a turn": Place(
        lambda n: [Call("put", {"n": [1] * 40})] * n, lambda calls: gates.proposed(calls, 1, ["writes"], "why"), 200,
        most=200_000),
    "approvals: standing answers": Place(
        lambda n: {f"a{number}": [number] for number in range(n)}, covered, 300, most=100_000),
    "pairs of edited calls": Place(edits, paired, 60, most=200_000, memory=64),
    "pages: one row, changed often": Place(
        row_of("changed", lambda n: {"key": {}, "after": {f"c{n}": 1}}), tables.touched, 300, memory=96),
    "pages: one row, removed often": Place(
        row_of("removed", lambda n: {"key": {"id": 1}, "row": {f"c{n}": 1}}), tables.touched, 300, memory=96),
    "calls of one turn": Place(one_turn, conversation, 150, memory=64),
    **{name: Place(make, large_traces.read, first, memory=96) for name, (make, first) in large_traces.SIZES.items()},
    "spans: results in the order of calls": Place(calls_in_order, taken_in_order, 2_000, memory=64),
    "requests of many spans": Place(wires.spans, refused(BadJson, otlp.of_protobuf), 800, memory=64),
    "requests of many groups": Place(wires.groups, refused(BadJson, otlp.of_protobuf), 800, memory=64),
    "requests of one large span": Place(wires.events, refused(BadJson, otlp.of_protobuf), 3_000, memory=64),
    "requests of deep values": Place(wires.deep, refused(BadJson, otlp.of_protobuf), 3_000, memory=64),
    "rulings of a judge": Place(
        lambda n: "{" * n + "```" * n, refused(ValueError, judge._read_ruling), 5_000, most=256_000
    ),
}  # fmt: skip


def _bombs(raw: bytes) -> object:
    return [[] for _ in range(4 * len(raw))]


def _selfish(raw: bytes) -> object:
    return sorted(range(20_000_000), key=None) and None


MEASURES = {
    "measure: memory": Place(raws(b"1,"), _bombs, 1_000),
    "measure: hold": Place(raws(b"1,"), _selfish, 1_000),
    "measure: neither": Place(raws(b"1,"), lambda raw: sum(1 for _ in raw), 1_000),
}
"""Places that the measure is tried with."""

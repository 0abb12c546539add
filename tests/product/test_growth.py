"""Wherever a stranger's text meets a pattern, a parser, an aligner or a loop, time grows no faster than the text.

`docs/security.md` has the table of these places with their bounds; each has a row here. A text and one of eight times
its size are read, and their processor times compared.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from pathlib import Path

import pytest
from pydantic import ValidationError

from awmclient import blotting, gates, listening, toolcalls
from awmclient.conversation import conversation
from awmclient.errors import MalformedCall
from awmclient.toolcalls import Call
from awmclient.typed import typed_of
from awmenv import rows
from awmenv.server.verify import judge
from episodes.find import search_text
from episodes.find.near_tasks import NearTasks
from episodes.quoting import Secret
from episodes.show import step_cards, tables
from episodes.show.alignment import Act, align, matches
from episodes.tool_schemas import Checker
from experts import standing_answers
from experts.find import similar
from experts.models import StandingAnswer
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
from people.errors import BadJson, Invalid
from people.text import plain_text, yaml_text
from people.text.json_text import parse_json, parse_typed
from reviews.record import mentions
from tests.exports.records import record
from tests.imports import large_traces, wires

pytestmark = pytest.mark.attack("growth")
ROOT = Path(__file__).resolve().parents[2]
SMALL, LARGE = 1.5**4, 1.5**9
"""How many times the first size of a place."""
MOST = 3.0
"""How much more than in proportion the larger may take: caches of the processor and n log n cost something."""
LEAST_S = 0.002
SECRETS = Redactor(Recipe.read({"format": "raw"}))
PEOPLE = Redactor(Recipe.read({"format": "raw", "redact": "personal"}), "salt")
VERIFIER = VerifierWords(["total = sum(row.price for row in rows if row.open and row.paid)"])
CODE = Secret(["total = sum(row.price for row in rows if row.open and row.paid)"])


def distilled(size):
    """An episode whose call has many short values, of which each stands in a long result."""
    values = [f"{number}" for number in range(size // 200)]
    ask = {"seq": 1, "kind": "ask", "question": "Which?", "advice": {"source": "human", "text": "Those."}}
    result = "1" * size + " " + " ".join(values)
    seen = {"seq": 2, "kind": "tool_call", "name": "see", "arguments": {}, "result": result}
    call = {"seq": 3, "kind": "tool_call", "name": "put", "arguments": {"all": values}, "result": 1}
    said = [{"seq": 0, "kind": "message", "role": "user", "content": "Go."}]
    steps = [{**one, "seq": seq} for seq, one in enumerate([*said, ask, seen, call], 1)]
    return record(steps=steps, final_answer="x")


def advised(size):
    """An episode with long advice, of which its agent says every other word."""
    words = " ".join(f"w{number}" for number in range(size))
    said = [
        {"kind": "message", "role": "user", "content": words[::2]},
        {"kind": "ask", "question": "Which?", "advice": {"source": "human", "text": words}},
        {"kind": "message", "role": "assistant", "content": words[::3]},
    ]
    return record(steps=[{**one, "seq": seq} for seq, one in enumerate(said, 1)])


def refused(kind, function):
    def read(text):
        with contextlib.suppress(kind):
            function(text)

    return read


def acts(size, names):
    return [Act(number, names[number % len(names)], str(number % 7), "") for number in range(size)]


ONE_HASH = 2**61 - 1
"""Multiples of it have one hash, and a set of them is a list that is searched for each."""
FIELDS = {"type": "object", "additionalProperties": False}


def form_of(size):
    fields = {f"f{number}": {"type": "integer", "enum": [1, 2]} for number in range(size)}
    typed = typed_of({"kind": "form", "response_schema": {**FIELDS, "required": list(fields), "properties": fields}})
    decisions.checked(typed, {"value": dict.fromkeys(fields, 2)}, [])


def references(size):
    part = {"anyOf": [{"$ref": "#/$defs/b"}, {"$ref": "#/$defs/b"}], "description": "x" * 20}
    names = {f"f{number}": {"$ref": "#/$defs/a"} for number in range(size)}
    typed_of({
        "kind": "form",
        "response_schema": {**FIELDS, "properties": names, "$defs": {"a": part, "b": {"type": "null"}}},
    })  # fmt: skip


def edited(size, verdict="edit"):
    """A decision that changes each of many arguments."""
    call = {"id": "1", "name": "put", "arguments": {f"a{number}": [number] for number in range(size)}}
    into = {f"b{number}": [number] for number in range(size)}
    return {"kind": "approval", "calls": [call]}, {"calls": [{"id": "1", "verdict": verdict, "arguments": into}]}


def decided(size):
    typed, decision = edited(size)
    decisions.checked(typed, decision, [])


def ask_card(size):
    typed, decision = edited(size)
    advice = {"source": "human", "text": "", "by": "person", "decision": decision}
    step_cards.card_of({"seq": 1, "kind": "ask", "question": "May I?", "typed": typed, "advice": advice})


def covered(size):
    values = {f"a{number}": [number] for number in range(size)}
    standing_answers.covers(StandingAnswer(tool="put", arguments=values), {"name": "put", "arguments": dict(values)})


def edits(size):
    """An episode of many edited calls, whose pairs have all that came before them as their prompt."""
    mark = {"verdict": "edit", "by": "person", "proposed": {"into": 8}}
    call = {"kind": "tool_call", "name": "merge", "arguments": {"into": 7}, "result": 1, "approval": mark}
    steps = [{"seq": 1, "kind": "message", "role": "user", "content": "Go."}]
    steps += [{**call, "seq": seq, "turn": seq} for seq in range(2, size + 2)]
    one = record(steps=steps, final_answer="x")
    list(dpo([ShapedEpisode(one, shape(one, "keep"), True)], PAIRS))


def one_turn(size):
    call = {"kind": "tool_call", "name": "see", "arguments": {}, "result": 1, "turn": 1}
    conversation([{**call, "seq": seq} for seq in range(1, size + 1)])


def one_row(kind, row):
    def read(size):
        rows = [row(number) for number in range(size)]
        tables.touched([{"seq": 1, "state_diff": {"t": {kind: rows}}}])

    return read


def in_order(size):
    calls = OpenCalls()
    for number in range(size):
        calls.add("", {"name": "a", "number": number}, 1)
    while calls.take("", "", 1) is not None:
        pass


PAIRS = Ground(Recipe.read({"format": "dpo"}))
NAMES = ["*a" * 40 + "*b", "[a-z]*" * 30 + "!"]
HELD_OUT = HeldOutTasks({
    "a/0": "Merge the newest duplicate ticket of Dock and close the older merge ticket of Dock for Ruben with a stamp",
    "a/1": "close the older one now",
})  # fmt: skip
PLACES = {
    "redaction: one token, then its beginnings": (lambda n: SECRETS.redact("eyJa.b " + "eyJ" * n), 60_000),
    "redaction: beginnings of every rule": (
        lambda n: SECRETS.redact("sk-//x/:_authToken=aws key bearer AKC://a:b@-----BEGIN PRIVATE KEY-----" * n), 500),
    "redaction: many secrets": (lambda n: SECRETS.redact_json('"' + "AKIAIOSFODNN7EXAMPLE\\n" * n + '"'), 500),
    "redaction: nearly mail addresses": (lambda n: PEOPLE.redact("!" * n + "a." * n + "@" * n + "a@b." * n), 4_000),
    "redaction: many mail addresses": (lambda n: PEOPLE.redact("a@b.de " * n), 500),
    "redaction: names with values": (lambda n: SECRETS.redact("a_password: b password=" * n + "token_" * n), 500),
    "redaction: nearly keys of 40 signs": (lambda n: SECRETS.redact(("aB3/" * 10 + ".") * n + "aB" * n), 300),
    "redaction: nearly account numbers": (lambda n: PEOPLE.redact("DE89 3704 " * n + "GB29" * n + "- - " * n), 500),
    "redaction: digits": (lambda n: PEOPLE.redact("4111 1111 " * n + "1" * n + "+1 " * n), 500),
    "distilled calls": (lambda n: shape(distilled(n), "distil"), 60_000),
    "distilled words": (lambda n: shape(advised(n), "distil"), 2_000),
    "rule of near tasks": (lambda n: NearTasks(["a b c " * 9]).holds_like("a b c " * n), 4_000),
    "rule of quoted verifiers": (lambda n: CODE.quoted_in("total sum row price for row " * n), 1_000),
    "verifiers in rows": (lambda n: any(VERIFIER.pieces_in("total sum row price for row in rows if " * n)), 1_000),
    "held-out tasks in texts": (lambda n: HELD_OUT.told_in(["close the older ticket of Dock now " * n], ""), 900),
    "recipes and plans": (refused(yaml_text.BadYaml, lambda n: yaml_text.read("[" + "a: &x 1, " * n)), 300),
    "YAML of many names": (lambda n: yaml_text.read("".join(f"k{i}: [1, {{a: b}}]\n" for i in range(n))), 300),
    "bodies of many values": (refused(BadJson, lambda n: parse_json(b"[" + b"1," * n + b"1]")), 8_000),
    "bodies of deep values": (refused(BadJson, lambda n: parse_json(b"[" * n + b"]" * n)), 4_000),
    "bodies of quotes": (refused(BadJson, lambda n: parse_json(b'["' + b'\\",' * n + b'"]')), 100_000),
    "rows of packs": (refused(rows.BadRow, lambda n: rows.parse(b'{"a":["' + b'\\",' * n + b'"]}')), 100_000),
    "alignment: one call over and over": (lambda n: align(acts(n, "a"), acts(n + 1, "ab")), 500),
    "alignment: two calls in turn": (lambda n: align(acts(n, "ab"), acts(n, "abb")), 150),
    "alignment: nothing equal": (lambda n: matches(range(n), range(n, 0, -1)), 2_000),
    "search: excerpt": (lambda n: search_text.excerpt_of("a " * n, "b " * 50), 20_000),
    "search: words": (lambda n: search_text.terms_of('-"a ' * n), 5_000),
    "pages: direction marks": (lambda n: plain_text.cleaned(b"\xe2\x80\xae" * n), 2_000),
    "pages: JSON of a result": (
        lambda n: step_cards.card_of(
            {"seq": 1, "kind": "tool_call", "name": "a", "arguments": {}, "result": '{"a" ' + '"\\"' * n}), 20_000),
    "tool calls in a text": (
        refused(MalformedCall, lambda n: toolcalls.text_calls("<think>" * n + "<tool_call>")), 20_000),
    "calls in an advice": (lambda n: toolcalls.advised_calls("```json\n" * n + "a(" * n, ["b"]), 1_000),
    "scripts that listen": (lambda n: listening.heard("(?:a+.*)+.*.*b", "a" * n), 50),
    "scripts that look around": (lambda n: listening.heard("(?:(?=.*.*.*b|a)(?!.*b)a)+b", "a" * n), 50),
    "secrets of an endpoint": (lambda n: blotting.blot("%41\\u0041&#65;" * n, frozenset({"secret-of-it"})), 2_000),
    "secrets in a receiver's answer": (lambda n: quoting.quoted("QUJD%41" * n, ["secret-of-it"]), 500),
    "drafts in an answer": (lambda n: similar.kept("a b " * n, "b a " * n), 500),
    "mentions": (lambda n: mentions._NAMED.findall("@" * n + "a." * n), 20_000),
    "decisions: forms": (form_of, 60),
    "decisions: references": (refused(ValidationError, references), 60),
    "decisions: edited calls": (decided, 200),
    "decisions: numbers of one hash": (
        lambda n: Checker(formats=True).misfit({"a": 0}, {"properties": {"a": {"enum": range_of(n)}}}), 400),
    "decisions: lists of one hash": (lambda n: Checker().misfit(range_of(n), {"uniqueItems": True}), 400),
    "decisions: names that come twice": (
        refused(Invalid, lambda n: parse_typed(json_of_names(n), "The decision")), 1_000),
    "decisions: cards": (ask_card, 200),
    "approvals: patterns": (lambda n: gates.is_gated("a" * n, NAMES), 20_000),
    "approvals: calls of a turn": (
        lambda n: gates.proposed([Call("put", {"n": [1] * 40})] * n, 1, ["writes"], "why"), 200),
    "approvals: standing answers": (covered, 300),
    "pairs of edited calls": (edits, 60),
    "pages: one row, changed often": (one_row("changed", lambda n: {"key": {}, "after": {f"c{n}": 1}}), 300),
    "pages: one row, removed often": (one_row("removed", lambda n: {"key": {"id": 1}, "row": {f"c{n}": 1}}), 300),
    "calls of one turn": (one_turn, 150),
    "rulings of a judge": (refused(ValueError, lambda n: judge._read("{" * n + "```" * n)), 5_000),
    **{name: (large_traces.reading(make), first) for name, (make, first) in large_traces.SIZES.items()},
    "spans: results in the order of calls": (in_order, 2_000),
    "requests of many spans": (refused(BadJson, lambda n: otlp.of_protobuf(wires.spans(n))), 800),
    "requests of many groups": (refused(BadJson, lambda n: otlp.of_protobuf(wires.groups(n))), 800),
    "requests of one large span": (refused(BadJson, lambda n: otlp.of_protobuf(wires.events(n))), 3_000),
    "requests of deep values": (refused(BadJson, lambda n: otlp.of_protobuf(wires.deep(n))), 3_000),
}  # fmt: skip


def range_of(size):
    return [ONE_HASH * number for number in range(1, size + 1)]


def json_of_names(size):
    return "{" + ",".join(f'"{number}":1' for number in [*range(size), size - 1]) + "}"


def spent(function, size):
    """Processor seconds of one call."""
    began = time.process_time()
    function(size)
    return time.process_time() - began


@pytest.mark.parametrize("place", PLACES)
def test_time_grows_no_faster_than_the_text(place):
    """The least of two counts for each size; the second of the larger is needed where the first would not do."""
    function, first = PLACES[place]
    small, large = round(first * SMALL), round(first * LARGE)
    most = MOST * large / small * max(min(spent(function, small) for _ in range(2)), LEAST_S)
    times = [spent(function, large)]
    if times[0] >= most:
        times.append(spent(function, large))
    assert max(min(times), LEAST_S) < most, (small, large, most, times)


def test_measure_sees_a_quadratic_loop():
    def quadratic(size):
        return sum(1 for _ in re.finditer("a+b", "a" * size))

    PLACES["quadratic"] = (quadratic, 300)
    try:
        with pytest.raises(AssertionError):
            test_time_grows_no_faster_than_the_text("quadratic")
    finally:
        del PLACES["quadratic"]


def test_each_row_of_the_table_has_its_measure():
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    table = text.split("## Where a stranger's text is read", 1)[1].split("\n## ", 1)[0]
    measured = [line.rsplit("|", 2)[1] for line in table.splitlines() if line.startswith("| ")][1:]
    assert {one.strip() for names in measured for one in names.split(";")} - {"none"} == set(PLACES)


def test_json_of_the_corpus_is_read():
    assert json.loads(SECRETS.redact_json('"AKIAIOSFODNN7EXAMPLE\\n"')) == "[redacted:aws_access_key]\n"

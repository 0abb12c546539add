"""What a stranger's spans can cost: memory is counted before it is taken, turns before threads, and reading is a
process of its own with limits."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import signal
import subprocess
import sys

import pytest

from episodes.models import Episode
from imports import otlp_http, trace_process
from imports.models import Trace, TraceSpan
from imports.readers import otlp, wire
from imports.readers.settled import Unsettled, WaitingTrace
from imports.record import collecting
from imports.trace_process import TraceReader
from people.errors import BadJson, Busy
from people.requests.turns import SenderTurns
from tests.imports import large_traces, wires
from tests.imports.spans import TRACE, gen_ai, request, span
from tests.imports.test_traces import TASK, sender, settle  # noqa: F401
from tests.running import ROOT

pytestmark = pytest.mark.attack("spans")
MEGABYTE = 1024 * 1024
MEASURE = """
import os, resource, sys
import django
django.setup()
from people.errors import BadJson
from imports.readers import otlp
from people.text.json_text import parse_json
otlp.of_json({"resourceSpans": []})
otlp.of_protobuf(b"")
for name in sys.argv[1:]:
    if os.fork():
        assert os.wait()[1] == 0
        continue
    with open(name, "rb") as file:
        raw = file.read()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        otlp.of_json(parse_json(raw)) if raw[:1] == b"{" else otlp.of_protobuf(raw)
    except BadJson:
        pass
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024, flush=True)
    os._exit(0)
"""
"""Reads each file in a process of its own, a fork of one that has imported the product."""
SWARMS = {
    "spans": lambda: wires.spans(8_000_000),
    "groups": lambda: wires.groups(8_000_000),
    "events": lambda: wires.events(8_000_000),
    "links": lambda: wires.links(8_000_000),
    "values": lambda: wires.values(8_000_000),
    "signs": lambda: wires.signs(31_000_000),
    "objects": lambda: b'{"resourceSpans": [{"scopeSpans": [{"spans": [' + b'{"a":0},' * 600_000 + b"{}]}]}]}",
}
MOST_MB = 200
"""Before, the first one took 1,400 MB."""


@pytest.fixture(scope="module")
def swarms(tmp_path_factory):
    """By name: how many bytes a request has on the way, and by how many megabytes the process grows that reads it."""
    folder = tmp_path_factory.mktemp("swarms")
    packed = {}
    for name, make in SWARMS.items():
        raw = make()
        (folder / name).write_bytes(raw)
        packed[name] = len(gzip.compress(raw))
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, *(folder / name for name in SWARMS)],
        capture_output=True, check=True, cwd=ROOT, env={**os.environ, "DJANGO_SETTINGS_MODULE": "awmweb.settings"},
    )  # fmt: skip
    return {name: (packed[name], int(grown)) for name, grown in zip(SWARMS, done.stdout.split(), strict=True)}


@pytest.mark.long
@pytest.mark.parametrize("name", SWARMS)
def test_memory_of_a_request_is_bounded(name, swarms):
    """Some kilobytes of gzip on the way: 16 MB of two-byte messages."""
    packed, grown = swarms[name]
    assert packed < 40_000 and grown < MOST_MB


def test_swarm_within_one_span_leaves_out_the_span_alone():
    swarm = wires.box(11, b"") * (otlp.FIELDS_MAX + 1)
    kept = wires.box(1, bytes.fromhex(TRACE)) + wires.box(2, b"12345678") + b"\x39" + b"\1" * 8 + b"\x41" + b"\1" * 8
    found = otlp.of_protobuf(wires.request(swarm, kept, wires.box(13, b"") * otlp.FIELDS_MAX))
    assert [one.id for one in found.kept] == [b"12345678".hex()]
    assert found.left_out == {otlp.SWARM: 1, otlp.NO_ID: 1}


def test_fields_are_counted_as_protobuf_makes_them():
    from google.protobuf.descriptor_pool import Default

    kind = wire.messages_in(Default().FindMessageTypeByName("opentelemetry.proto.trace.v1.Span"))
    value = wires.box(5, wires.box(1, wires.box(1, b"a" * 99)))  # a list of one text: seven fields in all
    span = wires.box(9, wires.box(1, b"key") + wires.box(2, value)) + b"\x39" + b"\1" * 8
    assert [wire.holds_more_than(span, most, kind) for most in (5, 6, 7)] == [True, True, False]


@pytest.mark.parametrize("raw", [b"\x0a", b"\x0a\x05a", b"\x80" * 11, b"\x0b\x0c", b"\x09\1\1", b"\x0a\x02\x0a\x05"])
def test_body_that_is_no_protobuf_is_refused(raw):
    with pytest.raises(BadJson, match="not an OTLP trace request"):
        otlp.of_protobuf(raw)


def test_what_spans_share_may_come_in_parts_and_behind_them():
    name = wires.box(1, wires.box(1, b"service.name") + wires.box(2, wires.box(1, b"desk")))
    ids = wires.box(1, bytes.fromhex(TRACE)) + wires.box(2, b"12345678") + b"\x39" + b"\1" * 8 + b"\x41" + b"\1" * 8
    group = wires.box(2, wires.box(2, ids) + wires.box(1, wires.box(1, b"scope")))
    (one,) = otlp.of_protobuf(wires.box(1, group + wires.box(1, b"") + wires.box(1, name))).kept
    assert (one.resource, one.scope) == ({"service.name": "desk"}, "scope")


# --- turns


class Threads:
    """Counts the requests that have a thread, and lets them end when it is told to."""

    def __init__(self):
        self.taken, self.served, self.may_end = 0, [], asyncio.Event()

    async def __call__(self, scope, receive, send):
        self.taken += 1
        await self.may_end.wait()
        self.taken -= 1
        self.served.append(scope["sender"])


async def with_body(app, scope, receive, send):
    await app(scope, receive, send)


async def sent(threads, who, answers):
    async def send(message):
        if message["type"] == "http.response.start":
            answers.append((who, message["status"], dict(message["headers"])))

    scope = {"path": "/v1/traces", "method": "POST", "headers": [(b"content-type", b"application/json")]}
    await otlp_http.in_turn(with_body, threads, {**scope, "sender": who}, None, send)


@pytest.fixture
def by_name(monkeypatch):
    async def named(scope):
        return scope["sender"]

    monkeypatch.setattr(otlp_http, "sender_of", named)
    monkeypatch.setattr(otlp_http, "OF_SENDER", SenderTurns(1, otlp_http.LINE))
    monkeypatch.setattr(otlp_http, "OF_ALL", SenderTurns(otlp_http.TOGETHER))


async def settled_down():
    for _ in range(50):
        await asyncio.sleep(0)


async def test_sender_of_many_requests_has_one_thread(by_name):
    threads, answers = Threads(), []
    many = [asyncio.create_task(sent(threads, "token:many", answers)) for _ in range(160)]
    await settled_down()
    assert threads.taken == 1
    assert len(answers) == 160 - 1 - otlp_http.LINE
    assert {(status, headers[b"retry-after"]) for _, status, headers in answers} == {(429, b"1")}
    other = asyncio.create_task(sent(threads, "token:other", answers))
    await settled_down()
    assert threads.taken == 2
    threads.may_end.set()
    await asyncio.gather(other, *many)
    assert threads.served.count("token:many") == 1 + otlp_http.LINE and "token:other" in threads.served


async def test_requests_of_many_senders_have_few_threads(by_name, monkeypatch):
    monkeypatch.setattr(otlp_http, "WAIT_S", 0.01)
    threads, answers = Threads(), []
    all_of_them = [asyncio.create_task(sent(threads, f"token:{number}", answers)) for number in range(40)]
    while len(answers) < 40 - otlp_http.TOGETHER:
        await asyncio.sleep(0.01)
    assert threads.taken == otlp_http.TOGETHER
    threads.may_end.set()
    await asyncio.gather(*all_of_them)


async def test_line_that_is_full_is_busy_immediately_and_free_again():
    turns = SenderTurns(1, 1)
    async with turns.turn("a", 5):
        waits = asyncio.create_task(entered(turns))
        await asyncio.sleep(0)
        with pytest.raises(Busy):
            await entered(turns)
    await waits
    await entered(turns)


async def entered(turns):
    async with turns.turn("a", 5):
        pass


# --- the process that reads


@pytest.fixture
def reader(request):
    """A reader whose child has 20 s of processor time for a trace, and 60 MB, or what a test says."""
    cpu_s, megabytes = getattr(request, "param", (20, 60))
    found = TraceReader(cpu_s, megabytes * MEGABYTE)
    yield found
    if found._child is not None:
        found._ended(found._child)


def small(name=TRACE):
    return WaitingTrace(name, [json.dumps(one.as_json()) for one in otlp.of_json(request(*gen_ai(TASK))).kept])


def slow():
    """A trace that takes several seconds: many small messages, each with a step."""
    said = [{"role": "user", "parts": [{"type": "text", "content": f"{number}"}]} for number in range(40_000)]
    spans = [large_traces.made(one, {**large_traces.MODEL, large_traces.GIVEN: said}) for one in range(1, 13)]
    return large_traces.waiting(spans, "2" * 32)


@pytest.mark.parametrize("reader", [(1, 900)], indirect=True)
def test_trace_over_the_limit_of_time_is_named(reader):
    why = reader.read(slow())
    assert why == Unsettled(*[trace_process.OVER_TIME.format(1)] * 2)
    assert reader.read(small()).episode["task"] == TASK


def test_trace_over_the_limit_of_memory_is_named(reader):
    spans = large_traces.lists_in_a_result(1_500_000)
    why = reader.read(large_traces.waiting(spans))
    assert "of memory" in why.problem
    assert reader.read(small()).episode["task"] == TASK


def test_child_that_was_killed_is_another_ones_fault(reader):
    assert reader.read(small()).episode["task"] == TASK
    os.kill(reader._child.pid, signal.SIGKILL)
    assert reader.read(small()).episode["task"] == TASK


def test_child_that_ends_each_time_is_given_up(reader, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert "after 2 attempts" in reader.read(small()).problem and "exit status 1" in reader.read(small()).problem


def test_child_has_no_connection_to_the_database(reader):
    reader.read(small())
    names = [os.readlink(f"/proc/{reader._child.pid}/fd/{one}") for one in os.listdir(f"/proc/{reader._child.pid}/fd")]
    assert not [one for one in names if one.startswith("socket:")]


@pytest.mark.django_db
def test_trace_over_a_limit_stops_no_other(sender, reader, monkeypatch):  # noqa: F811
    monkeypatch.setattr(collecting, "READER", reader)
    sender(request({**span(1, "large", 0, 1, {}), "traceId": "2" * 32}))
    large = json.dumps(large_traces.lists_in_a_result(1_500_000)[0].as_json())
    TraceSpan.objects.filter(trace__name="2" * 32).update(body=json.loads(large))
    sender(request(*gen_ai(TASK)))
    assert settle() == 2
    assert Episode.objects.get().task == TASK
    over = Trace.objects.get(name="2" * 32)
    assert "of memory" in over.problem and not over.is_waiting
    assert settle() == 0


@pytest.mark.django_db
def test_span_that_comes_while_its_trace_is_read_is_read_too(sender, monkeypatch):  # noqa: F811
    spans, read = gen_ai(TASK), collecting.READER.read

    def meanwhile(trace):
        if len(trace.spans) < len(spans):
            sender(request(spans[5]))
        return read(trace)

    monkeypatch.setattr(collecting.READER, "read", meanwhile)
    sender(request(*spans[:5]))
    assert settle() == 0 and not Episode.objects.exists() and Trace.objects.get().is_waiting
    assert settle() == 1
    assert Episode.objects.get().final_answer == "Merged into 7."


@pytest.mark.django_db
def test_call_while_traces_are_settled_is_not_lost(sender, monkeypatch):  # noqa: F811
    read, calls = collecting.READER.read, []

    def meanwhile(trace):
        if not calls:
            sender(request(*({**one, "traceId": "2" * 32} for one in gen_ai("Close ticket 9."))))
            Trace.objects.filter(name="2" * 32).update(heard_at="2025-01-01T00:00:00Z")
            calls.append(collecting.settle())
        return read(trace)

    monkeypatch.setattr(collecting.READER, "read", meanwhile)
    sender(request(*gen_ai(TASK)))
    assert (settle(), calls) == (2, [0])


@pytest.mark.django_db
def test_small_traces_are_read_before_large_ones(sender, monkeypatch):  # noqa: F811
    read, order = collecting.READER.read, []
    monkeypatch.setattr(collecting.READER, "read", lambda trace: order.append(trace.name[0]) or read(trace))
    for name, size in (("2", 5_000), ("3", 50), ("4", 500)):
        sender(request({**span(1, "large", 0, 1, {"x": "a" * size}), "traceId": name * 32}))
    settle()
    assert order == ["3", "4", "2"]

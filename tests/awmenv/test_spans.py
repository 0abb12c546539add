"""Spans in one process: what leaves, what a lost collector costs, and that nothing is loaded without one."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from types import SimpleNamespace

import pytest

from awmenv import spans
from awmenv.models import kind_of
from awmenv.server.settings import BadSetting, Settings

HEADER = f"00-{'a' * 32}-{'b' * 16}-01"


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)


def test_span_without_a_collector_is_nothing():
    with spans.span("a", spans.SERVER, carried=HEADER, episode="x") as made:
        spans.note("b", failed=True, state="c")
        assert (made, spans.carried(), spans.trace_id(), spans.are_on()) == (None, "", "", False)
    loaded = "import sys, awmenv.spans, awmenv.client; print([one for one in sys.modules if 'opentelemetry' in one])"
    assert run(loaded).stdout == "[]\n"


RECORDED = """
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
import opentelemetry.trace
from awmenv import spans
kept = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(kept))
spans._api, spans._tracer = opentelemetry.trace, provider.get_tracer("test")
"""


def test_attribute_without_its_form_is_left_out():
    """And the words of an error."""
    code = """
try:
    with spans.span("a", carried="00-%s-%s-01" % ("a" * 32, "b" * 16), episode="my secret", project="lab"):
        with spans.span("b", after=spans.carried(), turn=3, run="1m8esm9ywgk404gty7ca", error="x y"):
            raise ValueError("secret")
except ValueError:
    pass
with spans.span("c", carried="nonsense"):
    spans.note("d", status=200, route="a/<str:b>")
for one in kept.get_finished_spans():
    parent = f"{one.parent.span_id:016x}" if one.parent else ""
    print(one.name, dict(one.attributes), parent, len(one.links), len(one.events), one.status.status_code.name)
"""
    assert run(RECORDED + code).stdout.splitlines() == [
        "b {'awmweb.turn': 3, 'awmweb.run': '1m8esm9ywgk404gty7ca', 'error.type': 'ValueError'}  1 0 ERROR",
        f"a {{'awmweb.project': 'lab', 'error.type': 'ValueError'}} {'b' * 16} 0 0 ERROR",
        "d {'http.response.status_code': 200, 'http.route': 'a/<str:b>'}  0 0 UNSET",
    ]


AWAY = """
import logging, time
logging.basicConfig(format="LINE %(message)s")
from awmenv import spans
spans.start("test", "1", "http://127.0.0.1:{port}")
began = time.monotonic()
for _ in range(5000):
    with spans.span("a"):
        pass
print("made", time.monotonic() - began)
time.sleep(3)
import atexit
ending = []
atexit.register(lambda: ending.append(time.monotonic()))  # runs first
import sys
class Last:
    def __del__(self): sys.__stdout__.write(f"ended {{time.monotonic() - ending[0]}}\\n")
last = Last()
"""


@pytest.mark.parametrize("how", ["refuses", "is silent"])
def test_collector_that_is_away_delays_nothing(how):
    """The queue is bounded, the log has one line, and the process ends within two seconds."""
    with socket.socket() as line:
        line.bind(("127.0.0.1", 0))
        if how == "is silent":
            line.listen(1)
        done = run(AWAY.format(port=line.getsockname()[1]))
    made, ended = (float(found) for found in re.findall(r"(?:made|ended) ([\d.]+)", done.stdout))
    assert made < 2.5 and ended < 2, done.stdout
    lines = done.stderr.splitlines()
    assert len(lines) <= 1 and all("did not take" in one for one in lines), done.stderr


def test_lost_spans_are_counted_in_one_line_a_minute(caplog, monkeypatch):
    """Those that the collector refused, and those that did not fit the queue."""
    refuses = SimpleNamespace(export=lambda batch: SimpleNamespace(name="FAILURE"))
    sender = spans._Sender(refuses, "http://collector")
    sender.ended = 5000
    sender.export([0] * 256)
    sender.export([0] * 256)
    said = [f"the collector at http://collector did not take {256 + 5000 - 256 - spans.QUEUE} spans"]
    assert caplog.messages == said
    monkeypatch.setattr(spans, "QUIET_S", 0.0)
    refuses.export = lambda batch: SimpleNamespace(name="SUCCESS")
    sender.export([0] * 256)
    sender.export([0] * 256)
    assert caplog.messages == [*said, "the collector at http://collector did not take 256 spans"]


@pytest.mark.parametrize(
    "address", ["127.0.0.1:4318", "http://me:pass@host", "http://host?key=1", "file:///a", "http://a:b"]
)
def test_address_of_a_collector_is_checked(address):
    with pytest.raises(BadSetting, match="AWMENV_TRACES_TO"):
        Settings.from_environment({"AWMENV_TRACES_TO": address})
    assert Settings.from_environment({"AWMENV_TRACES_TO": "https://host/otlp/"}).traces_to == "https://host/otlp"


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ({"type": "reset", "data": {}}, "reset"),
        ({"type": "step", "data": {"type": "list_tools"}}, "list_tools"),
        ({"type": "step", "data": {"tool_name": "their_words", "arguments": {}}}, "call_tool"),
        ({"type": "step", "data": {"tool_name": "verify"}}, "verify"),
        ({"type": "step", "data": {"tool_name": "__list_scenarios__"}}, "list_scenarios"),
    ],
)
def test_kind_of_a_message_is_no_name_of_a_tool(message, kind):
    assert kind_of(message) == kind

"""Spans in one process: what leaves, what a lost collector costs, and that nothing is loaded without one."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest

from awmenv import spans
from awmenv.client import EnvironmentClient
from awmenv.models import kind_of
from awmenv.server.settings import BadSetting, Settings
from tests.awmenv.hostile_packs import pack

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
    """The queue is bounded, the log has one line, and the process waits two seconds for it at its end."""
    with socket.socket() as line:
        line.bind(("127.0.0.1", 0))
        if how == "is silent":
            line.listen(1)
        done = run(AWAY.format(port=line.getsockname()[1]))
    made, ended = (float(found) for found in re.findall(r"(?:made|ended) ([\d.]+)", done.stdout))
    # the library alone would wait 30 s for its collector at the end; a busy machine adds to the two of ours
    assert made < 10 and ended < 10, done.stdout
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


KEY = "collector-key-0123456789"
LOOK = """
import glob, os
def verify_task_completion(a, b):
    seen = [str(dict(os.environ))]
    for name in glob.glob('/proc/*/environ') + ['/proc/%d/environ' % one for one in (1, os.getppid(), os.getpid())]:
        try:
            seen.append(open(name, 'rb').read().decode(errors='replace'))
        except OSError:
            pass
    return {'seen': seen}
"""


class Collector(BaseHTTPRequestHandler):
    """Keeps the key and the bytes of each message."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.sent.append((self.headers.get("x-key"), body))  # type: ignore[attr-defined]
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.attack("apps")
async def test_tool_reads_no_key_of_the_collector(make_server, tmp_path, monkeypatch):
    """The server that hosts the tool sends spans with the key meanwhile."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as collector:
        collector.sent = []  # type: ignore[attr-defined]
        threading.Thread(target=collector.serve_forever, daemon=True).start()
        traced = {"AWMENV_TRACES_TO": f"http://127.0.0.1:{collector.server_port}"}
        server = make_server(pack(tmp_path / "pack"), OTEL_EXPORTER_OTLP_HEADERS=f"x-key={KEY}", **traced)
        monkeypatch.setattr(spans, "carried", lambda: HEADER)  # as in a process that sends spans, too
        async with EnvironmentClient(server.url) as env:
            await env.reset(scenario="open_1")
            looked = await env.call_tool("run_code", {"code": LOOK})
        server.stop()
        collector.shutdown()
    seen = json.loads(looked.tool_result)["seen"]
    assert "DATABASE_PATH" in seen[0] and KEY not in str(seen) and "OTEL_" not in str(seen)
    assert {key for key, _ in collector.sent} == {KEY}  # type: ignore[attr-defined]

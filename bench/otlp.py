"""Spans of OpenTelemetry: how many are kept a second, and how many become steps.

Senders post gzipped protobuf with 512 spans each, as the SDK's exporter does: traces of ten turns with a model's span
and a tool's. The limit is PostgreSQL's time for the same rows (`COPY` of spans as they are kept, of steps as they are
stored) in the same run. `BENCH_SPANS` (by default 40,000) sets the size. Run as `python bench/otlp.py`; one JSON object
a line.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import psycopg

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from awmweb.embedded import urls  # noqa: E402
from tests.running import Product, product  # noqa: E402

SPANS = int(os.environ.get("BENCH_SPANS", "40000"))
AIM = 5_000
SENDERS, BATCH, TURNS, SETTLE_S = 2, 512, 10, 300.0
SECOND, START = 10**9, 1_764_201_600_000_000_000
TEXT = "The pump on the second floor grinds since Monday, and the customer asks when someone looks at it. " * 3
HEADERS = {"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip"}


def spans_of(trace: int) -> Iterator[dict[str, Any]]:
    """Yield the spans of a trace: an agent's, and a model's with a tool's for each turn."""
    asked = [{"role": "user", "parts": [{"type": "text", "content": f"Go through the tickets of customer {trace}."}]}]
    yield {"id": 1, "parent": 0, "name": "invoke_agent desk", "at": 0, "took": 2 * TURNS + 1, "attributes": {
        "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "desk",
    }}  # fmt: skip
    for turn in range(1, TURNS + 1):
        call = {"type": "tool_call", "id": f"c{turn}", "name": "get_ticket", "arguments": {"id": turn, "of": trace}}
        said = [{"role": "assistant", "parts": [{"type": "text", "content": f"{turn}: {TEXT}"}, call]}]
        yield {"id": 2 * turn, "parent": 1, "name": "chat m-1", "at": 2 * turn - 1, "took": 1, "attributes": {
            "gen_ai.operation.name": "chat", "gen_ai.request.model": "m-1",
            "gen_ai.usage.input_tokens": 100, "gen_ai.usage.output_tokens": 50,
            "gen_ai.input.messages": json.dumps(asked), "gen_ai.output.messages": json.dumps(said),
        }}  # fmt: skip
        yield {"id": 2 * turn + 1, "parent": 1, "name": "execute_tool", "at": 2 * turn, "took": 1, "attributes": {
            "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "get_ticket",
            "gen_ai.tool.call.id": f"c{turn}",
            "gen_ai.tool.call.result": json.dumps({"id": turn, "customer": trace, "text": TEXT}),
        }}  # fmt: skip


def bodies() -> list[bytes]:
    """Return the requests, each with spans in the order in which they end."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    per_trace = 2 * TURNS + 1
    ended = [
        (trace, one)
        for trace in range(1, SPANS // per_trace + 1)
        for one in sorted(spans_of(trace), key=lambda one: one["at"] + one["took"])
    ]
    found = []
    for first in range(0, len(ended), BATCH):
        request: Any = ExportTraceServiceRequest()
        group = request.resource_spans.add().scope_spans.add()
        for trace, one in ended[first : first + BATCH]:
            span = group.spans.add()
            span.trace_id, span.span_id = trace.to_bytes(16, "big"), one["id"].to_bytes(8, "big")
            span.parent_span_id = one["parent"].to_bytes(8, "big") if one["parent"] else b""
            span.name = one["name"]
            span.start_time_unix_nano = START + one["at"] * SECOND
            span.end_time_unix_nano = span.start_time_unix_nano + one["took"] * SECOND
            for name, value in one["attributes"].items():
                pair = span.attributes.add()
                pair.key = name
                setattr(pair.value, "int_value" if isinstance(value, int) else "string_value", value)
        found.append(gzip.compress(request.SerializeToString(), 1))
    return found


def sent(web: Product, given: Sequence[bytes]) -> float:
    """Send all requests from a few senders, and return how long that took."""
    secret, failures = web.token("agent"), []
    waiting = list(reversed(given))

    def send() -> None:
        with httpx.Client(headers={**HEADERS, "Authorization": f"Bearer {secret}"}, timeout=60) as client:
            while True:
                try:
                    body = waiting.pop()
                except IndexError:
                    return
                while (answer := client.post(f"{web.url}/v1/traces", content=body)).status_code == 429:
                    time.sleep(0.1)
                if answer.status_code != 200 or answer.content:
                    failures.append(answer.text)

    threads = [threading.Thread(target=send) for _ in range(SENDERS)]
    began = time.perf_counter()
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    if failures:
        raise SystemExit(f"refused: {failures[0][:500]}")
    return time.perf_counter() - began


def settled(database: psycopg.Connection[Any]) -> float:
    """Wait until every trace is an episode, and return how long that took."""
    began = time.perf_counter()
    while time.perf_counter() - began < SETTLE_S:
        (left,) = database.execute("SELECT count(*) FROM imports_trace WHERE is_waiting").fetchone() or (1,)
        if not left:
            return time.perf_counter() - began
        time.sleep(0.05)
    raise SystemExit(f"traces still wait after {SETTLE_S:g} s")


def copied(database: psycopg.Connection[Any], table: str, columns: str) -> float:
    """Return how many rows of a table PostgreSQL takes a second as prepared rows, with the same checks and indexes."""
    with database.cursor() as cursor:
        with cursor.copy(f"COPY (SELECT {columns} FROM {table}) TO STDOUT") as found:
            rows = b"".join(map(bytes, found))
        cursor.execute(f"CREATE TABLE bare (LIKE {table} INCLUDING ALL)")
        began = time.perf_counter()
        with cursor.copy(f"COPY bare ({columns}) FROM STDIN") as copy:
            copy.write(rows)
        took = time.perf_counter() - began
        cursor.execute("DROP TABLE bare")
    return rows.count(b"\n") / took


def row(name: str, value: float, unit: str, limit: float, **conditions: object) -> None:
    figures = {"name": name, "value": round(value, 1), "unit": unit, "limit": round(limit, 1)}
    print(json.dumps({**figures, "ratio": round(value / limit, 3), "conditions": conditions}), flush=True)


def main() -> None:
    given = bodies()
    spans = SPANS // (2 * TURNS + 1) * (2 * TURNS + 1)
    with product() as web, psycopg.connect(urls(web.var).database, autocommit=True) as database:
        sent(web, given[:1])  # imports of the first request
        about = {"aim": f"{AIM:,} spans/s", "spans": spans, "senders": SENDERS, "spans_a_request": BATCH}
        about |= {"cores": os.cpu_count(), "load": round(os.getloadavg()[0], 2)}
        took = sent(web, given[1:])
        kept = (spans - BATCH) / took
        # while spans still have bodies: once their steps are stored they have none
        limit = copied(database, "imports_tracespan", "trace_id, name, body")
        row("otlp_kept", kept, "spans/s", limit, seconds=round(took, 2), beside="COPY FROM of the same rows", **about)
        more = settled(database)
        (steps,) = database.execute("SELECT count(*) FROM episodes_step").fetchone() or (0,)
        limit = copied(database, "episodes_step", "episode_id, seq, kind, body, cut, at") * spans / steps
        row("otlp_stored", spans / (took + more), "spans/s", limit, seconds=round(took + more, 2), steps=steps, **about)


if __name__ == "__main__":
    main()

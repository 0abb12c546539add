"""Spans of our own processes for a collector of OpenTelemetry; until `start`, nothing of it is loaded or done.

Owns which words leave: names are constants of the code, and an attribute is an ID, a template or a number that has the
form in `ATTRIBUTES`: never a word of an agent, a person, a scenario or a verifier. The provider is ours alone, so spans
of libraries, which hold more, are not sent. A thread of its own sends them: a collector that is slow or unavailable
delays nothing, and costs the spans that do not fit the queue.

    with spans.span("task", spans.CONSUMER, carried=header, task="runs.tasks.play"):
        ...
"""

import atexit
import contextlib
import importlib.util
import logging
import re
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any
from urllib.parse import urlsplit

log = logging.getLogger(__name__)
INTERNAL, SERVER, CLIENT, PRODUCER, CONSUMER = "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER"
HEADER = "traceparent"
_ID = re.compile(r"[0-9a-z]{20}")
ATTRIBUTES: dict[str, tuple[str, re.Pattern[str]]] = {
    "request": ("awmweb.request", re.compile(r"[0-9a-f]{32}")),
    "episode": ("awmweb.episode", _ID),
    "ask": ("awmweb.ask", _ID),
    "run": ("awmweb.run", _ID),
    "project": ("awmweb.project", re.compile(r"[a-z0-9-]{1,60}")),
    "turn": ("awmweb.turn", re.compile(r"\d{1,9}")),
    "task": ("awmweb.task", re.compile(r"[a-z_.]{1,100}")),
    "call": ("awmweb.call", re.compile(r"[a-z_]{1,40}")),
    "state": ("awmweb.state", re.compile(r"[a-z_]{1,40}")),
    "route": ("http.route", re.compile(r"[!-~]{1,200}")),
    "method": ("http.request.method", re.compile(r"[A-Z]{1,10}")),
    "status": ("http.response.status_code", re.compile(r"\d{1,3}")),
    "error": ("error.type", re.compile(r"\w{1,80}", re.ASCII)),
}
"""Every attribute of a span: its name at the collector, and the form without which a value is left out."""
ADDRESS = "the base address of a collector for OTLP over HTTP, such as http://127.0.0.1:4318"
PACKAGES = "the packages of requirements-extras.lock. Run: make install-extras"
QUEUE, BATCH = 2048, 256
SEND_S, END_S = 1.0, 1.5
"""Between two sends, and the longest wait at the end of a process."""
QUIET_S = 60.0
"""Between two lines of the log about spans that were lost."""
_tracer: Any = None
_api: Any = None
_end_asked = threading.Event()
_nothing: AbstractContextManager[None] = contextlib.nullcontext()


class _Sender:
    """The exporter, whose failures are one line of the log a minute and stop nothing."""

    def __init__(self, exporter: Any, address: str) -> None:
        self._exporter, self._address = exporter, address
        self.ended = self._taken = self._full = self._lost = 0
        self._said = -QUIET_S

    def export(self, batch: Any) -> Any:
        self._taken += len(batch)
        # what ended, and neither was taken nor fits the queue, was pushed out of it
        full = max(self._full, self.ended - self._taken - QUEUE)
        self._lost, self._full = self._lost + full - self._full, full
        result = self._exporter.export(batch)
        if result.name != "SUCCESS":
            self._lost += len(batch)
        if self._lost and time.monotonic() - self._said >= QUIET_S:
            log.warning("the collector at %s did not take %d spans", self._address, self._lost)
            self._lost, self._said = 0, time.monotonic()
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()


_sender: _Sender | None = None


def is_address(text: str) -> bool:
    """Return whether a text is a base address. A query or a password would be shown in the log."""
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return False
    return (
        parts.scheme in ("http", "https")
        and bool(parts.hostname)
        and not (parts.query or parts.username or "@" in parts.netloc)
    )


def are_possible() -> bool:
    """Return whether the packages are installed, without loading them."""
    try:
        return importlib.util.find_spec("opentelemetry.exporter.otlp.proto.http") is not None
    except ModuleNotFoundError:
        return False


def start(service: str, version: str, address: str) -> None:
    """Send spans of this process to the collector at a base address from now on; its headers and what is sampled
    follow OpenTelemetry's own variables. Called in the process itself, because its thread does not survive a fork."""
    global _tracer, _api, _sender
    import opentelemetry.trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    # it writes a line for each try, with the words of the collector
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
    about = {"service.namespace": "awmweb", "service.name": f"awmweb-{service}", "service.version": version}
    _sender = _Sender(OTLPSpanExporter(endpoint=f"{address}/v1/traces"), address)
    provider = TracerProvider(resource=Resource.create(about), shutdown_on_exit=False)
    provider.add_span_processor(
        BatchSpanProcessor(
            _sender,  # type: ignore[arg-type]
            max_queue_size=QUEUE,
            schedule_delay_millis=SEND_S * 1000,
            max_export_batch_size=BATCH,
        )
    )

    def close() -> None:
        _end_asked.wait()
        provider.shutdown()

    def end() -> None:
        _end_asked.set()
        closing.join(END_S)

    # made now, because no thread can be started at the end of a process
    closing = threading.Thread(target=close, name="spans", daemon=True)
    closing.start()
    atexit.register(end)
    _api, _tracer = opentelemetry.trace, provider.get_tracer("awmweb", version)


def are_on() -> bool:
    return _tracer is not None


def span(
    name: str,
    kind: str = INTERNAL,
    *,
    carried: str | None = None,
    after: str = "",
    marks: bool = True,
    **attributes: object,
) -> AbstractContextManager[None]:
    """Return a span around a block.

    Its parent is the span around it; with `carried` the one of that header, and none for "". A span `after` another one
    begins its own trace and has a link to that one. `marks`: an error that leaves the block is one of the span.
    """
    if _tracer is None:
        return _nothing
    return _made(name, kind, "" if after else carried, after, marks, attributes)


@contextlib.contextmanager
def _made(
    name: str, kind: str, carried: str | None, after: str, marks: bool, attributes: dict[str, object]
) -> Iterator[None]:
    links = [_api.Link(context) for header in (after,) if (context := _context_of(header)) is not None]
    with _tracer.start_as_current_span(
        name,
        context=None if carried is None else _context_with(carried),
        kind=getattr(_api.SpanKind, kind),
        attributes=_fitting(attributes),
        links=links,
        record_exception=False,  # the words of an error can be those of an agent
        set_status_on_exception=False,
    ) as made:
        try:
            yield
        except Exception as error:
            if marks:
                made.set_attributes(_fitting({"error": type(error).__name__}))
                made.set_status(_api.StatusCode.ERROR)
            raise
        finally:
            if _sender is not None and made.get_span_context().trace_flags.sampled:
                _sender.ended += 1


def note(name: str = "", *, failed: bool = False, **attributes: object) -> None:
    """Add to the span around this: attributes, a better name, that it failed."""
    if _tracer is None:
        return
    current = _api.get_current_span()
    current.set_attributes(_fitting(attributes))
    if name:
        current.update_name(name)
    if failed:
        current.set_status(_api.StatusCode.ERROR)


def carried() -> str:
    """Return the header that names the span around this; "" outside one."""
    context = _current()
    if context is None:
        return ""
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"


def trace_id() -> str:
    """Return the trace of the span around this; "" outside one."""
    context = _current()
    return "" if context is None else f"{context.trace_id:032x}"


def _current() -> Any:
    if _tracer is None:
        return None
    context = _api.get_current_span().get_span_context()
    return context if context.is_valid else None


_FORM = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")


def _context_of(header: str) -> Any:
    match = _FORM.fullmatch(header)
    if match is None:
        return None
    trace, parent, flags = (int(part, 16) for part in match.groups())
    context = _api.SpanContext(trace, parent, is_remote=True, trace_flags=_api.TraceFlags(flags))
    return context if context.is_valid else None


def _context_with(header: str) -> Any:
    remote = _context_of(header)
    parent = _api.INVALID_SPAN if remote is None else _api.NonRecordingSpan(remote)
    return _api.set_span_in_context(parent)


def _fitting(attributes: dict[str, object]) -> dict[str, str | int]:
    """Return the attributes whose values have their form, under the names of the collector."""
    fitting: dict[str, str | int] = {}
    for name, value in attributes.items():
        label, form = ATTRIBUTES[name]
        if value is not None and form.fullmatch(str(value)):
            fitting[label] = value if isinstance(value, int) else str(value)
    return fitting

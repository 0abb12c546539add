"""Spans of OpenTelemetry: the body of an OTLP request, protobuf or JSON -> `Span`. Pure.

Owns what a span must have to be kept. Leaves what spans mean to `traces.py`.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from imports.readers import wire
from people.errors import BadJson
from people.text.json_text import is_deep

VALUES_MAX = 2_000_000
"""Values of a request, of its spans too."""
GROUPS, ABOUT, INSIDE = 1, 1, 2
"""Fields: of a request its groups of spans; of a group, and of one in it, what its spans share, and what is in it."""
BOXES_MAX = 100_000
"""Spans of a request, and the groups that hold them."""
FIELDS_MAX = 200_000
"""Fields of one span of protobuf, counted before it is made: each takes a hundred bytes and more of memory."""
SERVICE, NAME_MAX = "service.name", 200
TRACE, SPAN = re.compile(r"[0-9a-f]{32}"), re.compile(r"[0-9a-f]{16}")
SPAN_CHARACTERS = 4_000_000
"""The largest span, written as JSON."""
IS_REMOTE = 0x300
"""Both bits of a span's flags that say that its parent is in another process."""
ERRORS = (2, "STATUS_CODE_ERROR")
MANY = f"The body has more than {BOXES_MAX:,} spans and groups of spans. Send fewer at a time."
UNREADABLE = "that are no objects"
NO_ID = "without a trace ID and a span ID"
NO_TIMES = "without a start and an end"
SWARM = f"with more than {FIELDS_MAX:,} fields"
LARGE = f"with more than {SPAN_CHARACTERS:,} characters"


@dataclass(frozen=True, slots=True)
class Span:
    """One span with plain values: times in nanoseconds, attributes as a JSON object."""

    trace: str
    id: str
    parent: str
    name: str
    start: int
    end: int
    attributes: dict[str, Any]
    resource: dict[str, Any]
    events: list[dict[str, Any]]
    scope: str = ""
    failed: bool = False
    message: str = ""
    is_remote: bool = False

    @property
    def is_root(self) -> bool:
        """Whether its process has no span above it."""
        return not self.parent or self.is_remote

    def as_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass
class Spans:
    """The spans of a body, and how many were left out, by reason."""

    kept: list[Span] = field(default_factory=list)
    texts: dict[tuple[str, str], str] = field(default_factory=dict)
    """Spans as JSON, by the IDs of their traces and their own: large ones were written to be measured."""
    left_out: Counter[str] = field(default_factory=Counter)


def of_protobuf(raw: bytes, most: int = VALUES_MAX) -> Spans:
    """Read an `ExportTraceServiceRequest` of at most `most` values. Raises `BadJson`.

    Its spans are found on the wire and made one by one, each only if it has few enough fields.
    """
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    try:
        return _ProtobufReader(raw, most).spans()
    except (DecodeError, wire.BadWire) as error:
        raise BadJson("The body is not an OTLP trace request in protobuf.") from error


class _ProtobufReader:
    """Reads a request of protobuf up to a number of values, and makes no more than one span of it at a time."""

    def __init__(self, raw: bytes, most: int) -> None:
        from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
        from opentelemetry.proto.resource.v1.resource_pb2 import Resource
        from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage

        self._raw, self._left, self._boxes = raw, most, BOXES_MAX
        self._resource, self._scope, self._span = Resource, InstrumentationScope, SpanMessage
        self._inner = {one: wire.messages_in(one.DESCRIPTOR) for one in (Resource, InstrumentationScope, SpanMessage)}
        self._found = Spans()

    def spans(self) -> Spans:
        for start, end in self._parts(0, len(self._raw))[GROUPS]:
            group = self._parts(start, end)
            about = self._made(self._resource, group[ABOUT])
            resource = _named(self._pairs(about.attributes)) if about is not None else {}
            for inner_start, inner_end in group[INSIDE]:
                inner = self._parts(inner_start, inner_end)
                about = self._made(self._scope, inner[ABOUT])
                scope = about.name[:NAME_MAX] if about is not None else ""
                for bounds in self._each(inner[INSIDE]):
                    self._add(self._made(self._span, [bounds]), resource, scope, bounds[1] - bounds[0])
        return self._found

    def _parts(self, start: int, end: int) -> dict[int, list[tuple[int, int]]]:
        """Return where the fields 1 and 2 of a message are."""
        parts: dict[int, list[tuple[int, int]]] = {1: [], 2: []}
        for number, first, last in wire.boxes(self._raw, start, end):
            self._boxes -= 1
            if self._boxes < 0:
                raise BadJson(MANY)
            if number in parts:
                parts[number].append((first, last))
        return parts

    def _made(self, kind: Any, parts: Sequence[tuple[int, int]]) -> Any:
        """Return a message that was sent in one part or several, or None if it has too many fields."""
        text = b"".join(self._raw[first:last] for first, last in parts)  # joined parts are merged messages
        return None if wire.holds_more_than(text, FIELDS_MAX, self._inner[kind]) else kind.FromString(text)

    def _add(self, message: Any, resource: dict[str, Any], scope: str, size: int) -> None:
        if message is None:
            self._found.left_out[SWARM] += 1
            return
        events = [
            {"name": event.name, "time": event.time_unix_nano, "attributes": self._pairs(event.attributes)}
            for event in self._each(message.events)
        ]
        span = Span(
            message.trace_id.hex(),
            message.span_id.hex(),
            message.parent_span_id.hex(),
            message.name,
            message.start_time_unix_nano,
            message.end_time_unix_nano,
            self._pairs(message.attributes),
            resource,
            events,
            scope,
            message.status.code in ERRORS,
            message.status.message,
            message.flags & IS_REMOTE == IS_REMOTE,
        )
        # before it is written as JSON, which takes six bytes for one of some signs
        if size > SPAN_CHARACTERS and _characters(span) > SPAN_CHARACTERS:
            self._found.left_out[LARGE] += 1
        else:
            _keep(self._found, span)

    def _each(self, values: Any) -> Any:
        self._left -= len(values)
        if self._left < 0:
            raise BadJson("The body holds too many values.")
        return values

    def _pairs(self, pairs: Any) -> dict[str, Any]:
        return {one.key: self._value(one.value) for one in self._each(pairs)}

    def _value(self, any_value: Any) -> Any:
        """Return the plain value of an `AnyValue`. Its nesting is bounded by protobuf's reader."""
        kind = any_value.WhichOneof("value")
        if kind is None:
            return None
        if kind == "array_value":
            return [self._value(one) for one in self._each(any_value.array_value.values)]
        if kind == "kvlist_value":
            return self._pairs(any_value.kvlist_value.values)
        return _plain(getattr(any_value, kind))


def _named(resource: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is read of a resource: each of its spans has a copy."""
    return {name: str(resource[name])[:NAME_MAX] for name in (SERVICE,) if name in resource}


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    # JSON has no such numbers
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def is_request(value: Mapping[str, Any]) -> bool:
    """Return whether a JSON object is a trace request."""
    return isinstance(value.get("resourceSpans"), list)


def of_json(value: Any) -> Spans:
    """Read a trace request in OTLP's JSON: IDs in hexadecimal, whole numbers also as text. Raises `BadJson`."""
    if not isinstance(value, Mapping) or not is_request(value):
        raise BadJson("The body is not an OTLP trace request: it has no list resourceSpans.")
    spans, boxes = Spans(), 0
    for group in _objects(value["resourceSpans"]):
        resource = _named(_attributes(_object(group.get("resource")).get("attributes")))
        for inner in _objects(group.get("scopeSpans") or group.get("instrumentationLibrarySpans")):
            scope = _string(_object(inner.get("scope") or inner.get("instrumentationLibrary")).get("name"))[:NAME_MAX]
            raw_spans = inner["spans"] if isinstance(inner.get("spans"), list) else []
            boxes += 1 + len(raw_spans)
            if boxes > BOXES_MAX:
                raise BadJson(MANY)
            for raw_span in raw_spans:
                if isinstance(raw_span, Mapping):
                    _keep(spans, _of_object(raw_span, resource, scope))
                else:
                    spans.left_out[UNREADABLE] += 1
    return spans


def _of_object(raw_span: Mapping[str, Any], resource: dict[str, Any], scope: str) -> Span:
    status = _object(raw_span.get("status"))
    events = [
        {
            "name": _string(event.get("name")),
            "time": _whole(event.get("timeUnixNano")),
            "attributes": _attributes(event.get("attributes")),
        }
        for event in _objects(raw_span.get("events"))
    ]
    return Span(
        _string(raw_span.get("traceId")).lower(),
        _string(raw_span.get("spanId")).lower(),
        _string(raw_span.get("parentSpanId")).lower(),
        _string(raw_span.get("name")),
        _whole(raw_span.get("startTimeUnixNano")),
        _whole(raw_span.get("endTimeUnixNano")),
        _attributes(raw_span.get("attributes")),
        resource,
        events,
        scope,
        status.get("code") in ERRORS,
        _string(status.get("message")),
        _whole(raw_span.get("flags")) & IS_REMOTE == IS_REMOTE,
    )


def _attributes(pairs: Any) -> dict[str, Any]:
    return {_string(one.get("key")): _any(one.get("value")) for one in _objects(pairs)}


def _any(any_value: Any) -> Any:
    """Return the plain value of an `AnyValue` of OTLP's JSON."""
    fields = _object(any_value)
    if "arrayValue" in fields:
        return [_any(one) for one in _objects(_object(fields["arrayValue"]).get("values"))]
    if "kvlistValue" in fields:
        return _attributes(_object(fields["kvlistValue"]).get("values"))
    if "intValue" in fields:
        return _whole(fields["intValue"])
    if "bytesValue" in fields:
        return _string(fields["bytesValue"])
    return next((fields[name] for name in ("stringValue", "boolValue", "doubleValue") if name in fields), None)


def _object(raw: Any) -> Mapping[str, Any]:
    return raw if isinstance(raw, Mapping) else {}


def _objects(raw: Any) -> list[Mapping[str, Any]]:
    return [one for one in raw if isinstance(one, Mapping)] if isinstance(raw, list) else []


def _string(raw: Any) -> str:
    return raw if isinstance(raw, str) else ""


def _whole(raw: Any) -> int:
    """Return a whole number, which OTLP's JSON writes as text; 0 for anything else."""
    if isinstance(raw, bool):
        return 0
    if isinstance(raw, str):
        # at most 64 bits: converting thousands of digits takes quadratic time
        return int(raw) if re.fullmatch(r"-?\d{1,20}", raw, re.ASCII) else 0
    return raw if isinstance(raw, int) else 0


def _keep(spans: Spans, span: Span) -> None:
    why = _problem_of(span)
    text = "" if why else json.dumps(span.as_json())
    if why or len(text) > SPAN_CHARACTERS:
        spans.left_out[why or LARGE] += 1
    else:
        spans.kept.append(span)
        spans.texts.setdefault((span.trace, span.id), text)


def _characters(span: Span) -> int:
    """Return the characters of all texts of a span: written as JSON it has no fewer."""
    count, waiting = 0, [span.name, span.message, span.attributes, span.events]
    while waiting:
        node = waiting.pop()
        if isinstance(node, str):
            count += len(node)
        elif isinstance(node, dict):
            waiting += [*node, *node.values()]
        elif isinstance(node, list):
            waiting += node
    return count


def _problem_of(span: Span) -> str:
    if not TRACE.fullmatch(span.trace) or not SPAN.fullmatch(span.id) or not span.trace.strip("0"):
        return NO_ID
    if not 0 < span.start <= span.end < 2**63:
        return NO_TIMES
    if is_deep(span.attributes) or is_deep(span.events):
        return LARGE
    return ""


def answer_of(left_out: Mapping[str, int]) -> dict[str, Any]:
    """Return the answer to a request, in OTLP's JSON: empty if all spans were kept."""
    if not left_out:
        return {}
    words = "; ".join(f"{count} {'span' if count == 1 else 'spans'} {why}" for why, count in sorted(left_out.items()))
    # a whole number of 64 bits is a text in this JSON
    return {"partialSuccess": {"rejectedSpans": str(sum(left_out.values())), "errorMessage": f"Left out: {words}."}}


def as_protobuf(answer: Mapping[str, Any]) -> bytes:
    """Return an answer, or a refusal with its `code` and `message`, as protobuf."""
    from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as calls

    message: Any = calls.ExportTraceServiceResponse()
    if "message" in answer:
        # google.rpc.Status, whose first two fields have the same numbers and types
        message = calls.ExportTracePartialSuccess(rejected_spans=answer["code"], error_message=answer["message"])
    elif (partial := answer.get("partialSuccess")) is not None:
        message.partial_success.rejected_spans = int(partial["rejectedSpans"])
        message.partial_success.error_message = partial["errorMessage"]
    return bytes(message.SerializeToString())

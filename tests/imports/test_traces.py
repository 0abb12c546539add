"""Spans -> episodes: what each convention becomes, in order, complete, once; and what is left out by name."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client
from django.utils import timezone

from awmclient.schema import EpisodeStart
from episodes.models import Episode
from episodes.visible import trajectory
from imports import otlp_http, readers
from imports.models import Trace, TraceSpan
from imports.readers import otlp, settled
from imports.readers.found import TrajectoryDraft
from imports.readers.traces import NOTE_CHARACTERS, read_trace
from imports.record import collecting
from imports.trace_process import PicturesOfTrace
from people.errors import BadJson
from tests.imports.spans import CONVENTIONS, START, TRACE, gen_ai, request, shuffled, span
from tests.people_by_name import token

START_AT = datetime(2025, 11, 27, tzinfo=UTC)
TASK = "Merge the duplicates."


def spans_of(*given):
    return otlp.of_json(request(*given)).kept


def read(spans):
    draft = TrajectoryDraft()
    found = read_trace(spans, draft)
    return found, [step.model_dump(exclude_unset=True) for step in found.steps], dict(draft.lost)


def shape(step):
    said = step.get("content") if step["kind"] == "message" else step.get("result")
    return step["kind"], step.get("role") or step.get("name"), said


STEPS = [
    ("message", "system", "You act."),
    ("message", "user", TASK),
    ("message", "assistant", "I look."),
    ("tool_call", "get_ticket", "ticket 7"),
    ("tool_call", "get_ticket", "ticket 8"),
    ("note", None, None),
    ("message", "assistant", "Merged into 7."),
]


@pytest.mark.parametrize("name", CONVENTIONS)
def test_trace_becomes_the_steps_of_its_agent(name):
    found, steps, lost = read(spans_of(*shuffled(CONVENTIONS[name](TASK))))
    assert [shape(step) for step in steps] == STEPS
    assert [step["arguments"] for step in steps if step["kind"] == "tool_call"] == [{"id": 7}, {"id": 8}]
    assert steps[2]["reasoning"]["text"] == "Both first."
    assert steps[2]["usage"] == {"prompt_tokens": 10, "completion_tokens": 5}
    assert (found.task, found.final_answer) == (TASK, "Merged into 7.")
    assert (found.stop_reason, found.state) == ("done", "finished")
    assert (found.policy["model"], found.policy["name"]) == ("m-1", "desk")
    assert [tool.name for tool in found.tools] == ["get_ticket"]
    assert "https://desk.example.org/8" in steps[5]["content"]
    assert lost["spans that are no step (kept as notes)"] == 1
    # what has no field of its own is beside the step
    assert "0.5" in json.dumps(steps[2]["meta"]["otlp"]["attributes"])


def test_failed_tool_and_failed_trace_say_why():
    error = {"name": "exception", "timeUnixNano": str(START), "attributes": []}
    error["attributes"] = [{"key": "exception.message", "value": {"stringValue": "no such ticket"}}]
    status = {"code": 2, "message": "APIConnectionError: refused"}
    spans = gen_ai(TASK)
    spans[3] |= {"status": {"code": 2}, "events": [error]}
    spans[0] |= {"status": status}
    found, steps, _ = read(spans_of(*spans))
    assert (steps[4]["error"], steps[4]["meta"]["result_beside_error"]) == ("no such ticket", "ticket 8")
    assert (found.state, found.stop_reason, found.fault) == ("failed", "error", "model")


def test_results_stay_complete_without_spans_of_tools():
    spans = gen_ai(TASK)
    _, steps, _ = read(spans_of(spans[0], spans[1], spans[5]))
    assert [step["result"] for step in steps if step["kind"] == "tool_call"] == ["ticket 7", "ticket 8"]


def test_tool_without_a_model_is_a_call_of_its_own():
    spans = gen_ai(TASK)
    found, steps, _ = read(spans_of(spans[0], spans[2]))
    assert [shape(step) for step in steps] == [STEPS[3]]
    assert found.task == "invoke_agent desk"


def test_model_without_content_is_named():
    bare = span(2, "chat m-1", 0, 1, {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m-1"})
    _, steps, lost = read(spans_of(bare))
    assert [shape(step) for step in steps] == [("message", "assistant", "")]
    assert lost == {"answers of models that their spans do not have": 1}


def test_parts_that_are_no_text_stay_beside_the_message():
    picture = {"type": "blob", "mime_type": "image/png", "data": "aGk="}
    asked = [{"role": "user", "parts": [{"type": "text", "content": TASK}, picture]}]
    _, steps, lost = read(spans_of(span(2, "chat", 0, 1, {
        "gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps(asked),
    })))  # fmt: skip
    assert steps[0]["meta"]["parts"] == [picture]
    assert lost["parts of messages that are not text (kept in meta)"] == 1


def test_protobuf_and_json_are_the_same_spans():
    from google.protobuf import json_format
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    body = request(*gen_ai(TASK))
    message = json_format.ParseDict(
        json.loads(json.dumps(body)), ExportTraceServiceRequest(), ignore_unknown_fields=False
    )
    # protobuf's own JSON reads IDs as base64, so they are set by hand
    for one, given in zip(message.resource_spans[0].scope_spans[0].spans, gen_ai(TASK), strict=True):
        one.trace_id, one.span_id = bytes.fromhex(given["traceId"]), bytes.fromhex(given["spanId"])
        one.parent_span_id = bytes.fromhex(given["parentSpanId"])
    assert otlp.of_protobuf(message.SerializeToString()).kept == otlp.of_json(body).kept


def test_spans_of_two_traces_in_a_file_are_two_episodes(tmp_path):
    path = tmp_path / "spans.jsonl"
    spans = gen_ai(TASK)
    other = [{**one, "traceId": "1" * 32} for one in gen_ai("Close ticket 9.")]
    lines = [request(spans[5], other[0]), request(*other[1:], spans[0]), request(*spans[1:5])]
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))
    found = list(readers.read(path))
    assert [(one.place, one.format, one.refusal) for one in found] == [
        (f"trace {TRACE}", "otlp", ""),
        (f"trace {'1' * 32}", "otlp", ""),
    ]
    assert [one.trajectory.task for one in found] == [TASK, "Close ticket 9."]


def test_name_of_an_agent_is_cut_in_every_step_of_it():
    # the agent of the whole trace is named once; this one is below it
    top = {"gen_ai.operation.name": "invoke_agent"}
    inner = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a" * 5_000}
    spans = [
        span(1, "top", 0, 9, top),
        span(2, "in", 1, 8, inner, parentSpanId=f"{1:016x}"),
        span(3, "GET", 2, 1, {"x": 1}, parentSpanId=f"{2:016x}"),
    ]
    _, steps, _ = read(spans_of(*spans))
    assert steps[0]["content"].startswith(f"Agent {'a' * 200} (")
    assert steps[1]["meta"]["otlp"]["agent"] == "a" * 200


def test_spans_that_are_each_others_parents_have_no_agent():
    spans = [span(1, "GET", 0, 1, {}, parentSpanId=f"{2:016x}"), span(2, "GET", 0, 1, {}, parentSpanId=f"{1:016x}")]
    _, steps, _ = read(spans_of(*spans))
    assert [step["meta"]["otlp"].get("agent") for step in steps] == [None, None]


# --- over HTTP


@pytest.fixture
def sender(project):
    _, secret = token(project, "agent")

    def send(body, secret=secret, **more):
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        kind = more.pop("kind", "application/json")
        return Client().post(
            "/v1/traces", raw, content_type=kind, headers={"Authorization": f"Bearer {secret}", **more}
        )

    return send


def settle(seconds=3):
    """Let the traces be complete, as if this long had passed."""
    late = timezone.now() - timedelta(seconds=seconds)
    Trace.objects.filter(is_waiting=True).update(heard_at=late)
    return collecting.settle()


@pytest.mark.django_db
def test_spans_in_any_order_become_one_episode(sender):
    for one in shuffled(gen_ai(TASK)):
        answer = sender(gzip.compress(json.dumps(request(one)).encode()), **{"Content-Encoding": "gzip"})
        assert (answer.status_code, answer.json()) == (200, {})
    assert not Episode.objects.exists()
    assert (settle(), settle()) == (1, 0)
    episode = Episode.objects.get()
    assert [shape(step) for step in trajectory.steps_of(episode)] == STEPS
    assert (episode.origin, episode.state, episode.key, episode.task) == ("external", "finished", f"otlp/{TRACE}", TASK)
    event = episode.events.get()
    assert event.verb == "received" and "spans that are no step (kept as notes) (1)" in event.reason
    assert episode.started_by == "token agent of lab"


@pytest.mark.django_db
def test_repeated_spans_add_nothing(sender):
    for _ in range(2):
        assert sender(request(*gen_ai(TASK))).status_code == 200
    settle()
    sender(request(*gen_ai(TASK)))
    settle()
    assert Episode.objects.get().last_seq == len(STEPS)
    assert not TraceSpan.objects.exclude(body=None).exists()


@pytest.mark.django_db
def test_late_spans_are_appended_and_named(sender):
    spans = gen_ai(TASK)
    sender(request(*spans[:5]))
    settle()
    sender(request(spans[5]))
    settle()
    episode = Episode.objects.get()
    steps = trajectory.steps_of(episode)
    assert [step["seq"] for step in steps] == list(range(1, episode.last_seq + 1))
    assert len(episode.strip) == episode.last_seq
    assert steps[-2]["content"] == "1 span arrived after the trace was stored: chat m-1"
    assert shape(steps[-1]) == STEPS[-1]
    assert [event.verb for event in episode.events.order_by("pk")] == ["received", "late"]


@pytest.mark.django_db
def test_trace_without_a_root_waits_for_silence(sender):
    sender(request(*gen_ai(TASK)[1:]))
    assert (settle(599), settle(601)) == (0, 1)


@pytest.mark.django_db
def test_left_out_spans_are_named(sender, monkeypatch):
    monkeypatch.setattr(collecting, "SPANS_MAX", 6)
    spans = gen_ai(TASK)
    given = [*spans, span(9, "one more", 9, 1, {}), {**spans[1], "traceId": ""}, {**spans[1], "endTimeUnixNano": "0"}]
    said = sender(request(*given)).json()["partialSuccess"]
    assert said["rejectedSpans"] == "3"
    for why in (otlp.NO_ID, otlp.NO_TIMES, collecting.FULL):
        assert f"1 span {why}" in said["errorMessage"]
    assert TraceSpan.objects.count() == 6


@pytest.mark.django_db
def test_trace_takes_spans_up_to_its_characters(sender, monkeypatch):
    spans = gen_ai(TASK)
    sizes = [len(json.dumps(one.as_json())) for one in spans_of(*spans)]
    monkeypatch.setattr(collecting, "CHARACTERS_MAX", sum(sizes[:5]))
    for _ in range(2):  # repeated spans take no room
        assert sender(request(*spans[:5])).json() == {}
    assert Trace.objects.get().size == sum(sizes[:5])
    settle()  # and stored spans give none back
    said = sender(request(*spans)).json()["partialSuccess"]
    assert said == {"rejectedSpans": "1", "errorMessage": f"Left out: 1 span {collecting.LARGE}."}


@pytest.mark.django_db
def test_session_with_half_a_surrogate_pair_is_kept(sender):
    spans = gen_ai(TASK)
    spans[0]["attributes"].append({"key": "session.id", "value": {"stringValue": "s\ud800\x00"}})
    sender(request(*spans))
    settle()
    assert "session s??" in Episode.objects.get().events.get().reason


@pytest.mark.django_db
def test_span_beyond_its_limit_is_left_out_and_named():
    room = otlp.SPAN_CHARACTERS - 2_000
    fits, over = (span(2, "chat", 0, 1, {"x": "a" * size}) for size in (room, otlp.SPAN_CHARACTERS))
    found = otlp.of_json(request(fits, over))
    assert (len(found.kept), found.left_out) == (1, {otlp.LARGE: 1})


@pytest.mark.django_db
def test_requests_that_are_refused(sender, project, monkeypatch):
    body = json.dumps(request(*gen_ai(TASK))).encode()
    packed = gzip.compress(body)
    zipped = {"Content-Encoding": "gzip"}
    monkeypatch.setattr(otlp_http, "UNPACKED_MAX", len(body))
    assert sender(packed, **zipped).status_code == 200
    monkeypatch.setattr(otlp_http, "UNPACKED_MAX", len(body) - 1)
    assert sender(packed, **zipped).status_code == 413
    monkeypatch.setattr(otlp_http, "UNPACKED_MAX", len(body))
    assert sender(packed[:-9], **zipped).status_code == 400
    assert sender(b"no gzip", **zipped).status_code == 400
    assert sender(b"{").status_code == 400
    assert sender(b'{"spans": []}').status_code == 400
    assert sender(b"\xff\xff", kind="application/x-protobuf").status_code == 400
    assert sender(body, kind="text/plain").status_code == 415
    assert sender(body, **{"Content-Encoding": "br"}).status_code == 415
    assert sender(body, secret="awm_unknown").status_code == 401
    _, export = token(project, "export")
    assert sender(body, secret=export).status_code == 403
    monkeypatch.setattr(otlp_http, "BODY_MAX", len(body))
    assert sender(body).status_code == 200
    monkeypatch.setattr(otlp_http, "BODY_MAX", len(body) - 1)
    assert sender(body).status_code == 413


def test_note_of_a_span_is_bounded_and_the_rest_counted():
    beside = len(json.dumps({"x": ""}))
    for size, lost in ((NOTE_CHARACTERS - beside, 0), (NOTE_CHARACTERS - beside + 1, 1)):
        _, steps, counts = read(spans_of(gen_ai(TASK)[1], span(5, "GET", 3, 1, {"x": "a" * size})))
        assert len(steps[-1]["content"].split("\n", 1)[1]) == NOTE_CHARACTERS
        assert counts.get(f"characters of notes after {NOTE_CHARACTERS:,}", 0) == lost


@pytest.mark.django_db
def test_refusal_in_protobuf_is_a_status(sender):
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTracePartialSuccess

    answer = sender(b"x", secret="awm_unknown", kind="application/x-protobuf")
    # google.rpc.Status: the fields 1 and 2 are its code and its message
    said = ExportTracePartialSuccess.FromString(answer.content)
    assert (answer["Content-Type"], said.rejected_spans) == ("application/x-protobuf", 16)
    assert "token" in said.error_message


def test_answer_in_protobuf_names_what_was_left_out():
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

    said = ExportTraceServiceResponse.FromString(otlp.as_protobuf(otlp.answer_of({otlp.NO_ID: 2})))
    assert said.partial_success.rejected_spans == 2
    assert said.partial_success.error_message == f"Left out: 2 spans {otlp.NO_ID}."
    assert otlp.as_protobuf(otlp.answer_of({})) == b""


def test_swarm_of_values_in_protobuf_is_refused():
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    swarm = ExportTraceServiceRequest()
    spans = swarm.resource_spans.add().scope_spans.add().spans
    for _ in range(8):
        spans.add()
    assert otlp.of_protobuf(swarm.SerializeToString(), most=8).left_out.total() == 8
    with pytest.raises(BadJson, match="too many values"):
        otlp.of_protobuf(swarm.SerializeToString(), most=7)


def test_spans_share_no_more_of_their_resource_than_its_name():
    body = request(*gen_ai(TASK))
    padding = {"key": "host.id", "value": {"stringValue": "x" * 100_000}}
    named = {"key": "service.name", "value": {"stringValue": "n" * 1_000}}
    body["resourceSpans"][0]["resource"] = {"attributes": [padding, named]}
    assert {json.dumps(one.resource) for one in otlp.of_json(body).kept} == {json.dumps({"service.name": "n" * 200})}


def test_error_of_a_reader_is_named_without_its_words(monkeypatch):
    def broken(spans, draft):
        raise ValueError("secret words of a span")

    monkeypatch.setattr(settled.traces, "read_trace", broken)
    why = settled.settled(settled.WaitingTrace("2" * 32, []), PicturesOfTrace())
    assert why.problem == "It cannot be stored (ValueError)."
    assert "ValueError in broken" in why.where and "secret" not in why.where


def test_value_that_is_refused_is_in_no_log(monkeypatch):
    def refused(spans, draft):
        EpisodeStart.model_validate({"key": "k", "task": "t", "seed": "secret words"})

    monkeypatch.setattr(settled.traces, "read_trace", refused)
    why = settled.settled(settled.WaitingTrace("2" * 32, []), PicturesOfTrace())
    assert why.problem.startswith("seed: ") and "secret" not in why.problem + why.where
    assert "ValidationError in" in why.where


@pytest.mark.django_db
def test_trace_that_is_no_episode_says_why_and_stops_no_other(sender, caplog):
    sender(request(*gen_ai(TASK)))
    sender(request({**span(1, "", 0, 1, {}), "traceId": "2" * 32}))
    assert settle() == 2
    assert Trace.objects.get(name="2" * 32).problem.startswith("It has no task")
    assert Episode.objects.get().task == TASK


@pytest.mark.django_db
def test_trace_that_cannot_be_stored_stops_no_other(sender, monkeypatch):
    admit = collecting.admitting.admit

    def refusing(actor, given, **more):
        admit(actor, given, **more)
        if any(one.episode["task"] == "refuse me" for one in given):
            raise ValueError("the database says no")

    monkeypatch.setattr(collecting.admitting, "admit", refusing)
    for number in (2, 3, 4):
        task = "refuse me" if number == 3 else f"task {number}"
        sender(request(*({**one, "traceId": str(number) * 32} for one in gen_ai(task))))
    assert settle() == 3
    assert set(Episode.objects.values_list("task", flat=True)) == {"task 2", "task 4"}
    bad = Trace.objects.get(episode=None)
    assert (bad.name, bad.problem, bad.is_waiting) == ("3" * 32, "It cannot be stored (ValueError).", False)


@pytest.mark.django_db
def test_late_traces_and_large_ones_are_stored_alone(monkeypatch):
    monkeypatch.setattr(collecting, "GROUP_CHARACTERS", 10)
    monkeypatch.setattr(collecting, "GROUP", 3)
    sizes = [("a", 4, ""), ("late", 1, "e1"), ("b", 4, ""), ("large", 11, ""), *((name, 1, "") for name in "cdef")]
    given = [collecting.DueTrace(name, name, size, START_AT, episode, 0) for name, size, episode in sizes]
    assert [[one.pk for one in some] for some in collecting._groups(given)] == [
        ["late"],
        ["a", "b"],
        ["large"],
        ["c", "d", "e"],
        ["f"],
    ]

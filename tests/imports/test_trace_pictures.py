"""Pictures of traces: in messages and results of spans, by each convention, by file and as agents send them."""

from __future__ import annotations

import json

import pytest

from episodes.models import Episode, Picture, PictureUse
from episodes.visible.trajectory import steps_of
from imports import trace_process
from imports.record import importing
from tests.imports.spans import gen_ai, open_inference, pairs_of, request, span
from tests.imports.test_imported_pictures import MCP, PNG, WEBP, address, anthropic, b64, openai
from tests.imports.test_traces import TASK, sender, settle  # noqa: F401
from tests.pictures import SVG

pytestmark = pytest.mark.django_db
BLOB = {"type": "blob", "modality": "image", "mime_type": "image/png", "content": b64(PNG)}
URI = {"type": "uri", "modality": "image", "uri": address(PNG)}


def changed(spans, number, **attributes):
    """Return the spans with other attributes of one of them."""
    old = spans[number - 1]["attributes"]
    kept = [one for one in old if one["key"] not in attributes]
    spans[number - 1] |= {"attributes": [*kept, *pairs_of(attributes)]}
    return spans


def asked(part):
    """Return the spans of a trace whose task has this part, in both histories, and whose first call returned WEBP."""
    spans = gen_ai(TASK)
    ask = {"role": "user", "parts": [{"type": "text", "content": TASK}, part]}
    read = {"type": "tool_call_response", "id": "c7", "response": [{"type": "text", "text": "Seen"}, MCP["content"][0]]}
    turn = json.loads(next(one for one in spans[1]["attributes"] if one["key"] == "gen_ai.output.messages")["value"][
        "stringValue"])  # fmt: skip
    changed(spans, 2, **{"gen_ai.input.messages": json.dumps([ask])})
    changed(spans, 3, **{"gen_ai.tool.call.result": json.dumps(MCP)})
    history = [ask, *turn, {"role": "tool", "parts": [read]}]
    return changed(spans, 6, **{"gen_ai.input.messages": json.dumps(history)})


def by_open_inference():
    """Return the spans of OpenInference with a picture in the task."""
    at = "llm.input_messages.1.message"
    parts = {
        f"{at}.contents.0.message_content.type": "image",
        f"{at}.contents.0.message_content.image.image.url": address(PNG),
    }
    spans = changed(open_inference(TASK), 2, **parts)
    changed(spans, 6, **parts)
    return changed(spans, 3, **{"output.value": json.dumps(MCP)})


FORMS = {
    "blob": lambda: asked(BLOB),
    "uri": lambda: asked(URI),
    "openai": lambda: asked(openai(PNG)),
    "anthropic": lambda: asked(anthropic(PNG)),
    "open_inference": by_open_inference,
}


def pictures_in(steps):
    """Return the numbers of pictures in messages, and what the first call returned."""
    own = [len(step.get("pictures") or ()) for step in steps if step["kind"] == "message" and step["role"] == "user"]
    return own, next(step["result"] for step in steps if step["kind"] == "tool_call")


def check_pictures(episode):
    steps = steps_of(episode)
    own, result = pictures_in(steps)
    assert (own, result["content"][0]["media_type"], episode.task) == ([1], "image/webp", TASK)
    assert sorted(use.picture.media_type for use in PictureUse.objects.all()) == ["image/png", "image/webp"]
    # the bytes are in no step, and in no fact beside one
    assert not any(b64(data)[-80:] in json.dumps(steps) for data in (PNG, WEBP))


@pytest.mark.parametrize("name", FORMS)
def test_spans_of_a_file_bring_their_pictures(ada, tmp_path, name):
    path = tmp_path / "spans.json"
    path.write_text(json.dumps(request(*FORMS[name]())))
    assert importing.take(ada, path).format == "otlp"
    check_pictures(Episode.objects.get())


@pytest.mark.parametrize("name", FORMS)
def test_spans_that_an_agent_sends_bring_their_pictures(sender, name):  # noqa: F811
    assert sender(request(*FORMS[name]())).status_code == 200
    assert settle() == 1
    check_pictures(Episode.objects.get())


def test_late_span_brings_its_picture(sender):  # noqa: F811
    assert sender(request(*gen_ai(TASK))).status_code == 200
    assert settle() == 1 and not Picture.objects.exists()
    late = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look"}
    sender(request(span(9, "execute_tool look", 8, 1, {**late, "gen_ai.tool.call.result": json.dumps(MCP)})))
    assert settle() == 1
    step = steps_of(Episode.objects.get())[-1]
    assert step["result"]["content"][0]["media_type"] == "image/webp"
    assert PictureUse.objects.get().episode == Episode.objects.get()


def test_what_a_model_read_of_a_call_has_its_picture(sender):  # noqa: F811
    spans = [one for one in asked(BLOB) if "execute_tool" not in one["name"]]
    assert sender(request(*spans)).status_code == 200
    assert settle() == 1
    _, result = pictures_in(steps_of(Episode.objects.get()))
    assert (result[0], result[1]["media_type"]) == ({"type": "text", "text": "Seen"}, "image/webp")


def test_part_that_is_no_picture_stays_in_meta(sender):  # noqa: F811
    assert sender(request(*asked({**BLOB, "content": b64(SVG)}))).status_code == 200
    assert settle() == 1
    steps = steps_of(Episode.objects.get())
    (message,) = (step for step in steps if step["kind"] == "message" and step["role"] == "user")
    assert message["meta"]["parts"][0]["content"] == b64(SVG) and "pictures" not in message
    assert Picture.objects.get().media_type == "image/webp"


def test_a_trace_has_so_many_pictures_only(monkeypatch):
    monkeypatch.setattr(trace_process, "TRACE_PICTURES", 1)
    pictures = trace_process.PicturesOfTrace()
    assert pictures.part_of(PNG) == pictures.part_of(PNG) != pictures.part_of(WEBP) is None
    assert [one.media_type for one in pictures.sent.values()] == ["image/png"]

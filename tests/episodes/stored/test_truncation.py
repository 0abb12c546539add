"""Large steps: stored whole, told cut, with a mark that says so."""

from __future__ import annotations

import json

import pytest
from django.utils import timezone

from awmclient.nouns.pictures import STEP_PICTURES, pictures_of
from awmclient.schema import CUT_ABOVE_BYTES, STEP, Cut, EpisodeStart, StepBatch
from episodes.models import Step
from episodes.record import recording
from episodes.show.pictures import shown_pictures
from episodes.stored.truncation import cut_of, cut_text
from episodes.visible import trajectory
from episodes.visible.lens import EVERYTHING, lens_of
from tests.people_by_name import token
from tests.reading import steps_read_by

LARGE = {
    "a long text": "word " * 20_000,
    "a long list": list(range(20_000)),
    "many rows": [{"id": n, "name": f"row {n}", "note": "x" * 90} for n in range(2000)],
    "many keys": {f"key {n}": n for n in range(20_000)},
    "long keys": {str(n) * 5000: 1 for n in range(10)},
    "deep": json.loads('{"a":' * 100 + '"' + "x" * 40_000 + '"' + "}" * 100),
    "odd text": "\x00\ud800" * 20_000,
    "wide and deep": [[["y" * 3000] * 200] * 50] * 3,
}


def tool_call(result):
    return {"seq": 3, "kind": "tool_call", "name": "dump", "arguments": {"n": 1}, "result": result, "turn": 2}


def cut(body):
    return json.loads(cut_of(body, len(json.dumps(body))))


@pytest.mark.parametrize("name", LARGE)
def test_a_large_step_is_cut_below_the_limit_and_says_so(name):
    body = tool_call(LARGE[name])
    text = cut_of(body, len(json.dumps(body)))
    short = json.loads(text)
    assert len(text) <= CUT_ABOVE_BYTES
    mark = Cut.model_validate(short.pop("cut"))
    assert mark.size == len(json.dumps(body)) and "result" in mark.fields
    assert {**short, "result": 0} == {**body, "result": 0}


@pytest.mark.parametrize("name", LARGE)
def test_truncated_step_keeps_its_types(name):
    short = cut(tool_call(LARGE[name]))
    assert type(short["result"]) is type(LARGE[name])
    short.pop("cut")
    STEP.validate_python(short)


def test_a_small_step_is_told_as_it_is():
    body = tool_call("small")
    assert cut_of(body, len(json.dumps(body))) is None
    assert cut_text(json.dumps(body)) == json.dumps(body)


def test_truncated_step_counts_the_entries_of_its_result():
    rows = [{"id": n, "note": "x" * 90} for n in range(500)]
    assert cut(tool_call(rows))["cut"]["counts"] == {"result": 500}
    assert cut(tool_call({"orders": rows, "total": 500}))["cut"]["counts"] == {"result.orders": 500}
    assert "counts" not in cut(tool_call("x" * 90_000))["cut"]


def test_truncated_state_diff_counts_missing_rows_as_more():
    rows = [{"id": n, "note": "x" * 90} for n in range(500)]
    diff = {"orders": {"added": rows, "changed": [], "removed": rows[:3], "more": 7}, "odd": [1]}
    short = cut({**tool_call("ok"), "state_diff": diff})["state_diff"]
    assert len(short["orders"]["added"]) + short["orders"]["more"] == 507 and short["odd"] == [1]


def picture(number, **words):
    size = {"media_type": "image/png", "width": 640, "height": 400}
    return {"type": "image", "blob": f"{number:064x}", **size, **words}


@pytest.mark.parametrize("place", ["behind a long text", "behind a long list", "deep", "in too many fields"])
def test_truncated_step_has_its_pictures_under_the_mark(place):
    parts, many = [picture(n, alt="\U0001f600" * 200) for n in range(25)], {}
    result = {
        "behind a long text": [{"type": "text", "text": "x" * 90_000}, *parts],
        "behind a long list": [*range(20_000), *parts],
        "deep": json.loads('{"a":' * 20 + json.dumps([*parts, "x" * 90_000]) + "}" * 20),
        "in too many fields": parts,
    }[place]
    if place == "in too many fields":
        many = {"arguments": {f"key {n}": "y" * 9000 for n in range(500)}, "meta": {"z" * 90: [["y" * 99] * 8] * 90}}
    text = cut_of(tool_call(result) | many, 999_999)
    short = json.loads(text)
    assert len(text) <= CUT_ABOVE_BYTES
    assert [part["blob"] for part in pictures_of(short)] == [part["blob"] for part in parts[:STEP_PICTURES]]
    assert Cut.model_validate(short["cut"]).pictures
    assert [one.url[-64:] for one in shown_pictures(short, "e1")] == [part["blob"] for part in parts[:STEP_PICTURES]]


def test_mark_has_no_pictures_that_are_in_the_cut_form():
    short = cut(tool_call([picture(1), "x" * 90_000]))
    assert "pictures" not in short["cut"] and pictures_of(short) == [picture(1)]


def test_step_with_too_many_fields_keeps_its_kind():
    body = tool_call("x" * 9000) | {"arguments": {"a": ["y" * 1500] * 500}, "meta": {"z": [[0] * 500] * 500}}
    short = cut(body)
    assert (short["seq"], short["kind"], short["turn"]) == (3, "tool_call", 2)
    assert {"arguments", "meta", "result"} <= set(short["cut"]["fields"])


@pytest.fixture
def episode(ada):
    return recording.start_episode(ada, EpisodeStart(key="one", task="t"))[0]


def test_stream_truncates_large_step_and_http_returns_it(ada, episode):
    steps = [{"seq": 1, "kind": "note", "content": "z" * 100_000}, {"seq": 2, "kind": "note", "content": "small"}]
    recording.append_steps(ada, episode.pk, StepBatch.model_validate({"steps": steps}).steps)
    told = [json.loads(text) for _, text in trajectory.sent_after(EVERYTHING, episode.pk, 0, 10)[0]]
    assert told[0]["cut"]["fields"] == ["content"] and len(told[0]["content"]) < 10_000 and "at" in told[0]
    assert "cut" not in told[1]
    assert json.loads(trajectory.step_text(EVERYTHING, episode, 1))["content"] == "z" * 100_000
    assert [len(one["content"]) for one in steps_read_by(ada, episode.pk)] == [100_000, 5]


def test_row_without_truncated_form_is_truncated_when_sent(ada, episode):
    steps = StepBatch.model_validate({"steps": [{"seq": 1, "kind": "note", "content": "z" * 100_000}]}).steps
    recording.append_steps(ada, episode.pk, steps)
    Step.objects.update(cut=None)
    ((_, text),), more = trajectory.sent_after(EVERYTHING, episode.pk, 0, 10)
    assert json.loads(text)["cut"]["size"] > 100_000 and not more


NOTES = [{"seq": n, "kind": "note", "content": "z" * 100_000} for n in range(1, 6)]


def pages_of(read):
    """Numbers of the steps of each page, read as a page says to go on."""
    pages, since, more = [], 0, True
    while more:
        page = json.loads(read(since))
        pages.append([step["seq"] for step in page["steps"]])
        since, more = pages[-1][-1], page["more"]
    return pages


def test_page_ends_early_rather_than_hold_too_much(ada, episode, monkeypatch):
    monkeypatch.setattr(trajectory, "PAGE_BYTES", 250_000)
    recording.append_steps(ada, episode.pk, StepBatch.model_validate({"steps": NOTES}).steps)
    assert pages_of(lambda since: trajectory.page_text(EVERYTHING, episode, since)) == [[1, 2], [3, 4], [5]]
    assert pages_of(lambda since: trajectory.page_text(EVERYTHING, episode, since, 1)) == [[1], [2], [3], [4], [5]]
    assert json.loads(trajectory.page_text(EVERYTHING, episode, 5)) == {"steps": [], "more": False}


def test_page_holds_at_least_one_step(ada, episode, monkeypatch):
    monkeypatch.setattr(trajectory, "PAGE_BYTES", 10)
    recording.append_steps(ada, episode.pk, StepBatch.model_validate({"steps": NOTES[:2]}).steps)
    assert pages_of(lambda since: trajectory.page_text(EVERYTHING, episode, since)) == [[1], [2]]


def test_page_of_an_agent_counts_no_verification(project, ada, episode):
    """Neither `more` nor where a page ends tells an agent that a verifier has spoken."""
    recording.append_steps(ada, episode.pk, StepBatch.model_validate({"steps": NOTES[:1]}).steps)
    Step.objects.create(episode=episode, seq=2, kind="verification", body='{"seq":2}', at=timezone.now())
    assert not json.loads(trajectory.page_text(lens_of(token(project, "agent")[0], episode), episode, 0, 1))["more"]
    assert json.loads(trajectory.page_text(EVERYTHING, episode, 0, 1))["more"]


def test_replay_of_a_socket_ends_early_and_says_so(ada, episode, monkeypatch):
    monkeypatch.setattr(trajectory, "SENT_BYTES", 10)
    recording.append_steps(ada, episode.pk, StepBatch.model_validate({"steps": NOTES[:2]}).steps)
    ((first, _),), more = trajectory.sent_after(EVERYTHING, episode.pk, 0, 10)
    assert (first, more) == (1, True)
    ((second, _),), more = trajectory.sent_after(EVERYTHING, episode.pk, 1, 10)
    assert (second, more) == (2, False)

"""Every reader of steps through every lens of the table: what it hides is nowhere, and what it lets pass is there."""

from __future__ import annotations

import json
from typing import get_args

import pytest

from awmclient.schema import STEP, EpisodeStart, Finish, Outcome
from awmclient.schema import Step as AnyStep
from episodes import events
from episodes.find import in_episode
from episodes.live.consumers import LensListener
from episodes.live.live_html import drawn
from episodes.live.wire import Payload
from episodes.models import Episode, OutcomeHold, Step
from episodes.record import ending, recording
from episodes.show import windows
from episodes.stored.entries import text_of
from episodes.visible import lens as lenses
from episodes.visible import trajectory
from episodes.visible.lens import (
    BLIND,
    EVERYTHING,
    LABELS,
    LENSES,
    MODEL,
    STREAM,
    Lens,
    hears_all,
    lens_of,
    through,
)
from people.access import system
from reviews.models import Annotation
from reviews.visible.places import labelable, tell
from tests.people_by_name import person, token

ROWS = {**LENSES, "stream": STREAM, "labels": LABELS, "model": MODEL}
SECRETS = {
    Lens.OUTCOME: ["verdict-secret"],
    Lens.REWARDS: ["0.4375", '"complete"', '"done":'],
    Lens.CHANGES: ["changed-secret", "trace-secret"],
    Lens.MARKS: ["mark-secret"],
    Lens.NOTES: ["note-secret", "usage-secret"],
    Lens.BRIEFINGS: ["briefing-secret"],
}
SAID = ["question-said", "argument-said", "result-said", "message-said", "71"]
CHANGED = {"items": {"added": [{"id": 1, "note": "changed-secret"}], "changed": [], "removed": []}}
META = {"traceback": "trace-secret", "world": {"rows": "mark-secret"}, "duration_ms": 71, "own": "note-secret"}
CALL = {"kind": "tool_call", "name": "look", "arguments": {"at": "argument-said"}, "result": "result-said"}
STEPS = [
    {"kind": "briefing", "text": "briefing-secret", "privilege": "sees_verifier", "author": "Mina"},
    {"kind": "message", "role": "assistant", "content": "message-said", "usage": {"model": "usage-secret"}},
    {**CALL, "meta": META, "state_diff": CHANGED, "reward": 0.4375, "done": True, "reward_type": "complete"},
    {**CALL, "reward_type": "tool_call_ok"},
    {"kind": "note", "content": "question-said"},
]


def started(actor, key="one", **more):
    start = EpisodeStart(key=key, task="refund", scenario="desk_1", task_idx=3, **more)
    return recording.start_episode(actor, start)[0]


@pytest.fixture
def episode(ada):
    one = started(ada)
    steps = [STEP.validate_python({**step, "seq": seq}) for seq, step in enumerate(STEPS, 1)]
    recording.append_steps(ada, one.pk, steps)
    ending.finish(ada, one.pk, Finish(stop_reason="done"))
    found = Outcome(reward_type="others", reward=0.0, details={"why": "verdict-secret"}, source="verifier")
    ending.record_outcome(system(ada.project), one.pk, found)
    return Episode.objects.get(pk=one.pk)


def frame_of(episode):
    return events.steps_frame(episode.pk, [text for _, text in trajectory.sent_after(EVERYTHING, episode.pk, 0, 20)[0]])


def heard(lens, episode):
    """What a socket hears of a frame that was made for any ears."""
    listener = LensListener(lens, line=None, on_stall=lambda: None)
    listener.put(Payload(frame_of(episode)))
    return listener.take().texts[0]


def quotes(lens, episode):
    paths = ("$.meta.own", "$.meta.world", "$.meta.traceback", "$.reward", "$.result", "$.arguments")
    rows = [Annotation(episode=episode, seq=3, path=path) for path in paths]
    return json.dumps([row.quote for row in tell(lens, episode, rows)])


def found_words(lens, episode):
    words = [word for secrets in (SAID, *SECRETS.values()) for word in secrets]
    return "\n".join(word for word in words if in_episode.holding(lens, episode, word.strip('":'))[0])


def wire(rows):
    return json.dumps([row.wire() for row in rows], default=str, separators=(",", ":"))


SEQS = range(1, len(STEPS) + 2)
TEXTS = {
    "steps_of": lambda lens, one: json.dumps(trajectory.steps_of(one, lens=lens), separators=(",", ":")),
    "page_text": trajectory.page_text,
    "told_after": lambda lens, one: json.dumps(trajectory.sent_after(lens, one.pk, 0, 20)[0]).replace("\\", ""),
    "around": lambda lens, one: wire(windows.around(lens, one).rows),
    "after": lambda lens, one: wire(windows.after(lens, one, 0).rows),
    "again": lambda lens, one: wire(windows.after(lens, one, 20, 0, list(SEQS)).rows),
    "replay": lambda lens, one: wire(windows.replay(lens, one, 3)["steps"].rows),
    "labelable": lambda lens, one: json.dumps(
        [labelable(lens, step) for step in Step.objects.filter(episode=one)], separators=(",", ":")
    ),
    "heard": heard,
}
"""Readers whose whole text can be held against the table."""
PARTS = {
    "holding": found_words,
    "writes": lambda lens, one: json.dumps(windows.writes(lens, one), separators=(",", ":"), default=str),
    "first_writes": lambda lens, one: json.dumps(windows.first_writes(lens, one), separators=(",", ":"), default=str),
    "quotes": quotes,
    "drawn": lambda lens, one: "".join(drawn(lens, [frame_of(one)])),
}
"""Readers that show a part of what passes."""
OWN = {"told_after": STREAM, "heard": STREAM, "labelable": LABELS, "quotes": LABELS}
"""What a reader tells at most, through whatever lens."""


def words(lens, *, passing):
    return [word for bit, secrets in SECRETS.items() if (bit in lens) is passing for word in secrets]


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("reader", [*TEXTS, *PARTS])
def test_reader_tells_nothing_that_the_lens_hides(episode, reader, row):
    told = (TEXTS | PARTS)[reader](ROWS[row], episode)
    seen = ROWS[row] & OWN.get(reader, EVERYTHING)
    assert [word for word in words(seen, passing=False) if word in told] == []


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("reader", TEXTS)
def test_reader_tells_all_that_the_lens_lets_pass(episode, reader, row):
    told = TEXTS[reader](ROWS[row], episode)
    seen = ROWS[row] & OWN.get(reader, EVERYTHING)
    assert [word for word in [*SAID, *words(seen, passing=True)] if word not in told] == []


@pytest.mark.parametrize("row", ROWS)
def test_single_step_is_read_through_the_lens(episode, row):
    lens = ROWS[row]
    held = json.loads(trajectory.page_text(lens, episode))["steps"]
    assert [json.loads(trajectory.step_text(lens, episode, step["seq"])) for step in held] == held
    assert len(held) == windows.last_of(lens, episode) == len(STEPS) + (Lens.OUTCOME in lens)


def test_whole_lens_gives_the_stored_text_back(episode):
    assert all(through(EVERYTHING, row.body) is row.body for row in Step.objects.filter(episode=episode))


def test_text_that_holds_nothing_hidden_is_not_read(monkeypatch):
    monkeypatch.setattr(lenses.json, "loads", None)
    text = text_of({"seq": 1, **CALL})
    assert all(through(lens, text) is text for lens in ROWS.values())


def test_hidden_names_inside_a_result_pass():
    inside = {"reward": 1, "state_diff": 2, "meta": {"world": 3, "own": 4}, "kind": "briefing"}
    text = text_of({"seq": 1, **CALL, "result": inside})
    assert all(through(lens, text) is text for lens in ROWS.values())


def test_every_name_of_the_record_format_has_a_need():
    """A new field passes through a narrow lens only once the table says so."""
    models = [get_args(one)[0] for union in get_args(AnyStep)[:1] for one in get_args(union)]
    known = {model.model_fields["kind"].default: {*model.model_fields} for model in models}
    assert len(known) == 8 and {kind: {*names} - {"cut"} for kind, names in lenses._NEEDS.items()} == known


def test_blind_reviewer_sees_no_reward_in_an_observation():
    seen = {"text": "You see a door.", "reward": 1, "info": [{"Success": True, "room": 2}], "done": True}
    text = text_of({"seq": 1, "kind": "action", "action": {"go": "n"}, "observation": seen})
    assert json.loads(through(BLIND, text))["observation"] == {"text": "You see a door.", "info": [{"room": 2}]}
    assert through(EVERYTHING, text) == text
    call = text_of({"seq": 1, "kind": "tool_call", "name": "pay", "arguments": {}, "result": {"success": True}})
    assert through(BLIND, call) == call, "a tool of an app says what its agent reads"


def test_unknown_note_is_withheld_from_a_blind_reviewer():
    text = text_of({"seq": 1, **CALL, "meta": {"score": 1, "duration_ms": 2, "closed": "cancelled"}})
    assert json.loads(through(BLIND, text))["meta"] == {"duration_ms": 2, "closed": "cancelled"}


@pytest.fixture
def actors(project, ada, edo, rita, episode):
    """Who looks, by the row of the table that is theirs."""
    other, judge = started(ada, "two"), person(project, "ron", "reviewer")
    for who, one in ((rita, episode), (judge, other)):
        OutcomeHold.objects.create(episode=one, actor_key=who.key, by="review")
    members = [ada, edo, *(token(project, scope)[0] for scope in ("expert", "export", "review", "launch"))]
    agents = [token(project, "agent")[0]]
    return dict(zip(LENSES, (members, [judge], [rita], agents, agents), strict=True))


@pytest.mark.parametrize("row", LENSES)
def test_actor_looks_through_the_lens_of_their_row(actors, episode, row):
    episode.origin = "external" if "own loop" in row else "builtin"
    assert {lens_of(one, episode) for one in actors[row]} == {LENSES[row]}


def test_sockets_of_one_lens_share_a_frame(episode):
    payload = Payload(frame_of(episode))
    first, second = (LensListener(BLIND, line=None, on_stall=lambda: None) for _ in range(2))
    for one in (first, second):
        one.put(payload)
    shared = first.take()
    assert shared is second.take() and shared is not payload


def test_frame_that_hides_nothing_stays_the_same_payload(episode):
    plain = Payload(events.steps_frame(episode.pk, [text_of({"seq": 4, **CALL})]), '{"type":"gap"}')
    listener = LensListener(BLIND, line=None, on_stall=lambda: None)
    listener.put(plain)
    assert listener.take() is plain


def test_only_a_blind_reviewer_needs_frames_of_their_own():
    assert [row for row, lens in LENSES.items() if not hears_all(lens)] == ["reviewer of this episode, blind"]

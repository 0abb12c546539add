"""Generations of a training step: which turns are drawn, what stands beside them, and who reads them."""

from __future__ import annotations

import json

import pytest
from django.core.management import call_command

from curriculum.show import generations
from episodes.models import OutcomeHold
from tests.browsing import as_person, html

pytestmark = pytest.mark.usefixtures("shop")
SAID = {"kind": "message", "role": "assistant", "content": "I sell <b>all</b>.\nNow."}


def played(train, step=1, count=8):
    return [
        train.play(step, f"shop/{n}", calls=[{**SAID, "turn": 1}, {"turn": 2}], complete=n < 4) for n in range(count)
    ]


def test_five_turns_of_a_step_are_the_same_for_everybody(train):
    made = {one.pk for one in played(train)}
    drawn = generations.of_step(train.run, 1)
    assert len({one.episode for one in drawn}) == 5 and {one.episode for one in drawn} <= made
    assert drawn == generations.of_step(train.run, 1)
    assert {one.number for one in drawn} <= {1, 2} and {one.of for one in drawn} == {2}
    played(train, step=2)
    assert drawn == generations.of_step(train.run, 1), "another step changes nothing"


def test_turn_is_text_and_calls_as_the_model_wrote_them(train):
    played(train, count=5)
    said = {1: (SAID["content"], [], 1), 2: ("", ["sell {}"], 2)}
    for one in generations.of_step(train.run, 1):
        assert (one.text, one.calls, one.seq) == said[one.number]


def test_rewards_of_the_episode_stand_beside_its_turn(train):
    played(train, count=5)
    for one in generations.of_step(train.run, 1):
        assert list(one.rewards) == ["pr428", "bundle.v1"]
        assert one.rewards["bundle.v1"].components["primary"] == float(one.outcome == "complete")
    train.play(2)
    [unjudged] = generations.of_step(train.run, 2)
    assert (unjudged.outcome, unjudged.rewards) == ("", {})


def test_rollout_without_a_turn_or_with_a_fault(train):
    train.play(1, calls=[])
    train.play(1, finish="")
    [empty] = generations.of_step(train.run, 1)
    assert (empty.of, empty.number, empty.shown) == (0, 0, "")


def test_reference_of_efficiency_is_taken_from_the_whole_run(train):
    for step in (1, 2, 3):
        train.play(step, calls=[{}] * step, complete=True)
    [long] = generations.of_step(train.run, 3)
    [short] = generations.of_step(train.run, 1)
    assert short.rewards["bundle.v1"].components["efficiency"] > long.rewards["bundle.v1"].components["efficiency"]


def test_page_shows_turns_as_text_and_moves_between_steps(train, ada):
    train.play(1, calls=[SAID])
    train.report(1, components={"overall": 0.25, "<i>odd": 1})
    played(train, step=3, count=2)
    train.report(3)
    client = as_person(ada)
    last = html(client.get("/curriculum/", {"run": train.run.pk}))
    assert "Generations of step 3" in last and "reported no reward components" in last and "turns=1#turns" in last
    first = html(client.get("/curriculum/", {"run": train.run.pk, "turns": "1"}))
    assert "I sell &lt;b&gt;all&lt;/b&gt;." in first and "<b>all</b>" not in first and "<i>odd" not in first
    assert "turns=3#turns" in first and "<b>0.250</b>" in first
    assert "Generations of step 3" in html(client.get("/curriculum/", {"run": train.run.pk, "turns": "x"}))


def test_file_holds_every_step_for_members_only(train, ada, max_, rita, tmp_path):
    [one, *_] = played(train)
    train.report(1, components={"overall": 0.25})
    answer = as_person(ada).get(f"/curriculum/turns.jsonl?run={train.run.pk}")
    rows = [json.loads(line) for line in answer.content.decode().splitlines()]
    assert len(rows) == 5 and {row["reported"]["overall"] for row in rows} == {0.25}
    assert {row["rewards"]["bundle.v1"]["components"]["primary"] for row in rows} <= {0.0, 1.0}
    assert as_person(max_).get(f"/curriculum/turns.jsonl?run={train.run.pk}").status_code == 404
    OutcomeHold.objects.create(actor_key=rita.key, episode=one)
    assert as_person(rita).get(f"/curriculum/turns.jsonl?run={train.run.pk}").status_code == 409
    call_command("curves", run=train.run.pk, output=tmp_path, project=train.run.project.slug)
    assert (tmp_path / "turns.jsonl").read_bytes() == answer.content

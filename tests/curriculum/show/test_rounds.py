"""Rounds of a learner: what its checkpoints learned from and how they did, from the record alone."""

from __future__ import annotations

import pytest

from awmclient.schema import EpisodeStart, Finish
from curriculum.show import rounds
from episodes.models import VerifierOutcome
from episodes.record import ending, recording
from experts.models import Advice, Ask
from experts.models.asks import TOKEN
from exports.models import Export
from people.access import system
from people.record.members import issue_token
from runs.show import held_out
from tests.browsing import as_person
from tests.curriculum.trainer import Trainer

pytestmark = pytest.mark.usefixtures("shop")


class Amount:
    id = "amount"


@pytest.fixture
def learner(project, monkeypatch):
    """A learner whose held-out task shop/12 lacks an amount; shop/13 lacks nothing."""
    monkeypatch.setattr(rounds.snapshots.next_tasks.packs, "packs", lambda: [])
    monkeypatch.setattr(held_out, "blockers_of", lambda name, idx, version: [Amount] if idx == 12 else [])
    return Trainer(project)


def tried(train, model, task, complete, *, expert="plain", asks=(), **more):
    scenario, _, number = task.rpartition("/")
    about = {"scenario": scenario, "task_idx": int(number), "expert": expert, "policy": {"model": model}, **more}
    key = f"{model}/{task}/{Ask.objects.count()}/{VerifierOutcome.objects.count()}"
    episode, _ = recording.start_episode(train.actor, EpisodeStart(key=key, task="Sell.", **about))
    ending.finish(train.actor, episode.pk, Finish(stop_reason="done"))
    for number, blocker in enumerate(asks, 1):
        Ask.objects.create(
            project=train.project, episode=episode, seq=number, kind="question", question="How much?", key=str(number),
            blocker=blocker, deadline_at=episode.created_at,
        )  # fmt: skip
    said = {"reward_type": "complete" if complete else "others", "reward": float(complete)}
    VerifierOutcome.objects.create(episode=episode, source="verifier", **said)
    return episode


def test_rounds_count_held_out_tasks_and_asks(learner):
    learner.report(1, checkpoint="c-1", dataset="d1")
    learner.report(2, losses={"policy": 1.0})
    Export.objects.create(project=learner.project, recipe={}, format="sft", dataset="d1", state="done", rows=48)
    tried(learner, "c-1", "shop/12", True, asks=["amount"])
    tried(learner, "c-1", "shop/12", False, asks=["other", ""])
    tried(learner, "c-1", "shop/13", True)
    tried(learner, "c-1", "shop/13", False, asks=[""])
    tried(learner, "c-1", "shop/13", True, expert="off")
    tried(learner, "c-1", "shop/3", True)  # a task to train on
    tried(learner, "c-2", "shop/13", True)  # another model
    (one,) = rounds.rounds_of(learner.run)
    assert (one.step, one.checkpoint, one.learned_from.rows) == (1, "c-1", 48)
    counts = [(tally.part, tally.of) for _, tally in one.shares]
    assert counts == [(3, 5), (1, 1), (1, 2), (1, 2)]
    assert one.minutes == 0


def test_answer_of_a_program_beside_takes_no_minutes_away(learner):
    learner.report(1, checkpoint="c-1")
    tried(learner, "c-1", "shop/12", True, asks=["amount"])
    words = {"ask": Ask.objects.get(), "text": "Nine.", "source": "human"}
    Advice.objects.create(**words, author="edo", author_key="user:1", took_s=120.0)
    Advice.objects.create(**words, author="bot", author_key=f"{TOKEN}bot", took_s=9.0)
    (one,) = rounds.rounds_of(learner.run)
    assert one.minutes == 2.0


def test_registry_of_a_task_is_read_once(learner, monkeypatch):
    learner.report(1, checkpoint="c-1")
    reads = []
    monkeypatch.setattr(held_out, "blockers_of", lambda *task: reads.append(task) or [])
    for task in ("shop/12", "shop/13") * 3:
        tried(learner, "c-1", task, True)
    assert rounds.rounds_of(learner.run) and sorted(idx for _, idx, _ in reads) == [12, 13]


def test_round_without_a_dataset_or_a_try_says_nothing_of_it(learner):
    learner.report(1, checkpoint="c-1")
    (one,) = rounds.rounds_of(learner.run)
    assert one.learned_from is None and {tally.of for _, tally in one.shares} == {0}


def test_agent_reads_no_rounds_and_a_reader_does(learner, ada):
    learner.report(1, checkpoint="c-1", dataset="d1")
    assert learner.send("get", "/curriculum/rounds")[0] == 403
    secret = issue_token(system(learner.project), "reader", "read")[1]
    status, answer = learner.send("get", f"/curriculum/rounds?run={learner.run.pk}", secret=secret)
    assert status == 200 and answer["items"][0]["checkpoint"] == "c-1" and answer["items"][0]["rows"] is None
    page = as_person(ada).get(f"/curriculum/?run={learner.run.pk}").content.decode()
    assert "Rounds" in page and "not tried" in page
    assert "People's minutes are of all episodes of a checkpoint" in " ".join(page.split())


def test_another_dataset_for_a_step_is_refused(learner):
    learner.report(1, checkpoint="c-1", dataset="d1")
    status, answer = learner.send("post", f"/runs/{learner.run.pk}/steps", {"training_step": 1, "dataset": "d2"})
    assert status == 409 and "dataset" in answer["error"]["message"]

"""Start, pause, resume, cancel, retry, add seeds, kill a worker or the product, in any order: the run agrees with a
model, and at its end each planned episode has ended exactly once. `RUN_MACHINE_EXAMPLES=N` tries more orders."""

from __future__ import annotations

import os
from collections import Counter
from datetime import timedelta
from types import SimpleNamespace

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from awmclient.schema import Finish, Outcome
from episodes.errors import EpisodeEnded
from episodes.models import Episode, VerifierOutcome
from episodes.record import ending, recording
from people import access
from people.errors import AppError
from people.record import members
from runs import tasks
from runs.launch import feeding, launching, planning
from runs.models import Plan
from runs.play import parking
from runs.show.comparison import compare_run
from tests.moves import recorded
from tests.people_by_name import person
from tests.runs.planned import document

TASKS, ARMS, PARALLEL, MOST_SEEDS = 2, 2, 2, 3
EXAMPLES = int(os.environ.get("RUN_MACHINE_EXAMPLES", "8"))
BROKEN = ("environment", "worker")
MAY = {
    "pause": {"running", "paused"},
    "resume": {"planned", "running", "paused"},
    "cancel": {"planned", "running", "paused", "cancelled"},
    "retry": {"planned", "running", "paused", "finished"},
    "add_seeds": {"planned", "running", "paused", "finished"},
}
"""The states in which each change is allowed; in any other it is refused and changes nothing."""


class PlannedRun(RuleBasedStateMachine):
    """One run. The model: its state, its cells, and of each episode of a cell its state, or the fault that ended it."""

    @initialize(start=st.booleans(), can_be_cancelled=st.booleans())
    def launch(self, start, can_be_cancelled):
        Machine.number += 1
        self.calls, self.worker = Machine.calls, f"rollouts@{Machine.number}"
        self.calls.clear()
        project = members.ensure_project(f"lab{Machine.number}", "Lab")
        self.ada, self.house = person(project, f"ada{Machine.number}", "admin"), access.system(project)
        said = document(tasks={"limit": TASKS}, parallel=PARALLEL, start=start)
        self.plan, _ = planning.launch(self.ada, said, "k")
        self.state, self.seeds, self.idle = "running" if start else "planned", 1, Counter()
        self.now = dict.fromkeys(self._planned(), "queued")
        self.replaced, self.can_be_cancelled = [], can_be_cancelled

    def _planned(self):
        return self.plan.tries.values_list("episode_id", flat=True)

    def _change(self, name, *arguments):
        """Make a change of the run, which is refused where it is not allowed; returns whether it was made."""
        if self.state in MAY[name]:
            getattr(planning, name)(self.ada, self.plan.pk, *arguments)
            return True
        with pytest.raises(AppError):
            getattr(planning, name)(self.ada, self.plan.pk, *arguments)
        return False

    def _settle(self):
        """A running run without a live episode has finished."""
        if self.state == "running" and not {"queued", "running"} & set(self.now.values()):
            self.state = "finished"

    @rule()
    def launch_again(self):
        said = {**self.plan.document, "tasks": {"limit": TASKS}}
        assert planning.launch(self.ada, document(**said), "k") == (self.plan, False)

    @rule()
    def pause(self):
        if self._change("pause"):
            self.state = "paused"

    @rule()
    def resume(self):
        if self._change("resume"):
            self.state = "running"
            self._settle()

    @precondition(lambda self: self.can_be_cancelled)
    @rule()
    def cancel(self):
        if self._change("cancel"):
            self.state = "cancelled"
            self.now = {pk: "cancelled" if how in ("queued", "running") else how for pk, how in self.now.items()}

    @rule()
    def retry(self):
        broken = [pk for pk, how in self.now.items() if how in BROKEN]
        if self._change("retry") and broken:
            self.replaced += broken
            fresh = set(self._planned()) - set(self.now)
            assert len(fresh) == len(broken)
            self.now = {pk: how for pk, how in self.now.items() if pk not in broken} | dict.fromkeys(fresh, "queued")
            self.state = "running" if self.state == "finished" else self.state

    @precondition(lambda self: self.seeds < MOST_SEEDS)
    @rule()
    def add_seeds(self):
        if self._change("add_seeds", 1):
            self.seeds += 1
            self.now |= dict.fromkeys(set(self._planned()) - set(self.now), "queued")
            self.state = "running" if self.state == "finished" else self.state

    @precondition(lambda self: self.calls)
    @rule(twice=st.booleans())
    def a_worker_takes_a_call(self, twice):
        """It begins the episode, unless the run is held or someone has begun it; a call can come twice."""
        while self.calls:
            pk = self.calls.pop(0)
            if pk in self.now:
                break
        else:
            return
        for _ in range(1 + twice):
            begun = not feeding.is_held(Episode.objects.get(pk=pk)) and recording.begin(pk, self.worker)
            assert bool(begun) == (self.now[pk] == "queued" and self.state == "running")
            if begun:
                self.now[pk] = "running"
                feeding.begun(Episode.objects.get(pk=pk))

    def _at_work(self):
        return sorted(pk for pk, how in self.now.items() if how == "running")

    @precondition(lambda self: self._at_work())
    @rule(complete=st.booleans())
    def an_episode_ends(self, complete):
        for pk in self._at_work()[:1]:
            ending.finish(self.house, pk, Finish(stop_reason="done"))
            kind = "complete" if complete else "others"
            ending.record_outcome(self.house, pk, Outcome(reward_type=kind, reward=float(complete)))
            feeding.verified(Episode.objects.get(pk=pk))
            self.now[pk] = "finished"
            self._settle()

    @precondition(lambda self: self._at_work())
    @rule()
    def an_episode_fails(self):
        for pk in self._at_work()[:1]:
            ending.fail(self.house, pk, "environment", "gone")
            self.now[pk] = "environment"
            self._settle()

    @precondition(lambda self: "cancelled" in self.now.values())
    @rule()
    def a_cancelled_episode_hears_it(self):
        """The loop of an episode that a person cancelled learns of it when it ends, and changes nothing."""
        pk = next(pk for pk, how in self.now.items() if how == "cancelled")
        with pytest.raises(EpisodeEnded):
            ending.finish(self.house, pk, Finish(stop_reason="done"))

    @precondition(lambda self: self._at_work())
    @rule()
    def kill_a_worker(self):
        self._lose()
        tasks.take_over(SimpleNamespace(hostname=self.worker, controller=SimpleNamespace(concurrency=2)))

    @rule()
    def kill_the_product(self):
        """Workers and the messages to them are lost; what starts again finds its work in the database."""
        self.calls.clear()
        self._lose()
        tasks.take_over(SimpleNamespace(hostname=self.worker, controller=SimpleNamespace(concurrency=2)))
        tasks.wake()

    def _lose(self):
        """What was at work is queued again; what was lost too often in a row without a step has failed."""
        for pk in self._at_work():
            self.idle[pk] += 1
            self.now[pk] = "queued" if self.idle[pk] < ending.IDLE_ATTEMPTS else "worker"
        if "worker" in self.now.values():
            self._settle()

    @rule()
    def lose_the_calls(self):
        self.calls.clear()
        launching.wake_forgotten(timedelta(0))
        feeding.feed_all()

    @invariant()
    def the_run_agrees(self):
        plan = Plan.objects.get(pk=self.plan.pk)
        assert plan.state == self.state
        tries = list(plan.tries.select_related("episode", "arm"))
        cells = {(one.arm.name, one.scenario, one.task_idx, one.seed) for one in tries}
        assert len(cells) == len(tries) == TASKS * ARMS * self.seeds
        found = {one.episode_id: one.episode.fault or one.episode.state for one in tries}
        assert found == self.now
        called = [one for one in tries if one.called_at and one.episode.state == "queued"]
        assert len(called) + len(self._at_work()) <= PARALLEL
        assert Episode.objects.filter(run=plan.run).count() == len(tries) + len(self.replaced)

    def teardown(self):
        """Bring the run to its end: each cell has one outcome, or its episode was cancelled with the run."""
        if not hasattr(self, "now"):
            return
        self._through()
        ended = [pk for pk, how in self.now.items() if how == "finished"]
        assert VerifierOutcome.objects.filter(episode__run=self.plan.run).count() == len(ended)
        assert not Episode.objects.live().filter(run=self.plan.run).exists()
        found = compare_run(self.ada, self.plan.pk).tries
        assert len({(one.task, one.arm, one.seed) for one in found}) == len(found) == TASKS * ARMS * self.seeds
        assert sum(one.complete is not None for one in found) == len(ended)
        assert self.state == "cancelled" or len(ended) == len(found)

    def _through(self):
        for _ in range(200):
            if self.state == "cancelled":
                return
            self.retry()
            if self.state in ("planned", "paused"):
                self.resume()
            if self.state == "finished":
                return
            self.lose_the_calls()
            self.a_worker_takes_a_call(False)
            self.an_episode_ends(True)
            self.the_run_agrees()
        raise AssertionError(f"the run does not end: {self.state}, {Counter(self.now.values())}")


class Machine:
    number, calls = 0, []


@pytest.mark.django_db(transaction=True)
def test_run_agrees_with_its_model_in_any_order(monkeypatch):
    monkeypatch.setattr(launching, "wake_worker", lambda pk, delay_s=0: Machine.calls.append(pk))
    monkeypatch.setattr(parking.threads, "all", parking.threads.all)
    quick = {"max_examples": EXAMPLES, "stateful_step_count": 25, "phases": [Phase.generate]}
    with recorded() as seen:
        run_state_machine_as_test(PlannedRun, settings=settings(**quick))
    assert seen.allowed and seen.others == []

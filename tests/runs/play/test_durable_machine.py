"""Begin, step, ask, answer, take back, park, die, wake twice, cancel, in any order: the record agrees with a model."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import transaction
from django.utils import timezone
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from awmclient.schema import AskOpen, EpisodeStart, Finish, StepBatch
from episodes.errors import EpisodeEnded
from episodes.models import Episode, EpisodeState, Origin, Step
from episodes.record import ask_steps, ending, recording
from experts.models import Ask
from experts.record import advising, closing, opening, queue
from people import access
from people.models import new_id
from people.record import members
from runs.launch import launching
from runs.play import parking
from tests.moves import recorded
from tests.people_by_name import person

LIVE = {"queued", "running", "waiting", "parked"}


class Durable(RuleBasedStateMachine):
    """One episode of ours. The model: its state, its attempt, its steps, and whether its ask is open or answered."""

    def __init__(self):
        super().__init__()
        Machine.number += 1
        self.worker = f"rollouts@{Machine.number}"
        project = members.ensure_project(f"lab{Machine.number}", "Lab")
        self.house, self.expert = access.system(project), person(project, f"edo{Machine.number}", "expert")
        self.ada = person(project, f"ada{Machine.number}", "admin")
        start = EpisodeStart(key=f"e{Machine.number}", task="t", expert="plain")
        self.episode, _ = recording.start_episode(self.house, start, state=EpisodeState.QUEUED, origin=Origin.BUILTIN)
        self.state, self.attempt, self.idle, self.steps, self.began_at = "queued", 0, 0, 0, 0
        self.ask, self.answered, self.woken, self.expected_wakes = None, False, Machine.woken, 0
        self.woken.clear()

    def begin(self):
        begun = recording.begin(self.episode.pk, self.worker)
        assert bool(begun) == (self.state == "queued")
        if begun:
            self.attempt, self.state, self.began_at = self.attempt + 1, "running", self.steps

    @rule()
    def wake(self):
        self.begin()

    @rule()
    def wake_twice(self):
        self.begin()
        self.begin()

    @rule(older=st.integers(0, 2))
    def step(self, older):
        """A step of this attempt or of an older one, which writes nothing. One that was given up for lost goes on when
        its last attempt is heard again."""
        attempt = self.attempt - older
        batch = StepBatch.model_validate({"steps": [{"seq": self.steps + 1, "kind": "note", "content": "x"}]}).steps
        writes = self.state in ("running", "waiting", "failed") and older == 0
        if self.state in ("queued", "parked") or (self.state == "failed" and self.ask is not None):
            return  # the loop of the last attempt has ended itself, or its ask was closed with it
        if writes:
            recording.append_steps(self.house, self.episode.pk, batch, attempt)
            self.steps += 1
            self.state = "running" if self.state == "failed" else self.state
        else:
            with pytest.raises(EpisodeEnded):
                recording.append_steps(self.house, self.episode.pk, batch, attempt)

    @precondition(lambda self: self.state == "running" and self.ask is None)
    @rule()
    def ask_(self):
        wanted = AskOpen(key=f"q{self.steps}", episode=self.episode.pk, seq=self.steps + 1, question="?")
        self.ask, self.answered = opening.open_ask(self.house, wanted)[0].pk, False
        self.steps, self.state = self.steps + 1, "waiting"

    @precondition(lambda self: self.state == "running" and self.ask is not None)
    @rule()
    def go_on_waiting_or_read(self):
        """An attempt that goes on finds the ask: open, it waits for it; answered, it reads the answer."""
        if self.answered:
            closing.consume(self.house, self.ask)
            self.ask = None
        else:
            with transaction.atomic():
                ask_steps.note_waiting(self.episode.pk)
            self.state = "waiting"

    @precondition(lambda self: self.ask is not None)
    @rule(older=st.integers(0, 1), waited_s=st.sampled_from([0.0, 61.0]))
    def park(self, older, waited_s):
        parked = parking.park_if_due(self.ask, self.attempt - older, waited_s)
        can_park = self.state in ("waiting", "parked") and not self.answered
        assert parked == (can_park and older == 0 and waited_s > 60)
        if parked:
            self.state = "parked"

    @precondition(lambda self: self.ask is not None and not self.answered and self.state in LIVE)
    @rule()
    def answer(self):
        lease = queue.claim(self.expert, self.ask)
        advising.answer(self.expert, lease.assignment_id, lease.lease_token, "This one.", new_id(), [])
        self._closed()

    @precondition(lambda self: self.ask is not None and not self.answered and self.state in LIVE)
    @rule()
    def pass_the_deadline(self):
        Ask.objects.filter(pk=self.ask).update(deadline_at=timezone.now() - timedelta(seconds=1))
        assert closing.close_due() == 1
        self._closed()

    def _closed(self):
        self.answered = True
        if self.state == "parked":
            self.expected_wakes += 1
        self.state = {"waiting": "running", "parked": "queued"}.get(self.state, self.state)

    @precondition(lambda self: self.ask is not None and self.answered and self.state in LIVE)
    @rule()
    def take_back(self):
        if Ask.objects.get(pk=self.ask).status != "answered":
            return  # it fell back
        was_parked = Episode.objects.get(pk=self.episode.pk).parked_at is not None
        advising.withdraw(self.expert, self.ask)
        queued = "parked" if was_parked else "queued"
        self.answered, self.state = False, queued if self.state == "queued" else "waiting"
        queue.release(self.expert, *self._lease())

    def _lease(self):
        assignment = Ask.objects.select_related("assignment").get(pk=self.ask).assignment
        return assignment.pk, assignment.lease_token

    @rule()
    def die(self):
        lost = ending.lose_of_worker(self.worker)
        assert lost == (self.state in ("running", "waiting"))
        if lost:
            self.idle = 0 if self.steps > self.began_at else self.idle + 1
            self.state = "queued" if self.idle < ending.IDLE_ATTEMPTS else "failed"

    @precondition(lambda self: self.state == "running" and self.ask is None)
    @rule()
    def finish(self):
        ending.finish(self.house, self.episode.pk, Finish(stop_reason="done"), self.attempt)
        self.state = "finished"

    @precondition(lambda self: self.steps > 4)
    @rule()
    def cancel(self):
        ending.cancel(self.ada, self.episode.pk, "enough")
        self.state = "cancelled" if self.state in LIVE else self.state

    @invariant()
    def the_record_agrees(self):
        row = Episode.objects.get(pk=self.episode.pk)
        assert (row.state, row.attempt, row.last_seq) == (self.state, self.attempt, self.steps)
        seqs = list(Step.objects.filter(episode=row).order_by("seq").values_list("seq", flat=True))
        assert seqs == list(range(1, self.steps + 1))
        assert self.woken == [row.pk] * self.expected_wakes
        if row.state == "parked":
            assert row.parked_at is not None and row.worker == ""
            assert Ask.objects.open().filter(episode=row).count() == 1
        if row.state not in LIVE:
            assert not Ask.objects.open().filter(episode=row).exists()


class Machine:
    number, woken = 0, []


@pytest.mark.django_db(transaction=True)
def test_durable_episode_agrees_with_its_model(monkeypatch):
    monkeypatch.setattr(launching, "wake_worker", lambda pk, delay_s=0: Machine.woken.append(pk))
    quick = {"max_examples": 10, "stateful_step_count": 20, "phases": [Phase.generate]}
    with recorded() as seen:
        run_state_machine_as_test(Durable, settings=settings(**quick))
    assert seen.allowed and seen.others == []

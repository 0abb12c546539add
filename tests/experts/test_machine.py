"""The whole machine of an ask against a plain model: any interleaving of what people, loops, clocks and ends do.

After every act: at most one accepted answer; an ask is open exactly as long as the model says; no text is lost; what
was read stands; who waits is never left behind. The database is rolled back after each example.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from django.db import transaction
from django.utils import timezone
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from awmclient.schema import AskOpen, EpisodeStart, Finish
from episodes.models import Episode
from episodes.record import ending, recording
from experts.errors import LeaseLost, TooLate
from experts.models import Advice, Ask, AskEvent, Assignment, Draft
from experts.record import advising, closing, desk, opening, queue
from people.errors import AppError
from tests.moves import recorded
from tests.people_by_name import token
from tests.reading import steps_read_by

PEOPLE = st.sampled_from(["ada", "edo"])
ASKS = 2


@dataclass
class Known:
    """What a plain model of one ask remembers."""

    pk: str
    status: str = "open"
    answer: str = ""
    by: str = ""
    read: bool = False
    passed: set[str] = field(default_factory=set)
    texts: set[str] = field(default_factory=set)
    leases: dict[str, queue.AskClaim] = field(default_factory=dict)


def anything(known):
    return True


def answered(known):
    return known.status == "answered"


class Machine(RuleBasedStateMachine):
    actors: dict

    def __init__(self):
        super().__init__()
        self.undo = transaction.atomic()
        self.undo.__enter__()
        self.count = itertools.count()
        self.known: list[Known] = []

    def teardown(self):
        transaction.set_rollback(True)
        self.undo.__exit__(None, None, None)

    @initialize()
    def begin(self):
        ada = self.actors["ada"]
        start = EpisodeStart(key="machine", task="merge", expert="plain")
        self.episode, _ = recording.start_episode(ada, start)
        for name in ("ada", "edo"):
            desk.seen(self.actors[name])
        self.loop, _ = token(ada.project, "agent")
        self.ended = False
        for _ in range(ASKS):
            self.ask()

    def pick(self, data, fits):
        return data.draw(st.sampled_from([known for known in self.known if fits(known)]))

    def is_live(self, known):
        return known.status == "open" and not self.ended

    # --- acts ---------------------------------------------------------------------------------------------------------

    def ask(self):
        number = next(self.count)
        seq = Episode.objects.get(pk=self.episode.pk).last_seq + 1
        wanted = AskOpen(key=f"q{number}", episode=self.episode.pk, seq=seq, question=f"What about thing {number}?")
        made, new = opening.open_ask(self.actors["ada"], wanted)
        again, twice = opening.open_ask(self.actors["ada"], wanted)
        assert new and not twice and made.pk == again.pk
        self.known.append(Known(made.pk))

    @rule(data=st.data(), who=PEOPLE)
    def claim(self, data, who):
        self.claimed(self.pick(data, anything), who)

    def claimed(self, known, who):
        held = Assignment.objects.get(ask=known.pk)
        other = held.is_held(timezone.now()) and held.holder != self.actors[who].key
        may = self.is_live(known) and not other and who not in known.passed
        lease = self.attempt(lambda: queue.claim(self.actors[who], known.pk))
        assert (lease is not None) == may
        if lease is not None:
            known.leases[who] = lease
        return lease

    @rule(data=st.data())
    def lapse(self, data):
        slot = Assignment.objects.filter(ask=self.pick(data, anything).pk, state="claimed")
        slot.update(lease_until=timezone.now() - timedelta(seconds=1))

    @rule(data=st.data(), who=PEOPLE, renews=st.booleans())
    def renew_or_release(self, data, who, renews):
        known, lease = self.held(data, who)
        if lease is None:
            return
        act = queue.renew if renews else queue.release
        mine = self.is_live(known) and self.current(known) == lease.lease_token
        done = self.attempt(lambda: act(self.actors[who], lease.assignment_id, lease.lease_token) or True)
        assert bool(done) == mine

    @rule(data=st.data(), who=PEOPLE)
    def answer(self, data, who):
        (known, lease), number = self.held(data, who), next(self.count)
        if lease is None:
            return
        text = f"answer {number}"
        wins = self.is_live(known) and self.current(known) == lease.lease_token
        try:
            for _ in range(2):  # a repeated press is the same answer
                advising.answer(self.actors[who], lease.assignment_id, lease.lease_token, text, f"n{number}")
            assert wins
            known.status, known.answer, known.by = "answered", text, who
        except (LeaseLost, TooLate):
            assert not wins
        known.texts.add(text)

    @rule(data=st.data(), who=PEOPLE)
    def decline(self, data, who):
        known, lease = self.held(data, who)
        if lease is None:
            return
        mine = self.is_live(known) and self.current(known) == lease.lease_token
        done = self.attempt(lambda: queue.decline(self.actors[who], lease.assignment_id, lease.lease_token) or True)
        assert bool(done) == mine
        if done:
            known.passed.add(who)
            known.status = "fell_back" if known.passed == {"ada", "edo"} else known.status

    @precondition(lambda self: any(known.status == "answered" for known in self.known))
    @rule(data=st.data(), other=st.sampled_from(["", "", "ada", "edo"]), amends=st.booleans())
    def change_before_it_is_read(self, data, other, amends):
        known, number = self.pick(data, answered), next(self.count)
        who = other or known.by
        may = known.by == who and not known.read and (amends or not self.ended)
        if amends:
            text = f"better {number}"
            done = self.attempt(lambda: advising.edit(self.actors[who], known.pk, text, None, f"n{number}"))
            if done is not None:
                known.answer = text
                known.texts.add(text)
        else:
            done = self.attempt(lambda: advising.withdraw(self.actors[who], known.pk))
            if done is not None:
                known.status, known.answer, known.by = "open", "", ""
                known.leases[who] = done
        assert (done is not None) == may

    @rule(data=st.data(), who=PEOPLE)
    def type_a_draft(self, data, who):
        known = self.pick(data, anything)
        mine = Draft.objects.filter(ask=known.pk, author_key=self.actors[who].key).first()
        desk.save_draft(self.actors[who], known.pk, f"typing {next(self.count)}", version=mine.version if mine else 0)

    @precondition(lambda self: any(self.is_live(known) for known in self.known))
    @rule(data=st.data(), comes=st.integers(0, 3), cancels=st.booleans())
    def deadline_or_cancel(self, data, comes, cancels):
        known = self.pick(data, self.is_live)
        if comes:  # most asks are to live on
            return
        if cancels:
            closing.cancel(self.actors["ada"], known.pk)
        else:
            Ask.objects.filter(pk=known.pk).update(deadline_at=timezone.now() - timedelta(milliseconds=1))
            closing.look(self.loop, known.pk)  # the waiting loop settles it, no one else
        known.status = "cancelled" if cancels else "fell_back"

    @rule(data=st.data())
    def deliver_again_and_again(self, data):
        known = self.pick(data, anything)
        first, second = (closing.look(self.loop, known.pk) for _ in range(2))
        assert first.status == second.status == known.status
        assert first.delivered_at == second.delivered_at

    @rule(data=st.data(), comes=st.integers(0, 2))
    def read(self, data, comes):
        known = self.pick(data, anything)
        if comes:
            return
        if self.attempt(lambda: closing.consume(self.actors["ada"], known.pk)) is not None:
            known.read = True
        assert known.read == (known.status != "open")

    @precondition(lambda self: not self.ended)
    @rule(comes=st.integers(0, 3))
    def end(self, comes):
        if comes:
            return
        ending.finish(self.actors["ada"], self.episode.pk, Finish(stop_reason="done"))
        for known in self.known:
            known.status = "cancelled" if known.status == "open" else known.status
        self.ended = True

    # --- what must always hold ----------------------------------------------------------------------------------------

    @invariant()
    def rows_say_what_the_model_says(self):
        for known in self.known:
            ask = Ask.objects.select_related("accepted", "assignment").get(pk=known.pk)
            assert ask.status == known.status
            assert (ask.accepted.text if ask.accepted else "") == known.answer
            assert ask.is_open or ask.assignment.state in ("submitted", "void")
            assert (ask.accepted is None) == (known.status in ("open", "cancelled"))
            assert known.texts <= set(Advice.objects.filter(ask=ask).values_list("text", flat=True))
            assert AskEvent.objects.filter(ask=ask).exists()

    @invariant()
    def nobody_is_left_waiting(self):
        waits = any(known.status == "open" for known in self.known)
        state = Episode.objects.get(pk=self.episode.pk).state
        assert state == ("finished" if self.ended else "waiting" if waits else "running")

    @invariant()
    def the_step_says_what_the_agent_gets(self):
        told = {step["ask"]: step.get("advice") for step in steps_read_by(self.actors["ada"], self.episode.pk)}
        for known in self.known:
            assert (told[known.pk] or {}).get("text", "") == known.answer

    def held(self, data, who):
        """An ask and the lease that somebody was given for it, perhaps long ago; they may use it still. Without one
        they try to claim first."""
        known = self.pick(data, anything)
        return known, known.leases.get(who) or self.claimed(known, who)

    def current(self, known):
        return Assignment.objects.filter(ask=known.pk, state="claimed").values_list("lease_token", flat=True).first()

    def attempt(self, act):
        try:
            with transaction.atomic():
                return act()
        except AppError:
            return None


@pytest.mark.slow
def test_any_interleaving_keeps_the_machine_true(ada, edo):
    desk.set_policy(ada, capacity=99)

    class Here(Machine):
        actors = {"ada": ada, "edo": edo}

    quick = {"max_examples": 25, "stateful_step_count": 30}
    with recorded() as seen:
        run_state_machine_as_test(Here, settings=settings(**quick))
    assert seen.allowed and seen.others == []

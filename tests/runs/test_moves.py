"""Each row of the tables of states happens, by the function that it names, and no other change of a state does."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import transaction
from django.utils import timezone

from awmclient.schema import AskOpen, EpisodeStart, Finish, StandingAnswerBody, StepBatch
from episodes.models import BranchArm, Episode, EpisodeState, Fork, Knowledge, Origin
from episodes.record import admitting, ask_steps, branching, ending, queueing, recording
from episodes.stored.arrivals import Arrival
from experts.models import Ask
from experts.record import advising, closing, desk, opening, queue, standing_answers
from exports.jobs import requesting
from exports.recipe import Recipe
from people import access
from people.errors import AppError
from people.record import jobs
from runs.launch import feeding, planning
from runs.models import Plan
from runs.play import person
from tests.asking import MODEL
from tests.moves import TABLES, recorded
from tests.runs.planned import document, end

pytestmark = pytest.mark.django_db

LIVE = ("queued", "running", "waiting", "parked")


class Desk:
    """The calls that bring an episode, an ask, a run or an export from one state to another."""

    def __init__(self, ada, edo):
        self.ada, self.edo, self.house, self.number = ada, edo, access.system(ada.project), 0

    def episode(self, state="running", origin=Origin.BUILTIN):
        self.number += 1
        start = EpisodeStart(key=f"m{self.number}", task=f"task {self.number}", expert="plain")
        one, _ = recording.start_episode(self.ada, start, state=EpisodeState.QUEUED, origin=origin)
        if state != "queued":
            if origin == Origin.BUILTIN:
                recording.begin(one.pk, f"w{self.number}")
            else:
                self.step(one)
        if state in ("waiting", "parked"):
            self.ask(one)
        if state == "parked":
            recording.park(one.pk)
        one.refresh_from_db()
        assert one.state == state
        return one

    def recorder(self, one):
        return self.house if one.is_builtin else self.ada

    def step(self, one):
        one.refresh_from_db()
        batch = StepBatch.model_validate({"steps": [{"seq": one.last_seq + 1, "kind": "note", "content": "x"}]}).steps
        recording.append_steps(self.recorder(one), one.pk, batch)

    def ask(self, one, question="Into which one?", **more):
        one.refresh_from_db()
        seq = one.last_seq + 1
        wanted = AskOpen(key=f"q{seq}", episode=one.pk, seq=seq, question=question, **more)
        return opening.open_ask(self.recorder(one), wanted)[0]

    def answer(self, ask, who=None, text="Into the oldest."):
        lease = queue.claim(who or self.edo, ask.pk)
        return advising.answer(who or self.edo, lease.assignment_id, lease.lease_token, text, f"n{ask.pk}")

    def run(self, state="running"):
        self.number += 1
        said = document(tasks={"limit": 1}, start=state != "planned")
        plan = planning.launch(self.ada, said, f"k{self.number}")[0]
        if state == "paused":
            planning.pause(self.ada, plan.pk)
        if state == "finished":
            while Plan.objects.get(pk=plan.pk).state == "running":
                feeding.feed(plan.pk)
                for pk in plan.tries.filter(episode__state="queued").values_list("episode_id", flat=True):
                    end(pk)
        return plan

    def export(self):
        return requesting.request(self.ada, Recipe.read({"format": "sft"}))


def _episodes(desk_):
    for state in LIVE:
        ending.finish(desk_.house, desk_.episode(state).pk, Finish(stop_reason="done"))
        ending.finish(desk_.house, desk_.episode(state).pk, Finish(stop_reason="error", fault="policy"))
        ending.fail(desk_.ada, desk_.episode(state).pk, "environment", "closed")
        ending.cancel(desk_.ada, desk_.episode(state).pk, "enough")
    desk_.episode("running", Origin.EXTERNAL)
    started, _ = recording.start_episode(desk_.ada, EpisodeStart(key="own", task="t", expert="plain"))
    desk_.ask(started)
    queued = desk_.episode("queued")
    desk_.ask(queued)
    parked = desk_.episode("parked", Origin.EXTERNAL)
    desk_.step(parked)
    recording.park(parked.pk)
    desk_.ask(parked)


def _imported(desk_):
    now = timezone.now().isoformat()
    for state in ("finished", "failed", "cancelled"):
        row = {"id": f"i{state}", "key": state, "task": "t", "state": state, "started_at": now, "ended_at": now}
        admitting.admit(desk_.ada, [Arrival({**row, "tools": [], "policy": {}}, None, "imported", b"")])


def _forked(desk_):
    parent = ending.finish(desk_.house, desk_.episode().pk, Finish(stop_reason="done"))
    parent.project = desk_.ada.project
    made = Fork(project=parent.project, parent=parent, seq=1, tries=1, knowledge="blind", grade="exact")
    branching.fork(desk_.ada, made, 1, [branching.ArmPlan(BranchArm.TREATED, [], Knowledge.BLIND)])


def _lost(desk_):
    later = timezone.now() + timedelta(days=1)
    for state in ("running", "waiting"):
        for origin in (Origin.BUILTIN, Origin.EXTERNAL):
            desk_.episode(state, origin)
    ending.lose_silent(later)
    for state in ("running", "waiting"):
        ending.lose_of_worker(desk_.episode(state).worker)
        one = desk_.episode(state)
        Episode.objects.filter(pk=one.pk).update(attempt_seq=one.last_seq, idle_attempts=ending.IDLE_ATTEMPTS - 1)
        ending.lose_of_worker(one.worker)
    recording.heartbeat(desk_.house, one.pk)


def _answers(desk_):
    one = desk_.episode("running")
    ask = desk_.ask(one)
    desk_.answer(ask)
    advising.withdraw(desk_.edo, ask.pk)
    assert Episode.objects.get(pk=one.pk).state == "waiting"
    _held(desk_)
    _counted(desk_)
    ending.lose_of_worker(one.worker)
    recording.begin(one.pk, "again")
    with transaction.atomic():
        ask_steps.note_waiting(one.pk)
    recording.park(one.pk)
    lease = queue.claim(desk_.edo, ask.pk)
    advising.answer(desk_.edo, lease.assignment_id, lease.lease_token, "Into 7.", "n2")
    advising.withdraw(desk_.edo, ask.pk)
    assert Episode.objects.get(pk=one.pk).state == "parked"


def _held(desk_):
    """An answer that is held leaves at its end, another's ask is cancelled before."""
    for leaves in (True, False):
        ask = desk_.ask(desk_.episode(), f"Held {leaves}?")
        lease = queue.claim(desk_.edo, ask.pk)
        advising.answer(desk_.edo, lease.assignment_id, lease.lease_token, "Into 7.", "n3", hold_s=5)
        if leaves:
            Ask.objects.filter(pk=ask.pk).update(held_until=timezone.now())
            closing.close_if_due(ask.pk)
        else:
            closing.cancel(desk_.house, ask.pk)


def _counted(desk_):
    """A first approval is free again for a second person, at once or after its hold."""
    calls = {"kind": "approval", "calls": [{"id": "1", "name": "refund"}], "quorum": {"of": 2}}
    for seconds in (0, 5):
        ask = desk_.ask(desk_.episode(), f"Counted after {seconds} s?", **calls)
        lease = queue.claim(desk_.edo, ask.pk)
        decision = {"calls": [{"id": "1", "verdict": "approve"}]}
        sent = (lease.assignment_id, lease.lease_token, "", "n4")
        advising.answer(desk_.edo, *sent, decision=decision, hold_s=seconds)
        Ask.objects.filter(pk=ask.pk, held__isnull=False).update(held_until=timezone.now())
        closing.close_if_due(ask.pk)


def _claims(desk_):
    ask = desk_.ask(desk_.episode())
    for leave in (queue.release, queue.escalate):
        lease = queue.claim(desk_.edo, ask.pk)
        leave(desk_.edo, lease.assignment_id, lease.lease_token, *(["people", "x"] if leave is queue.escalate else []))
    queue.claim(desk_.edo, ask.pk)
    queue.release_all_of(desk_.edo)
    queue.claim(desk_.edo, ask.pk)
    queue.decline_unclaimed(desk_.edo, ask.pk)
    queue.decline_unclaimed(desk_.ada, ask.pk)
    ask = desk_.ask(desk_.episode())
    for who in (desk_.edo, desk_.ada):
        lease = queue.claim(who, ask.pk)
        queue.decline(who, lease.assignment_id, lease.lease_token, "")
    ask = desk_.ask(desk_.episode())
    closing.cancel(desk_.house, ask.pk)
    opening.reopen(desk_.house, ask.pk)
    queue.claim(desk_.edo, ask.pk)
    closing.cancel(desk_.house, ask.pk)
    opening.reopen(desk_.house, ask.pk)
    ask, same = desk_.ask(desk_.episode(), "Which of both?"), desk_.ask(desk_.episode(), "Which of both?")
    Ask.objects.filter(pk=same.pk).update(group=ask.group)
    desk_.answer(ask)
    advising.answer_group(desk_.edo, Ask.objects.get(pk=ask.pk), "This.", None, "n", [same.pk])


def _deadlines(desk_):
    for held in (False, True):
        ask = desk_.ask(desk_.episode())
        lease = queue.claim(desk_.edo, ask.pk)
        Ask.objects.filter(pk=ask.pk).update(deadline_at=timezone.now() - timedelta(seconds=1))
        if held:
            with pytest.raises(AppError):
                advising.answer(desk_.edo, lease.assignment_id, lease.lease_token, "Late.", "n")
        else:
            closing.close_due()


def _models(desk_, settings):
    model = access.expert_model(desk_.ada.project, MODEL)
    arm = {"experts": "models"}
    start = EpisodeStart(key="models", task="t", expert="plain", policy=arm)
    desk_.ask(recording.start_episode(desk_.ada, start)[0], "Without a model?")
    settings.EXPERT_ENDPOINTS = {MODEL: type("Endpoint", (), {"concurrency": 9, "max_concurrency": 9, "limit": 9})()}
    desk.set_policy(desk_.ada, model_first=True, audit_share=0.0, cache="all")
    ask = desk_.ask(desk_.episode())
    assert queue.claim_for_model(model)
    queue.transfer(desk_.ada, ask.pk, "people")
    desk_.answer(ask)
    desk_.ask(recording.start_episode(desk_.ada, EpisodeStart(key="same", task=ask.episode.task, expert="plain"))[0])


def _standing(desk_):
    """A standing answer approves the call of an ask that is open, and of one that opens."""

    def approval():
        one = desk_.episode("running", Origin.EXTERNAL)
        calls = [{"id": "1", "name": "send_reply", "arguments": {}}]
        wanted = AskOpen(key="q", episode=one.pk, seq=one.last_seq + 1, question="May I?", kind="approval", calls=calls)
        opening.open_ask(desk_.ada, wanted)

    approval()
    until = timezone.now() + timedelta(hours=1)
    standing_answers.give(desk_.edo, StandingAnswerBody(tool="send_reply", until=until))
    approval()


def _persons(desk_):
    """A person sends the turn that an episode waits for, and that a parked one waits for; another is forgotten."""

    def waiting(state):
        desk_.number += 1
        start = EpisodeStart(key=f"p{desk_.number}", task="t", policy={"awmweb": "person"})
        one, _ = recording.start_episode(desk_.ada, start, state=EpisodeState.QUEUED, origin=Origin.BUILTIN)
        recording.begin(one.pk, "w")
        with transaction.atomic():
            ask_steps.note_waiting(one.pk)
        if state == "parked":
            recording.park(one.pk)
        return one

    for state in ("waiting", "parked"):
        person.say(desk_.edo, waiting(state).pk, 1, {"answer": "Done."})
    waiting("parked")
    assert person.give_up_forgotten(timezone.now() + person.FORGOTTEN + timedelta(days=1)) == 1


def _runs(desk_):
    for state in ("planned", "paused"):
        planning.resume(desk_.ada, desk_.run(state).pk)
    for state in ("planned", "running", "paused"):
        planning.cancel(desk_.ada, desk_.run(state).pk)
    planning.add_seeds(desk_.ada, desk_.run("finished").pk, 1)
    broken = desk_.run("running")
    for pk in broken.tries.values_list("episode_id", flat=True):
        feeding.feed(broken.pk)
        recording.begin(pk, "w")
        ending.fail(desk_.house, pk, "environment", "closed")
    feeding.feed(broken.pk)
    planning.retry(desk_.ada, broken.pk)


def _exports(desk_):
    manifest = {"episodes": 0, "rows": 0, "dataset": "d"}
    requesting.finish(requesting.claim(desk_.export().pk), manifest)
    requesting.fail(requesting.claim(desk_.export().pk), "no room")
    requesting.cancel(desk_.ada, desk_.export().pk)
    building = requesting.claim(desk_.export().pk)
    requesting.cancel(desk_.ada, building.pk)


def test_every_row_of_the_tables_happens_and_nothing_else(ada, edo, settings, monkeypatch):
    monkeypatch.setattr(jobs, "call_worker", lambda *given, **more: True)
    desk.set_policy(ada, capacity=99)
    desk_ = Desk(ada, edo)
    with recorded() as seen:
        first = (_episodes, _imported, _forked, _lost, _answers, _standing, _claims)
        for drive in (*first, _deadlines, _persons, _runs, _exports):
            drive(desk_)
        queueing.cancel_unbegun(ada, desk_.run("planned").run, "enough")
        _models(desk_, settings)
    rows = {(name, *pair, one.by) for name, moves in TABLES.items() for one in moves for pair in one.pairs()}
    assert seen.others == []
    assert sorted(rows - seen.allowed) == []

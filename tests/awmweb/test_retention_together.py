"""Two passes at the same time, and holds that are placed meanwhile: each row falls once, and nothing held does."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.utils import timezone
from hypothesis import given, settings
from hypothesis import strategies as st

from awmclient.schema import EpisodeStart, Finish, StepBatch
from awmweb.retention import passes, rule_pass, rules
from episodes.models import Episode, Step
from episodes.record import ending, recording
from people.access import system
from people.models import Hold, Tombstone
from people.record import holding, members
from tests.people_by_name import person

WORD = "quokka"


def ended(actor, key):
    one, _ = recording.start_episode(actor, EpisodeStart(key=key, task="Merge."))
    steps = [{"seq": seq, "kind": "message", "role": "assistant", "content": f"{WORD} {seq}"} for seq in (1, 2, 3)]
    recording.append_steps(actor, one.pk, StepBatch.model_validate({"steps": steps}).steps)
    ending.finish(actor, one.pk, Finish(stop_reason="done"))
    Episode.objects.filter(pk=one.pk).update(ended_at=timezone.now() - timedelta(days=40))
    return one.pk


def bodies(keys):
    return sorted(Step.objects.filter(episode__in=keys).values_list("pk", "body", "cut", "at"))


def passing(project, failures):
    try:
        for _ in passes.work([project]):
            pass
    except Exception as failure:
        failures.append(failure)
    finally:
        connection.close()


@pytest.mark.django_db(transaction=True)
def test_two_passes_empty_each_step_once(monkeypatch):
    monkeypatch.setattr(rule_pass, "STEPS_MAX", 6)
    project = members.ensure_project("lab", "Lab")
    ada = person(project, "ada", "admin")
    keys = [ended(ada, f"e{number}") for number in range(24)]
    held = keys[::5]
    for pk in held:
        holding.place(ada, Hold.Place.EPISODE, "Case 12.", subject=pk)
    rules.set_rule(ada, "steps", 30, ["finished"])
    before, failures = bodies(held), []
    both = [threading.Thread(target=passing, args=(project, failures)) for _ in range(2)]
    for one in both:
        one.start()
    for one in both:
        one.join(60)
    assert failures == [] and bodies(held) == before
    free = set(keys) - set(held)
    assert not Step.objects.filter(episode__in=free, body__contains=WORD).exists()
    stones = list(Tombstone.objects.all())
    buried = [pk for stone in stones for pk in stone.about["ids"]]
    assert len(buried) == len(set(buried)) and set(buried) == free
    assert sum(stone.fell["episodes.Step: words"] for stone in stones) == 3 * len(free)


@pytest.mark.django_db(transaction=True)
def test_hold_waits_for_an_erase_and_is_then_found():
    project = members.ensure_project("lab", "Lab")
    ada = person(project, "ada", "admin")
    placed = threading.Event()

    def place():
        holding.place(system(project), Hold.Place.PROJECT, "Case 12.")
        placed.set()
        connection.close()

    with transaction.atomic():
        holding.guard(project)
        other = threading.Thread(target=place)
        other.start()
        assert not placed.wait(0.5)
    other.join(30)
    assert placed.is_set() and Hold.objects.get().placed_by == "awmweb"
    key = ended(ada, "late")
    rules.set_rule(ada, "steps", 30, ["finished"])
    before = bodies([key])
    assert [report.erased for report in passes.work([project])] == [0] and bodies([key]) == before


@pytest.mark.django_db
@settings(max_examples=12)
@given(acts=st.lists(st.tuples(st.sampled_from(["hold", "release", "pass"]), st.integers(0, 3)), max_size=10))
def test_held_episode_never_loses_a_byte(ada, acts):
    with transaction.atomic():
        keys = [ended(ada, f"e{number}") for number in range(4)]
        rules.set_rule(ada, "steps", 30, ["finished"])
        held: dict[str, tuple[str, list]] = {}
        for act, number in acts:
            pk = keys[number]
            if act == "hold" and pk not in held:
                hold = holding.place(ada, Hold.Place.EPISODE, "Case 12.", subject=pk)
                held[pk] = (hold.pk, bodies([pk]))
            elif act == "release" and pk in held:
                holding.release(ada, held.pop(pk)[0])
            elif act == "pass":
                list(passes.work([ada.project]))
                for free in set(keys) - set(held):
                    assert not Step.objects.filter(episode=free, body__contains=WORD).exists()
            assert all(bodies([key]) == before for key, (_, before) in held.items())
        transaction.set_rollback(True)

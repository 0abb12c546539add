"""Counts of the list of episodes beside a plain reference: searches, filters, bounds, windows, words not joined yet."""

from __future__ import annotations

import random
from collections import Counter
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from awmclient.schema import EpisodeStart, Finish, StepBatch
from episodes.find import facets
from episodes.find.facets import ListQuery, counted
from episodes.models import Episode
from episodes.record import ending, indexing, recording
from people.errors import Invalid

pytestmark = pytest.mark.django_db
WORDS = ("apple", "pear", "fig", "plum")
SEARCHES = ("apple", "-pear", "apple pear", '"pear fig"', "apple -fig", "sort", "-", "APPLE", "nowhere")


@pytest.fixture
def crowd(ada):
    """Episodes of three scenarios, some at the same moment and none in the order of their ids, each with its steps."""
    dice, now, made = random.Random(7), timezone.now(), []
    for number in range(24):
        steps = [" ".join(dice.choices(WORDS, weights=(6, 3, 1, 1), k=2)) for _ in range(dice.randint(1, 3))]
        start = EpisodeStart(key=f"e{number}", task="Sort it." if number % 5 == 0 else "Go.", scenario=f"s{number % 3}")
        one, _ = recording.start_episode(ada, start)
        rows = [{"seq": seq, "kind": "tool_call", "name": said, "arguments": {}} for seq, said in enumerate(steps, 1)]
        recording.append_steps(ada, one.pk, StepBatch.model_validate({"steps": rows}).steps)
        if number % 2:
            ending.finish(ada, one.pk, Finish(stop_reason="done"))
        made.append((one.pk, number, steps))
    dice.shuffle(made)
    for place, (pk, _, _) in enumerate(made):
        Episode.objects.filter(pk=pk).update(created_at=now - timedelta(seconds=place // 2))
    indexing.work()
    stored = {one.pk: one for one in Episode.objects.all()}
    newest = sorted(made, key=lambda one: (stored[one[0]].created_at, one[0]), reverse=True)
    return [(stored[pk], steps) for pk, _, steps in newest]


def holds(episode, steps, said):
    """Say whether an episode is found: a step with all words and phrases and none that is unwanted, or its task."""
    terms = [(part[0] != "-", part.lstrip("-").strip('"').lower()) for part in search_parts(said)]
    terms = [(wanted, text) for wanted, text in terms if text]
    found = (
        any(all((f" {text} " in f" {one} ") == wanted for wanted, text in terms) for one in steps) if terms else False
    )
    return found or said.lower() in f"{episode.task}\0{episode.scenario}\0{episode.key}".lower()


def search_parts(said):
    return [said] if said.startswith('"') else said.split()


def expected(crowd, said, without=()):
    """Return the newest episodes that match, up to one more than are counted."""
    kept = {name: values for name, values in said.items() if name not in without}
    found = [
        (episode, steps)
        for episode, steps in crowd
        if all(getattr(episode, name) in values for name, values in kept.items() if name != "q")
        and ("q" not in kept or any(holds(episode, steps, one) for one in kept["q"]))
    ]
    return found[: facets.COUNTED + 1]


def tools(found):
    return Counter(name for _, steps in found for name in set(steps))


def as_counts(shown, name):
    return {choice.value: choice.count for one in shown if one.name == name for choice in one.choices if choice.count}


@pytest.mark.parametrize("bound", [3, 10_000])
def test_counts_are_those_of_a_plain_reference(ada, crowd, monkeypatch, bound):
    monkeypatch.setattr(facets, "COUNTED", bound)
    monkeypatch.setattr(facets, "VALUES", 100)
    filters = ({}, {"scenario": ["s1"]}, {"scenario": ["s0", "s2"], "state": ["finished"]}, {"state": ["failed"]})
    for said in ({**one, "q": [text]} for one in filters for text in SEARCHES):
        page = counted(ada, ListQuery(said))
        found, shown = page.ids, page.facets
        right = expected(crowd, said)
        assert found == [episode.pk for episode, _ in right], said
        for name in ("state", "scenario"):
            among = expected(crowd, said, without=[name])
            assert as_counts(shown, name) == Counter(getattr(one, name) for one, _ in among), (said, name)
        assert as_counts(shown, "tool") == tools(right), said


def test_several_searches_are_any_of_them(ada, crowd):
    said = {"q": ["fig", "-", "nowhere"], "scenario": ["s0"]}
    assert counted(ada, ListQuery(said)).ids == [episode.pk for episode, _ in expected(crowd, said)]


def test_a_search_is_gathered_once_for_all_filters(ada, crowd):
    with CaptureQueriesContext(connection) as asked:
        counted(ada, ListQuery({"q": ["apple"], "scenario": ["s1"], "state": ["finished"], "tool": ["fig fig"]}))
    assert sum(one["sql"].count("episodes_with_words") for one in asked) == 1


def test_episodes_are_filtered_by_how_they_ended(ada, crowd):
    ended = [episode.pk for episode, _ in crowd if episode.stop_reason]
    Episode.objects.filter(pk__in=ended[:2]).update(stop_reason="cut_off")
    listed = counted(ada, ListQuery.of("?stop_reason=cut_off"))
    assert sorted(listed.ids) == sorted(ended[:2])
    (facet,) = [facet for facet in listed.facets if facet.name == "stop_reason"]
    assert [(choice.label, choice.count, choice.chosen) for choice in facet.choices] == [
        ("Answer cut off", 2, True),
        ("Agent finished", len(ended) - 2, False),
    ]
    with pytest.raises(Invalid, match="stop_reason=late"):
        counted(ada, ListQuery.of("?stop_reason=late"))

"""A list of a large project looks at its newest episodes, says so, and finds rare words and runs in all of them."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest
from django.utils import timezone

from episodes.find import facets, recent
from episodes.find.facets import ListQuery, counted
from episodes.models import Episode, OutcomeHold, Run, VerifierOutcome
from tests.episodes.find.test_facets import as_counts, crowd, expected, holds, tools

pytestmark = pytest.mark.django_db
__all__ = ["crowd"]
LOOKED = 7
FREQUENT = ("apple", "pear", "apple pear", '"pear fig"', "apple -fig", "sort", "-pear")


@pytest.fixture
def newest(crowd, monkeypatch):
    """Look at the newest seven; return these, without those of the moment at which the window ends."""
    monkeypatch.setattr(recent, "LOOKED", LOOKED)
    monkeypatch.setattr(facets, "VALUES", 100)
    return [one for one in crowd if one[0].created_at > crowd[LOOKED][0].created_at]


def ids(found):
    return [episode.pk for episode, _ in found]


@pytest.mark.parametrize("said", [{"expert": ["off"]}, {"scenario": ["s0", "s1"], "state": ["finished"]}])
def test_filters_without_an_index_look_at_the_newest(ada, newest, crowd, said):
    page, right = counted(ada, ListQuery(said)), expected(newest, said)
    assert page.ids == ids(right) and page.window is not None and page.is_narrow
    assert as_counts(page.facets, "tool") == tools(right)
    whole = counted(ada, ListQuery(said, {"whole": ["1"]}))
    assert whole.ids == ids(expected(crowd, said)) != page.ids and whole.window is None and not whole.is_narrow


def test_counts_of_a_filter_in_use_have_its_own_reach(ada, newest, crowd):
    page = counted(ada, ListQuery({"scenario": ["s1"], "expert": ["off"]}))
    assert as_counts(page.facets, "scenario") == Counter(one.scenario for one, _ in newest)
    # without the other filter an index finds all of the scenario
    assert as_counts(page.facets, "expert") == {"off": len(expected(crowd, {"scenario": ["s1"]}))}


@pytest.mark.parametrize("said", [{}, {"state": ["finished"]}, {"scenario": ["s2"]}])
def test_filters_with_an_index_look_at_all(ada, newest, crowd, said):
    page = counted(ada, ListQuery(said))
    assert page.ids == ids(expected(crowd, said)) and page.window is None and not page.is_narrow


def test_live_episodes_and_those_of_a_run_are_found_at_any_age(ada, newest, crowd):
    oldest = crowd[-1][0]
    run = Run.objects.create(project=ada.project, name="first")
    Episode.objects.filter(pk=oldest.pk).update(run=run, state="parked")
    for said in ({"state": ["parked"], "expert": ["off"]}, {"run": [run.pk], "expert": ["off"]}):
        assert counted(ada, ListQuery(said)).ids == [oldest.pk]


def test_small_project_is_looked_at_as_a_whole(ada, crowd, monkeypatch):
    monkeypatch.setattr(recent, "LOOKED", len(crowd))
    assert recent.window_of(ada.project) is None
    monkeypatch.setattr(recent, "LOOKED", len(crowd) - 1)
    window = recent.window_of(ada.project)
    inside = [one for one, _ in crowd if one.created_at > window.after]
    # the last two are of one moment, so the window ends before both
    assert len(inside) == len(crowd) - 2 and min(one.pk for one in inside) >= window.first


@pytest.mark.parametrize("text", FREQUENT)
def test_frequent_words_are_searched_in_the_newest(ada, newest, monkeypatch, text):
    monkeypatch.setattr(facets, "FEW", -1)
    page, right = counted(ada, ListQuery({"q": [text]})), expected(newest, {"q": [text]})
    assert page.ids == ids(right) and page.window is not None
    assert as_counts(page.facets, "state") == Counter(one.state for one, _ in right)


@pytest.mark.parametrize("filters", [{}, {"scenario": ["s1"]}, {"state": ["finished"], "scenario": ["s0", "s2"]}])
@pytest.mark.parametrize("text", [*FREQUENT[:-1], "nowhere", "s1", "ort", "go"])
def test_rare_words_are_found_in_all_episodes(ada, newest, crowd, text, filters):
    said = {**filters, "q": [text]}
    page, inside = counted(ada, ListQuery(said)), set(ids(newest))

    def is_found(episode, steps):
        named = f"{episode.task} {episode.scenario} {episode.key}".lower()
        if episode.pk in inside or episode.is_live:
            return holds(episode, steps, text)
        # before the window a task is found by whole words
        is_word = f" {text} " in f" {named.replace('.', ' ')} "
        return holds(episode.__class__(task="", scenario="", key=""), steps, text) or is_word

    right = [
        (episode, steps)
        for episode, steps in crowd
        if is_found(episode, steps) and all(getattr(episode, name) in values for name, values in filters.items())
    ]
    assert page.ids == ids(right) and page.window is None and page.by_index, text
    assert as_counts(page.facets, "tool") == tools(right)


def test_search_for_no_word_stays_in_the_newest(ada, newest):
    page = counted(ada, ListQuery({"q": ["-pear"]}))
    assert page.ids == ids(expected(newest, {"q": ["-pear"]})) and page.window is not None and not page.by_index


def test_several_rare_words_are_found_once_each(ada, newest, crowd):
    said = {"q": ["fig", "plum", "fig"]}
    assert counted(ada, ListQuery(said)).ids == ids(expected(crowd, said))


@pytest.mark.parametrize("few", [-1, 50])
def test_withheld_outcome_is_in_no_count_of_the_newest(ada, newest, monkeypatch, few):
    monkeypatch.setattr(facets, "FEW", few)
    Episode.objects.update(state="finished", ended_at=timezone.now())
    for number, (one, _) in enumerate(newest):
        kind = "complete" if number % 2 else "others"
        VerifierOutcome.objects.create(episode=one, source="verifier", reward_type=kind, reward=0.0)
    blind = newest[1][0]
    open_ = counted(ada, ListQuery({"outcome": ["complete"], "expert": ["off"]})).ids
    assert blind.pk in open_
    OutcomeHold.objects.create(actor_key=ada.key, episode=blind, by="review")
    assert counted(ada, ListQuery({"outcome": ["complete"], "expert": ["off"]})).ids == [
        pk for pk in open_ if pk != blind.pk
    ]
    for said in ({"expert": ["off"]}, {"q": ["sort"]}, {"q": ["apple"]}):
        page = counted(ada, ListQuery(said))
        kinds = Counter(
            VerifierOutcome.objects.filter(episode__in=set(page.ids) - {blind.pk}).values_list("reward_type", flat=True)
        )
        assert {one: n for one, n in as_counts(page.facets, "outcome").items() if one != "none"} == kinds, said


def test_window_holds_no_episode_of_another_project(ada, max_, newest):
    now = timezone.now() + timedelta(hours=1)
    for number in range(LOOKED):
        one = Episode.objects.create(
            project=max_.project, key=f"k{number}", body_digest="", task="apple", state="failed"
        )
        Episode.objects.filter(pk=one.pk).update(created_at=now)
    assert recent.window_of(max_.project) is None
    assert counted(ada, ListQuery({"expert": ["off"]})).ids == ids(newest)
    assert set(counted(ada, ListQuery({"q": ["apple"]})).ids) <= set(
        Episode.objects.filter(project=ada.project).values_list("pk", flat=True)
    )

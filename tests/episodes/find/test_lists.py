"""Lists over the API: filters, pages by cursor, and what an agent's token is not told."""

from __future__ import annotations

import pytest

from awmclient.schema import AskOpen, EpisodeStart, Finish, Outcome, RunStart
from episodes.find import lists
from episodes.record import ending, recording
from episodes.stored import run_sizes
from experts.find.reading import open_asks, page_of_asks
from experts.record import opening
from people import access
from people.errors import Invalid, WrongScope
from people.record.members import issue_token
from tests.browsing import as_person, html

pytestmark = pytest.mark.django_db


@pytest.fixture
def played(ada):
    """Six episodes, e0 to e5: every second of the arm react; e0 is verified as complete."""
    run, _ = recording.start_run(ada, RunStart(name="nightly", arm="react"))
    for number in range(6):
        more = {"arm": "react", "run": run.pk} if number % 2 else {"scenario": "shop", "task_idx": number}
        recording.start_episode(ada, EpisodeStart(key=f"e{number}", task="t", **more))
    first = lists.episodes(ada, {"key": ["e0"]}, "", 1).items[0].id
    ending.finish(ada, first, Finish(stop_reason="done"))
    ending.record_outcome(ada, first, Outcome(reward_type="complete", reward=1.0))
    return run


def keys(page):
    return [item.key for item in page.items]


def test_pages_stay_complete_while_new_episodes_arrive(ada, played):
    page = lists.episodes(ada, {}, "", 4)
    assert keys(page) == ["e5", "e4", "e3", "e2"] and page.next
    recording.start_episode(ada, EpisodeStart(key="e6", task="t"))
    rest = lists.episodes(ada, {}, page.next, 4)
    assert keys(rest) == ["e1", "e0"] and rest.next is None


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({"arm": ["react"]}, ["e5", "e3", "e1"]),
        ({"run": ["nightly"], "state": ["running"]}, ["e5", "e3", "e1"]),
        ({"scenario": ["shop"], "task_idx": ["2", "4"]}, ["e4", "e2"]),
        ({"outcome": ["complete"]}, ["e0"]),
        ({"outcome": ["none"]}, ["e5", "e4", "e3", "e2", "e1"]),
        ({"q": ["e3"]}, ["e3"]),
        ({"since": ["2020-01-01"]}, ["e0"]),
    ],
)
def test_filters_mean_what_they_say(ada, played, filters, found):
    assert keys(lists.episodes(ada, filters, "", 50)) == found


@pytest.mark.parametrize(
    ("filters", "words"),
    [
        ({"colour": ["red"]}, "Unknown filter: colour"),
        ({"state": ["asleep"]}, "Unknown filter value: state=asleep. Use one of queued"),
        ({"run": ["weekly"]}, "Unknown filter value: run=weekly"),
        ({"seed": ["x"]}, "Use a whole number"),
        ({"arm": ["a\x00"]}, "Unknown filter value: arm"),
        ({"outcome": ["complete", "foo"]}, "Unknown filter value: outcome=foo. No episode has this outcome."),
    ],
)
def test_an_unknown_filter_or_value_is_named(ada, played, filters, words):
    with pytest.raises(Invalid, match=words):
        lists.episodes(ada, filters, "", 50)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("asks?run=nope", "run=nope. No run has this name or id."),
        ("asks?episode=nope", "episode=nope. No episode has this id."),
        ("desk/numbers?run=nope", "run=nope"),
        ("desk/numbers?foo=1", "Unknown filter: foo. Use one of time, since"),
        ("exports?foo=1", "Unknown filter: foo. This list has none."),
        ("imports?foo=1", "Unknown filter: foo."),
        ("runs/x/comparison?foo=1", "Unknown filter: foo."),
    ],
)
def test_every_list_names_an_unknown_filter_or_value(ada, path, words):
    refused = as_person(ada).get(f"/api/v1/{path}")
    assert refused.status_code == 422 and words in refused.json()["error"]["message"]


@pytest.mark.parametrize("cursor", ["x", "====", "bm90IGE", "MjAyNi0wMS0wMSBh", "é"])
def test_a_cursor_of_ones_own_making_is_refused(ada, played, cursor):
    with pytest.raises(Invalid, match="cursor"):
        lists.episodes(ada, {}, cursor, 50)


def test_an_agents_token_gets_no_outcome_and_cannot_ask_by_one(ada, played):
    agent = access.bearer(issue_token(ada, "loop", "agent")[0])
    assert lists.episodes(ada, {"key": ["e0"]}, "", 1).items[0].outcomes[0].reward_type == "complete"
    page = lists.episodes(agent, {}, "", 50)
    assert len(page.items) == 6 and all(item.outcomes is None for item in page.items)
    with pytest.raises(WrongScope):
        lists.episodes(agent, {"outcome": ["complete"]}, "", 50)


def test_runs_come_with_their_episodes_counted_by_state(ada, played):
    (item,) = lists.runs(ada, {"arm": ["react"]}, "", 50).items
    assert (item.id, item.name, item.episodes) == (played.pk, "nightly", {"running": 3})
    with pytest.raises(Invalid, match="Unknown filter: state"):
        lists.runs(ada, {"state": ["x"]}, "", 50)
    with pytest.raises(Invalid, match="Unknown filter value: expert=no. Use one of off, plain, informed."):
        lists.runs(ada, {"expert": ["plain", "no"]}, "", 50)


def test_episodes_of_listed_runs_are_counted_up_to_a_bound(ada, played, monkeypatch, django_assert_num_queries):
    empty, _ = recording.start_run(ada, RunStart(name="empty", key="empty"))
    oldest = lists.episodes(ada, {"key": ["e1"]}, "", 1).items[0].id
    ending.finish(ada, oldest, Finish(stop_reason="done"))
    with django_assert_num_queries(2):
        counted = {item.id: item.episodes for item in lists.runs(ada, {}, "", 50).items}
    assert counted == {empty.pk: {}, played.pk: {"running": 2, "finished": 1}}
    monkeypatch.setattr(run_sizes, "COUNTED", 2)
    (item,) = lists.runs(ada, {"arm": ["react"]}, "", 50).items
    assert item.episodes == {"running": 2}


def test_another_project_is_not_in_the_list(ada, elsewhere, played):
    there = access.system(elsewhere)
    assert lists.episodes(there, {}, "", 50).items == [] and lists.runs(there, {}, "", 50).items == []


def test_page_shows_reported_arm_and_unknown_filter_values(ada, played):
    client = as_person(ada)
    page = html(client.get("/episodes/?arm=react"))
    assert page.count('<span class="vh">, baseline</span>') == 3 and "react" in page
    assert "Unknown filter value: state=asleep." in html(client.get("/episodes/?state=asleep"))
    assert html(client.get("/episodes/?arm=other")).count("No matching episodes.") == 1


def test_asks_come_by_pages_and_by_run(ada, played):
    opened = [
        opening.open_ask(ada, AskOpen(key=f"q{n}", episode=asked(ada, played, n), seq=1, question=f"Q{n}?"))[0].pk
        for n in range(3)
    ]
    found, more = page_of_asks(ada, "open", "", 2)
    assert [one.id for one in found] == [opened[2], opened[1]] and more
    assert [one.id for one in page_of_asks(ada, "open", more, 2)[0]] == [opened[0]]
    assert [one.id for one in open_asks(ada, run=played.pk)] == [opened[1]]


def asked(ada, run, number):
    plan = EpisodeStart(key=f"a{number}", task="t", expert="plain", run=run.pk if number == 1 else None)
    return recording.start_episode(ada, plan)[0].pk

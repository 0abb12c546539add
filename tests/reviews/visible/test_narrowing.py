"""Verdicts and labels as filters of the list: what they match, what they count, and what they tell whom."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from awmclient.schema import AskOpen, EpisodeStart, StepBatch
from episodes.find import lists
from episodes.find.facets import ListQuery, counted
from episodes.models import Episode, OutcomeHold
from episodes.pages import many
from episodes.record import recording
from experts.models import Ask
from experts.record import advising, opening, queue
from people.errors import Invalid, WrongScope
from reviews.record import annotating, assigning, deciding, schemas
from reviews.record.deciding import Wanted
from reviews.visible.places import Place
from tests.browsing import as_person, html
from tests.episodes.find.paging import read_through
from tests.people_by_name import token
from tests.reviews.conftest import ended

OPTIONS = [{"value": "tool", "label": "Wrong tool"}, {"value": "plan", "label": "Wrong plan"}]


def judge(actor, review, decision):
    lease = assigning.claim(actor, review.pk)
    deciding.decide(actor, review.pk, lease.lease_token, Wanted(decision))


def label(actor, episode, name, value, schema=None):
    return annotating.annotate(actor, episode, Place(2), name, value, schema=schema)


@pytest.fixture
def cause(ada):
    return schemas.define(ada, "cause", "Cause", "single", OPTIONS)


@pytest.fixture
def found(ada):
    def matching(actor=ada, **said):
        return [one.key for one in lists.episodes(actor, {k: [v] for k, v in said.items()}, "", 50).items]

    return matching


@pytest.fixture
def counts(ada):
    def facet(name, actor=ada, **said):
        facets = counted(actor, ListQuery({k: [v] for k, v in said.items()})).facets
        return {one.label: one.count for each in facets if each.name == name for one in each.choices}

    return facet


def test_episodes_are_found_and_counted_by_verdict(ada, rita, review, found, counts):
    ended(ada, "two")
    assert counts("verdict") == {"No verdict": 2}
    judge(rita, review, "reject")
    judge(ada, review, "accept")
    assert counts("verdict") == {"Accept": 1, "Reject": 1, "No verdict": 1}
    assert found(verdict="accept") == found(verdict="reject") == ["one"] and found(verdict="none") == ["two"]
    with pytest.raises(Invalid, match="verdict=good"):
        found(verdict="good")


def test_columns_tell_wait_tokens_and_verdicts(ada, edo, rita, review, django_assert_max_num_queries):
    def cells(actor, name):
        page = html(as_person(actor).get("/episodes/?columns=waited,tokens,verdict"))
        return re.findall(rf'<td class="[^"]*c-{name}">\s*(.*?)\s*</td>', page)

    one = recording.start_episode(ada, EpisodeStart(key="asks", task="Sort.", expert="plain"))[0]
    usage = {"prompt_tokens": 1200, "completion_tokens": 34}
    turn = {"seq": 1, "kind": "message", "role": "assistant", "content": "Hm.", "usage": usage}
    recording.append_steps(ada, one.pk, StepBatch.model_validate({"steps": [turn]}).steps)
    ask = opening.open_ask(ada, AskOpen(key="q", episode=one.pk, seq=2, question="Which?"))[0]
    lease = queue.claim(edo, ask.pk)
    advising.answer(edo, lease.assignment_id, lease.lease_token, "This.", "n")
    Ask.objects.update(closed_at=F("created_at") + timedelta(seconds=75))
    judge(ada, review, "reject")
    assert cells(ada, "waited") == ["1:15", "–"] and cells(ada, "tokens") == ["1,234", "–"]
    assert cells(ada, "verdict") == ["–", "Reject"] and cells(rita, "verdict") == ["–", "–"]
    judge(rita, review, "accept")
    assert cells(rita, "verdict") == ["–", "1 accept, 1 reject"]
    with CaptureQueriesContext(connection) as few:
        cells(ada, "verdict")
    for key in "abcdef":
        ended(ada, key)
    with django_assert_max_num_queries(len(few)):
        assert len(cells(ada, "verdict")) == 8
    every = html(as_person(ada).get(f"/episodes/?columns={','.join(many.COLUMNS)}"))
    assert len(re.findall(r"<th[ >]", every)) == 3 + many.COLUMNS_MAX


def test_late_verdict_counts_nowhere(ada, rita, review, counts, found):
    judge(rita, review, "reject")
    review.verdicts.update(is_late=True)
    assert counts("verdict") == {"No verdict": 1} and found(verdict="reject") == []


def test_blind_reviewer_learns_no_verdict_before_their_own(ada, rita, review, found, counts):
    ended(ada, "two")
    judge(ada, review, "reject")
    assert counts("verdict", ada) == {"Reject": 1, "No verdict": 1}
    assert counts("verdict", rita) == {"No verdict": 1}
    assert found(rita, verdict="reject") == [] and found(rita, verdict="none") == ["two"]
    page = html(as_person(rita).get("/episodes/?verdict=reject"))
    assert "No episodes match." in page and review.episode_id not in page
    judge(rita, review, "accept")
    assert found(rita, verdict="reject") == ["one"] and counts("verdict", rita)["Reject"] == 1


def test_blind_reviewer_finds_only_their_own_labels(ada, rita, review, episode, cause, found, counts):
    label(ada, episode, "cause", "tool", cause)
    assert counts("label", ada) == {"Cause": 1} and found(ada, label="cause") == ["one"]
    assert counts("label", rita) == {} == counts("label_value", rita, label="cause")
    assert found(rita, label="cause") == found(rita, label_value="cause:tool") == []
    label(rita, episode, "cause", "plan", cause)
    assert counts("label_value", rita, label="cause") == {"Wrong plan (Cause)": 1}
    assert found(rita, label_value="cause:tool") == [] and found(rita, label_value="cause:plan") == ["one"]
    judge(rita, review, "accept")
    assert counts("label_value", rita, label="cause") == {"Wrong tool (Cause)": 1, "Wrong plan (Cause)": 1}


def test_only_labels_that_count_are_found(ada, episode, cause, found, counts):
    label(ada, episode, "cause", "tool", cause)
    newer = label(ada, episode, "cause", "plan", cause)
    assert found(label_value="cause:tool") == [] and found(label_value="cause:plan") == ["one"]
    annotating.undo(ada, newer.pk)
    assert found(label="cause") == [] and counts("label") == {}


@pytest.mark.parametrize(
    ("kind", "options", "value", "says"),
    [
        ("multi", OPTIONS, ["tool", "plan"], {"Wrong tool (Quality)": 1, "Wrong plan (Quality)": 1}),
        ("score", [{"low": 1, "high": 5}], 3, {"quality:3": 1}),
    ],
)
def test_values_of_each_countable_kind_are_found(ada, episode, found, counts, kind, options, value, says):
    label(ada, episode, "quality", value, schemas.define(ada, "quality", "Quality", kind, options))
    assert counts("label_value", label="quality") == says
    one = "tool" if kind == "multi" else "3"
    assert found(label_value=f"quality:{one}") == ["one"] and found(label_value="quality:other") == []


def test_multi_value_inside_a_longer_one_is_not_found(ada, episode, found, counts):
    options = [{"value": "tool", "label": "Tool"}, {"value": "wrong_tool", "label": "Wrong tool"}]
    label(ada, episode, "cause", ["wrong_tool"], schemas.define(ada, "cause", "Cause", "multi", options))
    assert counts("label_value", label="cause") == {"Wrong tool (Cause)": 1}
    assert found(label_value="cause:wrong_tool") == ["one"]
    for other in ("tool", "", "wrong_tool]", '"wrong_tool"'):
        assert found(label_value=f"cause:{other}") == []


def test_words_of_comments_are_no_values(ada, episode, found, counts):
    label(ada, episode, "comment", "He <b>lied</b>")
    assert counts("label") == {"Comment": 1} and found(label="comment") == ["one"]
    assert counts("label_value", label="comment") == {}
    with pytest.raises(Invalid, match="label_value"):
        found(label_value="cause")


def test_values_are_shown_for_the_chosen_label_alone(ada, episode, cause):
    label(ada, episode, "cause", "tool", cause)
    other = schemas.define(ada, "tone", "Tone", "single", OPTIONS)
    label(ada, episode, "tone", "plan", other)
    client = as_person(ada)
    assert "<summary>Label value</summary>" not in html(client.get("/episodes/"))
    page = html(client.get("/episodes/?label=cause"))
    inside = re.search(r"<summary>Label value</summary>(.*?)</details>", page)
    assert inside and "Wrong tool (Cause)" in inside[1] and "Tone" not in inside[1]
    chip = html(client.get("/episodes/?label_value=cause%3Atool"))
    assert 'aria-label="Remove filter Label value: Wrong tool (Cause)"' in chip and "1 of 1 episode matches." in chip


@pytest.mark.parametrize("name", ["verdict", "label", "label_value"])
def test_agents_cannot_filter_by_what_was_said(project, episode, found, name):
    agent, _ = token(project, "agent")
    with pytest.raises(WrongScope):
        found(agent, **{name: "none"})


def test_other_projects_say_nothing_here(ada, max_, episode, cause, found, counts):
    label(ada, episode, "cause", "tool", cause)
    assert found(max_, label="cause") == [] and counts("label", max_) == {}


def test_api_filters_by_verdict_and_label(ada, rita, review, episode, cause):
    judge(rita, review, "reject")
    label(ada, episode, "cause", "tool", cause)
    client = as_person(ada)
    query = "/api/v1/episodes?verdict=reject&verdict=accept&label=cause&label_value=cause:tool"
    assert [one["key"] for one in client.get(query).json()["items"]] == ["one"]
    refused = client.get("/api/v1/episodes?verdicts=reject")
    assert refused.status_code == 422 and "label_value" in refused.json()["error"]["message"]


@pytest.fixture
def searched(found):
    """Find by words, over the API's list and in the counts and on the page, which must agree."""

    def keys(word, actor):
        listed = found(actor, q=word)
        page = counted(actor, ListQuery({"q": [word]}))
        ids = page.ids
        told = {one.value: one.count for each in page.facets if each.name == "scenario" for one in each.choices}
        assert len(ids) == len(listed) == sum(told.values()), word
        page = html(as_person(actor).get("/episodes/", {"q": word}))
        assert page.count('data-row="open"') == len(listed), word
        return listed

    return keys


@pytest.mark.parametrize(
    "word", ["zorkmidword", "ZÜRICH", "zürich -tram", '"zorkmidword in"', "zorkmidword zürich", "late fee"]
)
def test_words_of_comments_are_searched(ada, episode, searched, word):
    ended(ada, "two")
    label(ada, episode, "comment", "A zorkmidword in Zürich: <late_fee>")
    assert searched(word, ada) == ["one"]


@pytest.mark.parametrize("word", ["zork", "zorkmidword -zürich", "-zorkmidword zebra", "comment", "-", "A: tram"])
def test_search_of_comments_takes_whole_words(ada, episode, searched, word):
    label(ada, episode, "comment", "A zorkmidword in Zürich")
    assert searched(word, ada) == []


@pytest.mark.parametrize("word", ["cause", "reason", '"wrong tool"', "tool", "reason wrong"])
def test_names_and_values_of_labels_are_searched(ada, episode, searched, word):
    label(ada, episode, "cause", "tool", schemas.define(ada, "cause", "Main reason", "single", OPTIONS))
    label(ada, ended(ada, "two"), "speed", 3, schemas.define(ada, "speed", "Pace", "score", [{"low": 1, "high": 5}]))
    assert searched(word, ada) == ["one"] and searched("pace 3", ada) == ["two"] and searched("plan", ada) == []


def test_search_reads_only_what_counts(ada, episode, searched):
    first = label(ada, episode, "comment", "zorkmidword")
    later = annotating.reword(ada, first.pk, "grueword")
    assert searched("zorkmidword", ada) == [] and searched("grueword", ada) == ["one"]
    annotating.undo(ada, later.pk)
    assert searched("grueword", ada) == []


def test_blind_reviewer_searches_only_their_own_comments(ada, rita, review, episode, searched):
    label(ada, episode, "comment", "zorkmidword")
    label(rita, episode, "comment", "grueword")
    assert searched("zorkmidword", ada) == ["one"] == searched("grueword", rita)
    assert searched("zorkmidword", rita) == []
    judge(rita, review, "accept")
    assert searched("zorkmidword", rita) == ["one"]


def test_agents_and_other_projects_search_no_comments(project, ada, max_, episode, found):
    label(ada, episode, "comment", "zorkmidword")
    agent, _ = token(project, "agent")
    assert found(agent, q="zorkmidword") == [] == found(max_, q="zorkmidword")
    assert found(agent, q="ticket") == ["one"]


def test_list_shows_the_comment_that_was_found(ada, episode):
    label(ada, episode, "comment", "A <b>zorkmidword</b> here")
    page = html(as_person(ada).get("/episodes/?q=zorkmidword"))
    assert f'href="/projects/lab/episodes/{episode.pk}/replay/?step=2"' in page and "<mark>zorkmidword</mark>" in page
    assert "&lt;b&gt;" in page and "Comment" in page
    api = as_person(ada).get("/api/v1/episodes?q=zorkmidword").json()["items"]
    assert [one["key"] for one in api] == ["one"]


def test_list_is_sorted_by_the_verdicts_that_a_reader_sees(ada, rita, edo, queue):
    for key in ("none", "good", "split", "bad", "last"):
        ended(ada, key)
    assigning.fill(ada, queue.pk, Episode.objects.all())
    reviews = {one.episode.key: one for one in queue.reviews.select_related("episode")}
    for key, first, second in (
        ("good", "accept", "accept"),
        ("split", "reject", "accept"),
        ("bad", "reject", "reject"),
    ):
        judge(rita, reviews[key], first)
        judge(edo, reviews[key], second)
    assert read_through(ada, "-verdict") == ["good", "split", "bad", "last", "none"]
    assert read_through(ada, "verdict") == ["bad", "split", "good", "none", "last"]
    OutcomeHold.objects.create(actor_key=ada.key, episode=reviews["bad"].episode)
    assert read_through(ada, "-verdict") == ["good", "split", "last", "bad", "none"]
    page = html(as_person(ada).get("/episodes/?columns=verdict&sort=-verdict"))
    assert 'aria-sort="descending"' in page and "Accepted first" in page

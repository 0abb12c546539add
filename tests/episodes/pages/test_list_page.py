"""The list of episodes: hits in rows, facets with counts, chips, keyset pages, saved views, and a selection."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml
from django.db import connection
from django.test.utils import CaptureQueriesContext

from awmclient.schema import AskOpen, EpisodeStart, Finish, Outcome, StepBatch
from episodes.find import facets, narrowing, recent
from episodes.models import Episode, SavedView
from episodes.pages import many
from episodes.record import ending, indexing, recording
from episodes.show import wall
from experts.models import Ask
from experts.record import opening
from exports import recipe
from tests.browsing import as_person, html

pytestmark = pytest.mark.django_db


def add(actor, key, *, outcome=None, steps=(), **more):
    start = EpisodeStart(key=key, task=f"Sort {key}.", **more)
    one, _ = recording.start_episode(actor, start)
    rows = [{"seq": seq, **step} for seq, step in enumerate(steps, 1)]
    if rows:
        recording.append_steps(actor, one.pk, StepBatch.model_validate({"steps": rows}).steps)
    if outcome:
        ending.finish(actor, one.pk, Finish(stop_reason="done"))
        ending.record_outcome(actor, one.pk, Outcome(reward_type=outcome, reward=float(outcome == "complete")))
    return one


def call(name, **more):
    return {"kind": "tool_call", "name": name, "arguments": {}, **more}


@pytest.fixture
def desk(ada):
    return [
        add(ada, "a", outcome="complete", scenario="desk_1", task_idx=1, steps=[call("get"), call("put")]),
        add(ada, "b", outcome="others", scenario="desk_1", task_idx=2, steps=[call("get", error="rate <b>limit</b>")]),
        add(ada, "c", scenario="desk_2", steps=[call("get", result="no rate")]),
    ]


@pytest.fixture
def page(ada):
    indexing.work()
    client = as_person(ada)

    def get(query=""):
        answer = client.get(f"/episodes/{query}")
        assert answer.status_code == 200
        return html(answer)

    return get


def test_exports_have_the_filters_of_the_list_but_named_ones():
    assert set(narrowing.FILTERS) - set(many.NOT_EXPORTED) == set(recipe.FILTERS)
    assert set(many.NOT_EXPORTED) <= set(narrowing.FILTERS)


def test_list_says_which_filters_an_export_does_not_have(desk, page, edo):
    text = page("?briefed=no&state=finished&q=rate&outcome=none&outcome=complete&scenario=desk_1")
    assert "Exports ignore: State, Briefing, Search, Outcome: Not verified." in text
    assert 'href="/projects/lab/exports/?outcome=complete&amp;scenario=desk_1"' in text
    assert "Exports ignore" not in page("?outcome=complete")
    assert "Exports ignore" not in html(as_person(edo).get("/episodes/?briefed=no"))


def counts(page, title):
    """Values and counts of a facet."""
    inside = re.search(rf"<summary>{title}</summary>(.*?)</details>", page)
    return dict(re.findall(r'<span class="cut-text">(.*?)</span><small>(.*?)</small>', inside[1])) if inside else {}


def test_hit_is_shown_in_its_row_and_leads_to_the_step(ada, desk, page):
    indexing.work()
    found = page("?q=rate+limit")
    assert "1 of 3 episodes match." in found and "Steps can be found a few seconds after" in found
    assert f'href="/projects/lab/episodes/{desk[1].pk}/replay/?step=1"' in found
    assert "<mark>rate</mark> &lt;b&gt;<mark>limit</mark>&lt;/b&gt;" in found


def test_facets_count_after_all_other_filters(ada, desk, page):
    indexing.work()
    everything, one = page(), page("?scenario=desk_1&outcome=complete")
    assert counts(everything, "Scenario") == {"desk_1": "2", "desk_2": "1"}
    assert counts(everything, "Tool used") == {"get": "3", "put": "1"}
    assert counts(everything, "Errors") == {"Without errors": "2", "With errors": "1"}
    assert counts(everything, "Who answered") == {"Never asked": "3"}
    assert counts(everything, "Task") == {}
    assert counts(one, "Outcome") == {"Complete": "1", "Not complete": "1"}
    assert counts(one, "Scenario") == {"desk_1": "1"}
    assert counts(one, "Task") == {"1": "1"}
    assert counts(one, "Tool used") == {"get": "1", "put": "1"}


def test_briefed_episodes_are_a_filter(ada, desk, page):
    told = {"kind": "briefing", "text": "Read first.", "author": "Mina"}
    briefed = add(ada, "d", scenario="desk_2", steps=[told, call("get")])
    indexing.work()
    assert counts(page(), "Briefing") == {"Not briefed": "3", "Briefed": "1"}
    found = page("?briefed=yes&scenario=desk_2")
    assert re.findall(r'data-key="(\w+)"', found) == [briefed.pk] and "1 of 4 episodes match." in found
    assert counts(found, "Briefing") == {"Briefed": "1", "Not briefed": "1"} and "Briefing: Briefed" in found
    client = as_person(ada)
    for query, keys in (("briefed=no", "cba"), ("briefed=yes&briefed=no", "dcba")):
        assert [one["key"] for one in client.get(f"/api/v1/episodes?{query}").json()["items"]] == list(keys)
    refused = client.get("/api/v1/episodes?briefed=maybe")
    assert refused.status_code == 422 and "briefed=maybe. Use one of yes, no." in refused.json()["error"]["message"]


def test_chip_leads_to_the_list_without_its_filter(desk, page):
    found = page("?scenario=desk_1&scenario=desk_2&state=finished")
    assert 'href="?state=finished&amp;scenario=desk_2" aria-label="Remove filter Scenario: desk_1"' in found
    assert 'href="?scenario=desk_1&amp;scenario=desk_2" aria-label="Remove filter State: Finished"' in found


@pytest.mark.parametrize("query", ["?scenario=nowhere", "?state=asleep"])
def test_headline_says_that_nothing_matches(desk, page, query):
    assert "<h1>No episodes match.</h1>" in page(query) and "3 recorded" in page()


def test_counts_are_bounded(desk, page, monkeypatch):
    monkeypatch.setattr(facets, "COUNTED", 2)
    monkeypatch.setattr(many, "COUNTED", 2)
    assert "More than 2 episodes match." in page("?q=Sort")
    assert "Counted among the newest 2." in page("?q=Sort")


def test_list_of_a_large_project_says_how_far_it_looked(ada, desk, page, monkeypatch):
    monkeypatch.setattr(recent, "LOOKED", 2)
    found = page("?tool=put")
    assert "<h1>No episodes match among the newest 2.</h1>" in found
    assert "Episodes before the newest 2 can match." in " ".join(found.split())
    assert "Counted among the newest 2 episodes." in page("?tool=get&scenario=desk_1")
    address = re.search(r'href="(\?[^"]*)">Search all episodes<', found)[1].replace("&amp;", "&")
    assert (
        found.count("Search all episodes") == 1 and page("?tool=get&scenario=desk_1").count("Search all episodes") == 1
    )
    assert address == "?tool=put&whole=1"
    whole = page(address)
    assert re.findall(r'data-key="(\w+)"', whole) == [desk[0].pk] and "1 of 3 episodes match." in whole
    assert "Search all episodes" not in whole and 'name="whole" value="1"' in whole
    assert "1 episode matches among the newest 2." in page("?tool=get&scenario=desk_1")
    rare = page("?q=put")
    assert "1 of 3 episodes match." in rare and "Before the newest 2 episodes, tasks and names match" in rare


def test_selection_of_all_is_what_the_list_found(ada, desk, page, monkeypatch):
    monkeypatch.setattr(recent, "LOOKED", 2)
    form = {"all": "1", "act": "review", "query": "?tool=get&length=1-9"}
    address = as_person(ada).post("/episodes/selected", form).url
    assert parse_qs(urlsplit(address).query)["episode"] == [desk[2].pk, desk[1].pk]


def test_totals_are_bounded(ada, desk, page, monkeypatch):
    assert "1 of 2 outcomes are complete. 3 recorded, 1 live." in page()
    monkeypatch.setattr(wall, "TOTAL_MAX", 2)
    monkeypatch.setattr(wall, "VERIFIED_MAX", 1)
    assert "0 of the newest 1 outcome is complete. More than 2 recorded, 1 live." in page()
    assert "1 of more than 2 episodes match." in page("?scenario=desk_2")


def test_list_goes_on_past_those_that_were_counted(ada, page, monkeypatch):
    monkeypatch.setattr(many, "PAGE", 2)
    monkeypatch.setattr(facets, "COUNTED", 3)
    monkeypatch.setattr(many, "COUNTED", 3)
    made = [add(ada, f"e{number}").pk for number in range(9)]

    def walk(query, side):
        pages = []
        while query is not None:
            found, last = page(query), query
            pages.append(re.findall(r'data-key="(\w+)"', found))
            link = re.search(rf'rel="{side}" href="(.*?)"', found)
            query = link and link[1].replace("&amp;", "&")
        return pages, last

    there, last = walk("?q=Sort", "next")
    assert sum(there, []) == made[::-1]
    back, _ = walk(last, "prev")
    assert sum(back[::-1], []) == made[::-1]


def test_list_goes_on_by_keyset(ada, page, monkeypatch):
    monkeypatch.setattr(many, "PAGE", 2)
    made = [add(ada, f"e{number}").pk for number in range(5)]
    seen, query = [], ""
    while True:
        found = page(query)
        seen += re.findall(r'data-key="(\w+)"', found)
        older = re.search(r'rel="next" href="(.*?)"', found)
        if older is None:
            break
        add(ada, f"late {len(seen)}")
        query = older[1].replace("&amp;", "&")
    assert seen == made[::-1]


def test_queries_of_the_page_do_not_grow_with_episodes(ada, page):
    add(ada, "first")
    page()
    with CaptureQueriesContext(connection) as few:
        page("?q=first")
    for number in range(20):
        add(ada, f"first {number}")
    with CaptureQueriesContext(connection) as many:
        page("?q=first")
    assert len(many) == len(few)


def test_view_is_saved_shared_and_removed(ada, edo, rita, desk):
    mine, other = as_person(ada), as_person(edo)
    saved = mine.post("/episodes/views", {"name": " Desk  one ", "query": "?scenario=desk_1&cursor=x&evil=1"})
    assert saved.url == "/projects/lab/episodes/?scenario=desk_1"
    assert "Desk one" in html(mine.get("/episodes/")) and "Desk one" not in html(other.get("/episodes/"))
    mine.post("/episodes/views", {"name": "Desk one", "query": "?scenario=desk_2", "shared": "1"})
    view = SavedView.objects.get()
    assert view.query == "?scenario=desk_2" and "by ada" in html(other.get("/episodes/"))
    assert other.post(f"/episodes/views/{view.pk}/remove").status_code == 403
    mine.post(f"/episodes/views/{view.pk}/remove")
    assert not SavedView.objects.exists()
    blank = mine.post("/episodes/views", {"name": " ", "query": "?q=x"}, follow=True)
    assert blank.redirect_chain[0][0].endswith("?q=x") and "Enter a name with 1 to 60 characters." in html(blank)


def test_stranger_sees_no_view(ada, max_):
    as_person(ada).post("/episodes/views", {"name": "Mine", "query": "?q=x", "shared": "1"})
    view = SavedView.objects.get()
    assert as_person(max_).post(f"/episodes/views/{view.pk}/remove").status_code == 404


def test_selected_live_episodes_are_stopped(ada, rita, max_, desk):
    ids = [one.pk for one in desk]
    for stranger, status in ((rita, 403), (max_, 302)):
        answer = as_person(stranger).post("/episodes/selected", {"act": "cancel", "episode": ids})
        assert answer.status_code == status
    assert Episode.objects.get(pk=ids[2]).state == "running"
    for query in ("?scenario=desk_1", "scenario=desk_1"):
        answer = as_person(ada).post("/episodes/selected", {"act": "cancel", "episode": ids, "query": query})
        assert answer["Location"] == "/projects/lab/episodes/?scenario=desk_1"
    assert [Episode.objects.get(pk=pk).state for pk in ids] == ["finished", "finished", "cancelled"]


def test_selected_episodes_become_a_recipe(ada, rita, desk):
    ids = [desk[0].pk, desk[1].pk]
    answer = as_person(ada).post("/episodes/selected", {"act": "export", "episode": ids})
    address = urlsplit(answer.url)
    assert yaml.safe_load(parse_qs(address.query)["more"][0]) == {"filter": {"id": ids}}
    assert "of 2 episodes" in html(as_person(ada).get(answer.url))
    assert as_person(rita).post("/episodes/selected", {"act": "export", "episode": ids}).status_code == 403


@pytest.mark.parametrize("form", [{}, {"act": "explode", "episode": ["x"]}, {"act": "cancel", "episode": ["x"] * 201}])
def test_refused_selection_is_explained_on_the_list(ada, desk, form):
    answer = as_person(ada).post("/episodes/selected", {**form, "query": "?scenario=desk_1"}, follow=True)
    assert answer.redirect_chain == [("/projects/lab/episodes/?scenario=desk_1", 302)] and answer.status_code == 200
    assert re.search(r'class="told error" role="status">(Select 1 to 200 episodes|Unknown action)', html(answer))


def test_refused_command_keeps_its_selection_and_page(ada, desk):
    client, kept = as_person(ada), 'data-kept="{}"'
    one = {"act": "compare", "episode": [desk[0].pk], "query": "?scenario=desk_1", "cursor": "abc"}
    answer = client.post("/episodes/selected", one)
    assert answer["Location"] == "/projects/lab/episodes/?scenario=desk_1&cursor=abc"
    assert kept.format(desk[0].pk) in html(client.get("/episodes/?scenario=desk_1"))
    assert kept.format("") in html(client.get("/episodes/?scenario=desk_1"))
    client.post("/episodes/selected", {"act": "explode", "all": "1"})
    assert kept.format("all") in html(client.get("/episodes/"))


def test_live_episodes_of_all_that_match_are_counted(ada, rita, desk):
    assert 'data-live="1"' in html(as_person(ada).get("/episodes/"))
    assert 'data-live="0"' in html(as_person(ada).get("/episodes/?scenario=desk_1"))
    assert "data-stops" not in html(as_person(rita).get("/episodes/"))


def test_command_on_all_that_match_takes_no_more_than_it_says(ada, desk, monkeypatch):
    client, form = as_person(ada), {"all": "1", "query": "?scenario=desk_1"}
    address = client.post("/episodes/selected", {**form, "act": "compare"}).url
    assert parse_qs(urlsplit(address).query)["episode"] == [desk[1].pk, desk[0].pk]
    monkeypatch.setattr(many, "SELECTED", 1)
    assert "Select 1 to 1 episodes." in html(client.post("/episodes/selected", {**form, "act": "label"}, follow=True))
    assert client.post("/episodes/selected", {**form, "act": "export"}).url.endswith("/exports/?scenario=desk_1")
    searched = client.post("/episodes/selected", {**form, "act": "export", "query": "?q=Sort"}, follow=True)
    assert "Exports can&#x27;t filter by Search." in html(searched)


@pytest.mark.parametrize(
    ("order", "expected"),
    [("-length", "bdac"), ("length", "cadb"), ("-asks", "adcb"), ("-duration", "abdc"), ("duration", "bacd")],
)
def test_list_is_sorted_and_paged_both_ways(ada, page, monkeypatch, order, expected):
    monkeypatch.setattr(many, "PAGE", 1)
    strips = {"a": "rwo", "b": "rrrrr", "c": "t", "d": "rrw"}
    for hour, (key, strip) in enumerate(strips.items()):
        one = add(ada, key)
        begun = one.created_at + timedelta(hours=hour)
        ended = {"a": 30, "b": 20}.get(key)
        times = {"started_at": begun, "ended_at": ended and begun + timedelta(seconds=ended), "created_at": begun}
        Episode.objects.filter(pk=one.pk).update(strip=strip, **times)
    keys = dict(Episode.objects.values_list("pk", "key"))

    def walk(query, side):
        seen = ""
        while query:
            found = page(query)
            seen += "".join(keys[pk] for pk in re.findall(r'data-key="(\w+)"', found))
            link = re.search(rf'rel="{side}" href="(.*?)"', found)
            last, query = query, link and link[1].replace("&amp;", "&")
        return seen, last

    there, last = walk(f"?sort={order}", "next")
    assert there == expected and walk(last, "prev")[0] == expected[::-1]


@pytest.mark.parametrize("query", ["?sort=secret", "?cursor=x", "?cursor=WzEsMl0", "?sort=-length&cursor=bnVsbA"])
def test_unknown_order_and_page_are_named(desk, page, query):
    assert re.search("Unknown order: secret. Use one of -started|This page of the list does not exist", page(query))


def test_columns_are_part_of_the_address(ada, desk, page):
    heads = re.compile(r'<th class="c-(\w+)')
    assert heads.findall(page()) == ["steps", "arm", "length", "asks", "duration", "started"]
    few = page("?columns=task&columns=asks&columns=run&sort=-asks&scenario=desk_1")
    assert heads.findall(few) == ["asks", "run"] and 'aria-sort="descending"' in few
    assert 'href="?sort=-asks&amp;columns=task%2Casks%2Crun" aria-label="Remove filter Scenario: desk_1"' in few


def test_dates_are_fields_with_removable_chips(ada, desk, page):
    field = '<input type="date" name="{}" form="find-episodes" value="{}" max="9999-12-31">'.format
    assert field("since", "") in page() and field("until", "") in page()
    indexing.work()
    found = page("?since=2020-01-01&until=&scenario=desk_1").partition("<dialog")[0]
    assert "2 of 3 episodes match." in found and field("since", "2020-01-01") in found
    assert 'name="since" value=' not in found and '<input type="hidden" name="scenario" value="desk_1">' in found
    chip = re.search(r'href="([^"]*)" aria-label="Remove filter Ended since: 2020-01-01"', found)
    assert chip and chip[1] == "?scenario=desk_1"
    both = page("?since=2020-01-01&until=2020-01-02")
    assert "No episodes match." in both and 'aria-label="Remove filter Ended before: 2020-01-02"' in both
    moment = page("?since=2020-01-01T10:00:00")
    assert field("since", "") in moment and '<input type="hidden" name="since" value="2020-01-01T10:00:00">' in moment


def test_days_are_those_of_the_reader(ada):
    one = add(ada, "late", outcome="complete")
    asks = add(ada, "open", expert="plain")
    ask = opening.open_ask(ada, AskOpen(key="q", episode=asks.pk, seq=1, question="Which?"))[0]
    at = datetime(2026, 3, 9, 22, 30, tzinfo=UTC)  # a day later in Tokyo
    Episode.objects.filter(pk=one.pk).update(ended_at=at)
    Ask.objects.filter(pk=ask.pk).update(created_at=at)
    utc, tokyo = as_person(ada), as_person(ada)
    tokyo.cookies["zone"] = "Asia/Tokyo"

    def told(client, day):
        episodes = html(client.get(f"/episodes/?since={day}&until=2026-03-11"))
        asks = html(client.get(f"/metrics/?since={day}&until={day}"))
        return [f'data-key="{one.pk}"' in episodes, "No asks in this period." not in asks]

    assert [told(utc, "2026-03-09"), told(utc, "2026-03-10")] == [[True, True], [False, False]]
    assert [told(tokyo, "2026-03-09"), told(tokyo, "2026-03-10")] == [[True, False], [True, True]]
    assert "From (Asia/Tokyo)" in html(tokyo.get("/metrics/"))
    page = html(tokyo.get("/episodes/?since=2026-03-10"))
    assert '<p class="meta">Asia/Tokyo</p>' in page
    address = re.search(r'href="[^"]*/exports/\?(since=[^"]*)"', page)[1]
    assert parse_qs(address)["since"] == ["2026-03-09T15:00:00+00:00"]
    held = html(tokyo.get("/exports/?since=2026-03-10")), html(tokyo.get(f"/exports/?{address}"))
    assert ["of 1 episode" in one for one in held] == [False, True]

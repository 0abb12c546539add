"""Saved views of the queue: a name for an address, for oneself or for all, with what it holds now."""

from __future__ import annotations

import re

import pytest

from experts.models import QueueView
from tests.browsing import as_person, html

SENIOR = "?show=unclaimed&sort=priority&tier=senior&page=3"


def save(actor, name="seniors", query=SENIOR, **more):
    return as_person(actor).post(f"/queue/views{query}", {"name": name, **more})


def listed(actor, query=""):
    return html(as_person(actor).get(f"/queue/views{query}"))


def test_saved_view_omits_the_page_number(edo, asked):
    asked()
    assert save(edo).status_code == 200
    view = QueueView.objects.get()
    assert view.query == "?show=unclaimed&sort=priority&tier=senior"
    page = listed(edo, SENIOR)
    assert re.search(
        r'href="/projects/lab/queue/\?show=unclaimed&amp;sort=priority&amp;tier=senior" aria-current', page
    )
    assert as_person(edo).get(f"/queue/{view.query}").status_code == 200


def test_a_view_says_how_many_asks_it_holds_now(edo, asked):
    asked("red one"), asked("blue two")
    save(edo, "red", "?q=red")
    save(edo, "all", "")
    page = listed(edo)
    assert "1 open" in page and "2 open" in page


def test_the_same_name_again_is_the_view_in_its_new_form(edo):
    save(edo)
    save(edo, " seniors ", "?show=mine", shared="1")
    assert [(one.query, one.shared) for one in QueueView.objects.all()] == [("?show=mine", True)]


def test_others_see_a_view_only_if_it_is_for_everybody(edo, ada, rita, max_):
    save(edo, "own")
    save(edo, "house", shared="1")
    assert "own" not in listed(rita).split("<form")[0] and "house" in listed(rita) and "by edo" in listed(ada)
    assert "house" not in listed(max_)


def test_view_is_removed_by_its_author_or_a_manager(edo, ada, rita, max_):
    save(edo, "house", shared="1")
    drop = f"/queue/views/{QueueView.objects.get().pk}/drop"
    assert as_person(max_).post(drop).status_code == 404
    assert as_person(rita).post(drop).status_code == 403
    assert as_person(ada).post(drop).status_code == 200
    save(edo, "own")
    drop = f"/queue/views/{QueueView.objects.get().pk}/drop"
    assert as_person(ada).post(drop).status_code == 404  # not hers, and not for everybody
    assert as_person(edo).post(drop).status_code == 200 and not QueueView.objects.exists()


@pytest.mark.parametrize("name", ["", "   ", "n" * 61])
def test_a_name_that_is_none_is_refused_in_words(edo, name):
    refused = save(edo, name)
    assert refused.status_code == 422 and b"1 to 60" in refused.content and not QueueView.objects.exists()


def test_names_are_text_and_nobody_hoards(edo, monkeypatch):
    monkeypatch.setattr("people.record.saved_views.VIEWS_MAX", 1)
    save(edo, "<b>x</b>")
    assert "<b>x</b>" not in listed(edo)
    assert b"Remove one first" in save(edo, "second").content

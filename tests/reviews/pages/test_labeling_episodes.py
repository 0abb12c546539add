"""A label on several episodes that were selected in the list: all four kinds, rights, withheld episodes, withdrawal."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest

from people.models import AuditEntry
from reviews.models import Annotation
from reviews.record import annotating, assigning, schemas
from reviews.visible.places import Place
from tests.browsing import as_person, html
from tests.people_by_name import person
from tests.reviews.conftest import ended

ADDRESS = "/reviews/label/"


@pytest.fixture
def vera(project):
    return person(project, "vera", "viewer")


@pytest.fixture
def label(ada):
    return schemas.define(ada, "quality", "Quality", "single", ["Good", "Bad"])


@pytest.fixture
def three(ada, episode):
    return [episode.pk, ended(ada, "two").pk, ended(ada, "three").pk]


def test_selection_of_the_list_opens_the_page_of_labels(rita, vera, label, three):
    client = as_person(rita)
    assert 'value="label"' in html(client.get("/episodes/"))
    assert 'value="label"' not in html(as_person(vera).get("/episodes/"))
    answer = client.post("/episodes/selected", {"act": "label", "episode": three})
    assert parse_qs(urlsplit(answer.url).query)["episode"] == three
    page = html(client.get(answer.url))
    assert "3 selected episodes to label" in page and "<legend>Quality</legend>" in page


@pytest.mark.parametrize(
    ("kind", "options", "sent", "stored"),
    [
        ("single", ["A", "B"], "a", "a"),
        ("multi", ["A", "B"], ["b", "a"], ["a", "b"]),
        ("score", [{"low": 1, "high": 5}], "4", 4),
        ("text", [], "words", "words"),
    ],
)
def test_each_kind_is_set_on_all_selected(ada, rita, three, kind, options, sent, stored):
    label = schemas.define(ada, "q", "Q", kind, options)
    answer = as_person(rita).post(ADDRESS, {"episode": three, "schema": label.pk, "value": sent}, follow=True)
    assert "Set Q on 3 of 3 selected episodes." in html(answer)
    rows = Annotation.objects.all()
    assert {(row.episode_id, row.author, row.seq, row.schema_id) for row in rows} == {
        (pk, "rita", None, label.pk) for pk in three
    }
    assert all(row.text == stored for row in rows)


def test_message_says_what_was_left_as_it_is(rita, max_, label, three):
    annotating.annotate(rita, annotating.visible_episode(rita, three[0]), Place(), "quality", "good", schema=label)
    elsewhere = ended(max_, "far").pk
    form = {"episode": [*three, elsewhere], "schema": label.pk, "value": "good"}
    said = html(as_person(rita).post(ADDRESS, form, follow=True))
    assert (
        "Set Quality on 2 of 4 selected episodes. 1 had this label already. 1 not found in this project." in said
        and "You labeled 3 of 4: 3 Good." in said
    )
    assert Annotation.objects.count() == 3 and not Annotation.objects.filter(episode=elsewhere).exists()


def test_page_says_which_values_one_has_set(ada, rita, three):
    traits = schemas.define(ada, "traits", "Traits", "multi", ["Careful", "Hasty"])
    for pk, value in zip(three, (["hasty", "careful"], ["careful"], []), strict=True):
        annotating.annotate(rita, annotating.visible_episode(rita, pk), Place(), "traits", value, schema=traits)
    said = html(as_person(rita).get(ADDRESS, {"episode": three}))
    assert "You labeled 3 of 3: 1 Careful, Hasty; 1 Careful; 1 none." in said


def test_another_value_and_a_withdrawal_supersede(rita, ada, label, three):
    client, theirs = as_person(rita), annotating.visible_episode(ada, three[0])
    annotating.annotate(ada, theirs, Place(), "quality", "bad", schema=label)
    for value in ("good", "bad"):
        client.post(ADDRESS, {"episode": three, "schema": label.pk, "value": value})
    said = html(client.post(ADDRESS, {"episode": three, "schema": label.pk, "withdraw": "1"}, follow=True))
    assert "Withdrew Quality from 3 episodes." in said and "You labeled" not in said
    history = Annotation.objects.filter(episode=three[1]).order_by("created_at", "pk")
    assert [(row.text, row.withdrawn) for row in history] == [("good", False), ("bad", False), ("", True)]
    assert [row.supersedes_id for row in history] == [None, history[0].pk, history[1].pk]
    assert Annotation.objects.filter(author="ada").count() == 1  # another's label is not ours to withdraw


def test_withheld_episodes_are_labeled_and_tell_nothing(ada, rita, label, three):
    queue = assigning.create_queue(ada, "Blind")
    assigning.fill(ada, queue.pk, annotating.Episode.objects.filter(pk__in=three))
    annotating.annotate(ada, annotating.visible_episode(ada, three[0]), Place(), "quality", "bad", schema=label)
    client = as_person(rita)
    form = {"episode": three, "schema": label.pk, "value": "bad"}
    for answer in (client.get(ADDRESS, {"episode": three}), client.post(ADDRESS, form, follow=True)):
        page = html(answer)
        assert "ada" not in page.replace("data-", "") and "zebra" not in page and "Not complete" not in page
    assert "Set Quality on 3 of 3 selected episodes." in page


@pytest.mark.parametrize("who", ["vera", "max_"])
def test_stranger_and_viewer_label_nothing(request, who, label, three):
    client = as_person(request.getfixturevalue(who))
    answer = client.post(ADDRESS, {"episode": three, "schema": label.pk, "value": "good"})
    assert answer.status_code in (403, 404) and not Annotation.objects.exists()


def test_values_and_versions_that_do_not_fit_are_refused(ada, rita, label, three):
    client = as_person(rita)
    assert client.post(ADDRESS, {"episode": three, "schema": label.pk, "value": "fair"}).status_code == 422
    schemas.define(ada, "quality", "Quality", "single", ["Good", "Poor"])
    ended_version = client.post(ADDRESS, {"episode": three, "schema": label.pk, "value": "good"})
    assert ended_version.status_code == 409 and "newer version than 1" in html(ended_version)
    for ids in ([], ["x"] * 1, [str(n) for n in range(201)]):
        answer = client.get(ADDRESS, {"episode": ids})
        assert answer.status_code == (200 if ids == ["x"] else 422)
    assert not Annotation.objects.exists()


def test_label_is_listed_edited_and_retired(ada, rita, three, label):
    lead, page = as_person(ada), "/reviews/labels/"
    assert "0 episodes" in html(lead.get(page)) and "/episodes/?label=" not in html(lead.get(page))
    as_person(rita).post(ADDRESS, {"episode": three[:2], "schema": label.pk, "value": "good"})
    assert "2 episodes" in html(lead.get(page)) and "Retire" not in html(as_person(rita).get(page))
    edited = {
        "name": label.name,
        "title": "Kind of end",
        "kind": label.kind,
        "options": "Good\nBad\nOdd",
        "back": "labels",
    }
    assert "version 2" in html(lead.post("/reviews/labels", edited, follow=True))
    assert as_person(rita).post("/reviews/labels/retire", {"name": label.name}).status_code == 403
    gone = html(lead.post("/reviews/labels/retire", {"name": label.name}, follow=True))
    assert "No labels, 1 retired" in gone and "2 episodes</a> still carry it" in gone
    again = as_person(rita).post(
        ADDRESS, {"episode": three, "schema": schemas.retired(ada.project)[0].pk, "value": "bad"}
    )
    assert again.status_code == 409 and "Kind of end was retired. Nothing was saved." in html(again)
    assert "2 of 3 episodes match." in html(lead.get("/episodes/", {"label": label.name}))
    assert AuditEntry.objects.filter(verb="label.retired").get().reason == f"{label.name}, version 2"
    assert lead.post("/reviews/labels/retire", {"name": label.name}).status_code == 404


def test_edited_score_keeps_its_bounds(ada):
    schemas.define(ada, "worth", "Worth", "score", [{"low": 0, "high": 10}])
    as_person(ada).post("/reviews/labels", {"name": "worth", "title": "How good", "kind": "score"})
    assert schemas.of_project(ada.project).get().options == [{"low": 0, "high": 10}]

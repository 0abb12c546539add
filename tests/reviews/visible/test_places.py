"""Labels on parts of a step: what is refused, how a list tells of them, and who sees them."""

from __future__ import annotations

import pytest

from episodes.models import Episode
from episodes.visible.lens import EVERYTHING
from people.errors import Invalid
from reviews.errors import Moved
from reviews.models import Annotation
from reviews.record import annotating, assigning, schemas
from reviews.visible import annotated
from reviews.visible.annotated import seen_by
from reviews.visible.places import Place, tell
from tests.browsing import as_person, html
from tests.people_by_name import token

NOTE = Place(2, "$.result.note", 4, 9)


def test_letters_that_read_otherwise_are_refused(rita, episode):
    assert annotating.annotate(rita, episode, NOTE, "comment", "x", quote="seven").start == 4
    with pytest.raises(Moved):
        annotating.annotate(rita, episode, NOTE, "comment", "y", quote="eight")
    assert Annotation.objects.count() == 1


@pytest.mark.parametrize("where", [Place(2, "$.result.note[0]"), Place(2, '$["a\x00"]'), Place(2, "$.result", 0, 1)])
def test_place_inside_a_text_or_unstorable_is_refused(rita, episode, where):
    with pytest.raises(Invalid):
        annotating.annotate(rita, episode, where, "comment", "x")


def test_place_is_told_with_what_is_written_there(rita, episode):
    annotating.annotate(rita, episode, NOTE, "comment", "x")
    annotating.annotate(rita, episode, Place(2, "$.arguments"), "comment", "y")
    annotating.annotate(rita, episode, Place(2), "comment", "z")
    told = [(row.where, row.quote) for row in tell(EVERYTHING, episode, Annotation.objects.order_by("created_at"))]
    arguments = '{"id": 7, "status": "open"}'
    assert told == [("$.result.note, letters 5 to 9", "seven"), ("$.arguments", arguments), ("", "")]


def test_label_on_a_part_is_no_tag_of_the_question(rita, episode):
    annotating.annotate(rita, episode, NOTE, "question_needed", "yes")
    assert annotated.newest_of(Episode.objects.all(), ["question_needed"]) == {}


def test_form_labels_letters_and_keeps_a_refused_comment(ada, rita, review):
    label = schemas.define(ada, "quality", "Quality", "single", ["Good", "Bad"])
    review.queue.schemas = [label.pk]
    review.queue.save()
    assigning.claim(rita, review.pk)
    page, path = as_person(rita), f"/reviews/{review.pk}/label"
    place = {"seq": "2", "path": "$.result.note", "start": "4", "end": "9", "quote": '"seven"'}
    assert page.post(path, {**place, "schema": label.pk, "value": "good"}).status_code == 302
    said = Annotation.objects.get()
    assert (said.label, said.path, said.start, said.end) == ("quality", "$.result.note", 4, 9)
    shown = html(page.get(f"/reviews/{review.pk}/"))
    assert 'data-place="2" data-path="$.result.note" data-start="4" data-end="9"' in shown
    assert "$.result.note, letters 5 to 9: “seven”" in shown
    refused = page.post(path, {**place, "quote": '"other"', "value": "my words"})
    assert refused.status_code == 409
    assert "my words</textarea>" in html(refused) and 'value="$.result.note"' in html(refused)
    assert Annotation.objects.count() == 1


def test_blind_reviewer_reads_no_place_of_others(edo, rita, review):
    annotating.annotate(edo, review.episode, NOTE, "comment", "canary")
    assigning.claim(rita, review.pk)
    assert seen_by(rita, review.episode) == []
    for path in (f"/reviews/{review.pk}/", f"/reviews/said/{review.episode_id}/"):
        shown = html(as_person(rita).get(path))
        assert "canary" not in shown and "letters 5 to 9" not in shown


def test_api_takes_and_returns_a_place(client, project, episode):
    bearer = {"HTTP_AUTHORIZATION": f"Bearer {token(project, 'review')[1]}"}
    path = f"/api/v1/episodes/{episode.pk}/annotations"
    body = {"label": "note", "value": "x", "seq": 2, "path": "$.result.note", "start": 4, "end": 9, "quote": "seven"}
    made = client.post(path, body, content_type="application/json", **bearer)
    assert made.status_code == 201, made.content
    assert [made.json()[name] for name in ("path", "start", "end")] == ["$.result.note", 4, 9]
    stale = client.post(path, {**body, "quote": "eight"}, content_type="application/json", **bearer)
    assert (stale.status_code, stale.json()["error"]["code"]) == (409, "moved")

"""Comments name people with @: who hears of it, who may read it when, and what an edit or a withdrawal does."""

from __future__ import annotations

import pytest
from django.utils import timezone

from episodes.models import Episode
from notices import subjects
from people.errors import Invalid
from reviews.errors import Changed, NotYourAnnotation
from reviews.models import COMMENT, Annotation, Mention
from reviews.notifications import CommentSubject
from reviews.record import annotating, assigning, mentions, schemas
from reviews.visible.annotated import seen_by
from reviews.visible.places import Place
from tests.browsing import as_person, html

pytestmark = pytest.mark.django_db


def say(actor, episode, text, seq=2):
    return annotating.annotate(actor, episode, Place(seq), COMMENT, text)


def named(comment):
    return sorted(comment.mentions.values_list("user__username", flat=True))


def test_mention_names_members_once_and_never_the_author(ada, rita, max_, episode):
    comment = say(ada, episode, "@rita and @Rita. look, ask @ada or @max or a@rita, not @noone")
    assert named(comment) == ["rita"]
    assert named(say(ada, episode, "No one here")) == []


def test_two_comments_at_one_step_both_stand(ada, rita, episode):
    first, second = say(ada, episode, "One."), say(ada, episode, "Two.")
    assert say(ada, episode, "Two.").pk == second.pk
    assert [one.text for one in seen_by(rita, episode)] == ["One.", "Two."]
    later = annotating.reword(ada, first.pk, "One, but better.")
    assert annotating.reword(ada, first.pk, "One, but better.").pk == later.pk
    assert sorted(one.text for one in seen_by(rita, episode)) == ["One, but better.", "Two."]
    annotating.undo(ada, later.pk)
    assert [one.text for one in seen_by(rita, episode)] == ["Two."]


def test_closed_account_is_not_named(ada, rita, episode):
    rita.person.is_active = False
    rita.person.save()
    say(ada, episode, "@rita, look")
    assert not Mention.objects.exists()


def test_reword_before_the_notice_reaches_each_person_once(ada, rita, edo, episode):
    now = timezone.now()
    first = say(ada, episode, "@rita, look")
    later = annotating.reword(ada, first.pk, "@rita and @edo, look again")
    assert named(later) == ["edo", "rita"]
    assert CommentSubject(first).recipients(now) == {rita.key} and CommentSubject(later).recipients(now) == {edo.key}
    waiting = CommentSubject(Annotation.objects.get(pk=first.pk))
    assert waiting.standing("", now) == waiting.standing_for(rita.key, now) == subjects.KEEP
    assert waiting.text == "@rita and @edo, look again"
    assert [mentions.unread(one) for one in (rita, edo)] == [1, 1]


def test_reword_keeps_read_mentions_read_and_drops_others(ada, rita, edo, episode):
    now = timezone.now()
    first = say(ada, episode, "@rita and @edo, look")
    assert as_person(rita).get(f"/reviews/mentions/{first.pk}/").status_code == 200
    later = annotating.reword(ada, first.pk, "@rita, look again")
    assert [mentions.unread(one) for one in (rita, edo)] == [0, 0]
    assert "opened" in CommentSubject(first).standing_for(rita.key, now).why
    assert "no longer names you" in CommentSubject(first).standing_for(edo.key, now).why
    moved = as_person(rita).get(f"/reviews/mentions/{first.pk}/")
    assert (moved.status_code, moved["Location"]) == (302, f"/projects/lab/reviews/mentions/{later.pk}/")
    annotating.undo(ada, later.pk)
    assert "withdrawn" in CommentSubject(first).standing("", now).why


def test_reword_of_a_changed_or_foreign_comment_is_refused(ada, rita, episode):
    first = say(ada, episode, "One.")
    with pytest.raises(NotYourAnnotation):
        annotating.reword(rita, first.pk, "Mine.")
    annotating.reword(ada, first.pk, "Two.")
    with pytest.raises(Changed):
        annotating.reword(ada, first.pk, "Three.")
    with pytest.raises(Invalid):
        annotating.reword(ada, first.pk, " ")
    assert Annotation.objects.count() == 2


def test_notice_waits_for_a_blind_verdict_and_ends_when_read(ada, rita, queue, review):
    claimed = assigning.pull(rita, queue.pk)
    comment = say(ada, review.episode, "@rita, the verifier is wrong: it says complete")
    subject, now = CommentSubject(comment), timezone.now()
    assert subject.recipients(now) == {rita.key}
    assert "blind" in subject.standing_for(rita.key, now).why
    assert [one for one in seen_by(rita, comment.episode) if one.label == COMMENT] == []
    assigning.release(rita, review.pk, claimed.lease_token)
    Mention.objects.filter(annotation=comment).update(seen_at=now)
    assert "opened" in subject.standing_for(rita.key, now).why
    assert subjects.path("comment", comment.pk) == f"/reviews/mentions/{comment.pk}/"


def test_pages_list_open_answer_and_edit_a_mention(ada, rita, edo, episode):
    comment = say(ada, episode, "@rita, is <b>this</b> a write?")
    client = as_person(rita)
    assert "Mentions <b>1</b>" in html(client.get("/reviews/"))
    listed = html(client.get("/reviews/mentions/"))
    assert "1 mention is unread." in listed and f"/reviews/mentions/{comment.pk}/" in listed
    assert "is &lt;b&gt;this&lt;/b&gt; a write?" in listed
    page = html(client.get(f"/reviews/mentions/{comment.pk}/"))
    assert "&lt;b&gt;this" in page and "ada commented on step 2." in page
    assert "No mentions are unread." in html(client.get("/reviews/mentions/"))
    assert client.post(f"/reviews/mentions/{comment.pk}/", {"value": "Yes, @edo."}).status_code == 302
    [answer] = mentions.of_person(edo)
    assert answer.annotation.seq == 2 and answer.annotation.author == "rita"
    edit = {"value": "No, @edo.", "annotation": answer.annotation_id}
    assert client.post(f"/reviews/mentions/{comment.pk}/", edit).status_code == 302
    assert "No, @edo." in html(client.get(f"/reviews/mentions/{comment.pk}/"))
    refused = client.post(f"/reviews/mentions/{comment.pk}/", {"value": " "})
    assert refused.status_code == 422


def test_comment_of_a_blind_episode_stays_closed(ada, rita, queue, review):
    assigning.pull(rita, queue.pk)
    comment = say(ada, review.episode, "@rita, zebra-comment")
    client = as_person(rita)
    for address in (f"/reviews/mentions/{comment.pk}/", "/reviews/mentions/", f"/reviews/{review.pk}/"):
        assert "zebra-comment" not in html(client.get(address))
    assert "opens after your verdict" in html(client.get(f"/reviews/mentions/{comment.pk}/"))
    assert mentions.unread(rita) == 1


@pytest.mark.parametrize(
    "text",
    [
        "Write to a@nobody.org, or see http://x/@nobody",
        "It lacks `@nobody` there:\n```\n@nobody\n@rita\n```",
        "@nobody\ndef total(self):\n    return 3",
        "@nobody/package and @nobody(3) at @12",
        "@ada and @Rita.",
    ],
)
def test_refuse_unknown_lets_code_and_addresses_through(ada, rita, text):
    mentions.refuse_unknown(ada, text)


def test_name_in_code_notifies_no_one(ada, rita, edo, episode):
    assert named(say(ada, episode, "`@rita` and\n@edo\ndef f(): pass")) == []


def test_unknown_name_is_said_with_the_text_kept(ada, rita, edo, episode):
    client, comment = as_person(rita), say(ada, episode, "@rita, look")
    address, text = f"/reviews/mentions/{comment.pk}/", "@nobody and @edo, look\nhere"
    first = client.post(address, {"value": text})
    page = html(first)
    assert (
        first.status_code == 422 and "No member is named @nobody." in page and page.count(text.replace("\n", " ")) == 2
    )
    assert Annotation.objects.count() == 1
    assert client.post(address, {"value": text + "!", "as_text": text}).status_code == 422  # another text, another hint
    assert client.post(address, {"value": text, "as_text": text.replace("\n", "\r\n")}).status_code == 302
    said = Annotation.objects.latest("created_at")
    assert said.text == text and named(said) == ["edo"]
    edit = {"value": "@nobody!", "annotation": said.pk}
    refused = html(client.post(address, edit))
    assert refused.count("@nobody!") == 2 and "<details open>" in refused
    assert client.post(address, {**edit, "as_text": "@nobody!"}).status_code == 302


def test_members_to_name_are_those_of_the_project(ada, rita, edo, max_):
    listed = as_person(rita).get("/reviews/members.json").json()["members"]
    assert [one["name"] for one in listed] == ["ada", "edo"]


def test_mention_of_another_project_is_not_found(ada, max_, episode):
    comment = say(ada, episode, "@rita, look")
    assert as_person(max_).get(f"/reviews/mentions/{comment.pk}/").status_code == 404


def test_labels_of_every_kind_are_set_on_the_page(ada, rita, episode):
    multi = schemas.define(ada, "faults", "Faults", "multi", ["Slow", "Wrong", "Rude"])
    score = schemas.define(ada, "effort", "Effort", "score", [{"low": 0, "high": 4}])
    wide = schemas.define(ada, "share", "Share", "score", [{"low": 0, "high": 100}])
    free = schemas.define(ada, "because", "Because", "text", [])
    queue = assigning.create_queue(ada, "All kinds")
    assigning.fill(ada, queue.pk, Episode.objects.filter(pk=episode.pk))
    review = queue.reviews.get()
    client, address = as_person(rita), f"/reviews/{review.pk}"
    client.post(f"/reviews/queues/{queue.pk}/next")
    page = html(client.get(f"{address}/"))
    assert 'type="checkbox"' in page and 'type="number"' in page and page.count('value="4"') == 1
    for schema, value in ((multi, ["slow", "rude"]), (score, "3"), (wide, "12.5"), (free, "It guessed.")):
        assert client.post(f"{address}/label", {"seq": "2", "schema": schema.pk, "value": value}).status_code == 302
    said = {one.label: one.text for one in seen_by(rita, episode)}
    assert said == {"faults": ["slow", "rude"], "effort": 3, "share": 12.5, "because": "It guessed."}
    assert "faults: slow, rude" in html(client.get(f"{address}/?step=2"))
    for schema, value in ((score, "5"), (score, "x"), (multi, ["slow", "odd"]), (free, " ")):
        refused = client.post(f"{address}/label", {"seq": "2", "schema": schema.pk, "value": value})
        assert refused.status_code == 422
    assert len(seen_by(rita, episode)) == 4


def test_replay_shows_what_was_said_as_far_as_a_person_may_read(ada, rita, max_, episode):
    assert 'hx-get="/projects/lab/reviews/said/' in html(as_person(rita).get(f"/episodes/{episode.pk}/replay/"))
    address = f"/reviews/said/{episode.pk}/"
    assert html(as_person(rita).get(address)).strip() == ""
    comment = say(ada, episode, "<b>Wrong</b> row")
    annotating.annotate(ada, episode, Place(1), "odd", "")
    page = html(as_person(rita).get(address))
    assert 'data-seqs="1 2"' in page and "&lt;b&gt;Wrong" in page and f"/reviews/mentions/{comment.pk}/" in page
    assert ">odd</span" in page
    assert as_person(max_).get(address).status_code == 404


def test_replay_of_a_blind_reviewer_shows_only_their_own_words(ada, rita, queue, review):
    assigning.pull(rita, queue.pk)
    say(ada, review.episode, "zebra-comment", seq=1)
    say(rita, review.episode, "my own", seq=2)
    page = html(as_person(rita).get(f"/reviews/said/{review.episode_id}/"))
    assert "zebra-comment" not in page and "my own" in page and 'data-seqs="2"' in page

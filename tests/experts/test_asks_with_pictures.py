"""What readers of an ask know of its pictures: other pictures are another question."""

from __future__ import annotations

import pytest
from django.utils import timezone

from awmclient.nouns.pictures import ImagePart
from awmclient.schema import AskOpen, EpisodeStart
from episodes.record import recording
from episodes.record.pictures import upload
from experts.find.answer_links import answer_path
from experts.find.panels import same_question_of, ways
from experts.find.reading import open_asks
from experts.looking import model_for
from experts.models import Ask
from experts.notifications import AskSubject
from experts.pages.slack import _window
from experts.record import advising, desk, opening, queue
from people.errors import Invalid
from tests.asking import MODEL
from tests.pictures import drawn

CALL = {"id": "c1", "name": "press", "arguments": {"button": "left"}}


@pytest.fixture
def shown(ada):
    """Open an ask with pictures of these shades, of an episode of its own."""
    count = iter(range(1000))

    def ask(*shades, question="Which button?", policy=None, **more):
        start = EpisodeStart(key=f"s{next(count)}", task="press it", expert="plain", policy=policy or {})
        episode, _ = recording.start_episode(ada, start)
        parts = []
        for shade in shades:
            row, _ = upload(ada, episode.pk, drawn(shade=shade, size=(64, 40)))
            about = {"media_type": row.media_type, "width": row.width, "height": row.height}
            parts.append(ImagePart(type="image", blob=row.sha256, **about))
        body = AskOpen(key="q", episode=episode.pk, seq=1, question=question, pictures=parts or None, **more)
        return opening.open_ask(ada, body)[0]

    return ask


def answered(actor, ask, text="The left one."):
    lease = queue.claim(actor, ask.pk)
    return advising.answer(actor, lease.assignment_id, lease.lease_token, text, f"n{ask.pk}")


def test_answer_to_other_pictures_is_not_reused(shown, ada, edo):
    desk.set_policy(ada, cache="all")
    answered(edo, shown(10))
    others = [shown(90), shown(), shown(10, 90), shown(90, 10)]
    assert [one.status for one in others] == ["open"] * 4
    again = shown(10)
    assert (again.accepted.source, again.accepted.text) == ("cache", "The left one.")


def test_questions_with_other_pictures_are_no_group(shown, edo):
    first, other, plain, same = shown(10), shown(90), shown(), shown(10)
    assert first.group == same.group and len({first.group, other.group, plain.group}) == 3
    offered = same_question_of(edo, first, timezone.now())
    assert [one.ask.pk for one in offered] == [same.pk]
    answered(edo, first)
    outcomes = advising.answer_group(
        edo, Ask.objects.get(pk=first.pk), "The left one.", None, "g", [other.pk, plain.pk, same.pk]
    )
    assert outcomes == {same.pk: ""}


def test_approvals_of_one_call_with_other_pictures_are_apart(shown, edo):
    one, other, same = (shown(shade, kind="approval", calls=[CALL]) for shade in (10, 90, 10))
    assert one.calls_digest == same.calls_digest != other.calls_digest
    assert [near.ask.pk for near in same_question_of(edo, one, timezone.now())] == [same.pk]


@pytest.mark.usefixtures("models")
def test_question_with_pictures_goes_to_people_and_no_model(shown, ada, edo):
    desk.set_policy(ada, model_first=True, audit_share=0)
    assert shown().tier == "llm"
    ask = shown(10)
    assert (ask.tiers, ask.draft_at) == (["people"], None)
    with pytest.raises(Invalid, match="models do not see its pictures"):
        desk.want_draft(edo, ask.pk)
    lease = queue.claim(edo, ask.pk)
    with pytest.raises(Invalid, match="No expert model is available"):
        queue.escalate(edo, lease.assignment_id, lease.lease_token, "llm", "")
    assert [way.why_not for way in ways(edo, ask) if way.to == "llm"] == ["models do not see its pictures"]
    desk.set_policy(ada, second_look_model=MODEL)
    assert (model_for(edo, shown()), model_for(edo, ask)) == (MODEL, "")


@pytest.mark.usefixtures("models")
def test_arm_of_models_only_falls_back_for_pictures(shown):
    ask = shown(10, policy={"experts": "models"})
    assert (ask.status, ask.accepted.reason) == ("fell_back", "pictures")


def test_readers_without_thumbnails_know_of_pictures(shown, edo, client):
    two, one, plain = shown(10, 90), shown(10), shown()
    line = "2 pictures: open the ask to see them."
    page = client.get(answer_path(two, edo.key)).content.decode()
    assert f'/asks/{two.pk}/">{line}</a>' in page
    assert "picture" not in client.get(answer_path(plain, edo.key)).content.decode()
    assert [AskSubject(ask).title(1).partition("lab")[2] for ask in (two, one, plain)] == [
        " with 2 pictures",
        " with 1 picture",
        "",
    ]
    assert AskSubject(two).shared(timezone.now()).details == [line]
    assert AskSubject(plain).shared(timezone.now()).details == []
    assert "1 picture: open the ask to see it." in str(_window(one, None)) and "picture" not in str(
        _window(plain, None)
    )
    listed = {ask.id: [part.blob for part in ask.pictures or ()] for ask in open_asks(edo)}
    assert {key: len(set(blobs)) for key, blobs in listed.items()} == {two.pk: 2, one.pk: 1, plain.pk: 0}

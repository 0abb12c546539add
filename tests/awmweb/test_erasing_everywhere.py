"""Every table that can have a word of an episode, or of a person: it is planted in each, erased, and searched for."""

from __future__ import annotations

import io
from datetime import timedelta

import pytest
import redis
from django.apps import apps
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.models import CharField
from django.utils import timezone

from awmclient.schema import StandingAnswerBody
from awmweb.erasing import written
from awmweb.erasing.episodes import erase_episode
from awmweb.erasing.persons import erase_person
from episodes.models import Episode, SavedView, VerifierVersion
from episodes.record import indexing
from experts.models import Advice, Ask
from experts.record import desk, standing_answers
from imports.models import Trace, TraceSpan
from notices.models import Delivery, Subscription
from people.access import system
from people.errors import OnHold
from people.models import ApiToken, Hold
from people.record import holding, members
from people.record.audit import record
from reviews.models import Annotation
from runs.models import Campaign
from tests.awmweb.rows_with_words import Filler
from tests.awmweb.test_erasing import GONE, dumped, planting
from tests.exports.pages.test_export_pages import store
from tests.exports.test_canaries import lived
from tests.people_by_name import person

__all__ = ["store"]
pytestmark = pytest.mark.django_db
AUTHORS = ("author", "author_key", "actor_key", "uploader_key", "created_by", "requested_by", "placed_by", "made_by")
AUTHORS += ("actor", "changed_by")
NO_WORDS = {"people.RetentionRule", "episodes.Rejudging", "episodes.OutcomeHold", "experts.Presence"}
"""They name a person and have no text of theirs."""

STAYS = {
    *(
        "Annotation.ask_id",
        "Annotation.label",
        "Annotation.path",
        "AskEvent.verb",
        "AuditEntry.target",
        "AuditEntry.verb",
    ),
    *("Briefing.arm", "Briefing.scenario", "Campaign.points", "Decision.subject"),
    *("EpisodeEvent.verb", "Preference.answers", "Verdict.failure_type", "Verdict.nonce", "Verdict.rubric"),
    *("VerifierVersion.code", "VerifierVersion.scenario", "VerifierVersion.scenario_digest", "VerifierVersion.sha256"),
}
"""Names, keys, places and choices, in which the test plants a word that no one can write there. The code of a repaired
verifier stays, because outcomes rest on it."""


def words_in_tables(word=GONE):
    return {table for table, text in dumped().items() if word.encode() in text.lower()}


def fields_with_words(models):
    """The fields of these models that have the word, as the database stores them."""
    found = set()
    for model in models:
        for row in model._base_manager.all():
            values = {
                field: field.get_db_prep_save(getattr(row, field.attname), connection) for field in row._meta.fields
            }
            found |= {f"{model.__name__}.{field.name}" for field, value in values.items() if GONE in str(value).lower()}
    return found


def hangs_on(model, seen=()):
    """Whether a row of this model goes with an episode, by references that cannot be empty."""
    for field in model._meta.concrete_fields:
        if field.is_relation and not field.null and field.related_model not in seen:
            of = field.related_model
            if of is Episode or hangs_on(of, (*seen, model)):
                return True
    return False


def signed(model):
    """The columns in which rows say who did something."""
    fields = model._meta.concrete_fields
    texts = [field.name for field in fields if isinstance(field, CharField) and not field.choices]
    # what wrote a draft is a model, and who acted for an agent is a digest
    assert {name for name in texts if name.endswith("_by")} <= {*written.SIGNED, "drafted_by", "acted_by"}
    return [name for name in texts if name in written.SIGNED]


def signatures_in_rows():
    rows = {model: signed(model) for model in apps.get_models()}
    return {name for model, fields in rows.items() for one in fields for name in model._base_manager.values_list(one)}


def authors_of(model):
    return [field.name for field in model._meta.concrete_fields if field.name in AUTHORS]


def test_every_table_of_an_episode_is_emptied(ada, store):
    expert = person(ada.project, "edo", "expert")
    one = lived(ada, expert, "a", planting(GONE), has_pictures=True)
    indexing.work()
    fill = Filler(Project=ada.project, Episode=one, Ask=one.asks.order_by("seq").first(), User=expert.person)
    models = [model for model in apps.get_models() if model is not Episode and hangs_on(model)]
    for model in (*models, Trace, TraceSpan):
        if not model._base_manager.exists():
            fill.row(model, GONE)
    assert len(models) > 30 and words_in_tables() >= {"runs_personturn", "episodes_wheelorder", "imports_tracespan"}
    record(ada, "certificate.requested", one.pk, f"{GONE} why")
    channel = fill.row(Subscription, "wombat", user=expert.person)
    said = {"words": f"{GONE} reply", "shown": GONE, "receipt": {"channel": GONE}, "state": "sent"}
    for pk in (one.asks.first().pk, Annotation.objects.filter(episode=one).first().pk):
        fill.row(Delivery, "wombat", subscription=channel, subject_id=pk, **said)
    erase_episode(ada, one.pk)
    assert words_in_tables() == set()


def test_standing_answer_of_an_erased_call_ends(ada, store):
    expert = person(ada.project, "edo", "expert")
    one = lived(ada, expert, "a", planting(GONE))
    (call, _) = one.asks.get(kind="approval").typed["calls"]
    until = timezone.now() + timedelta(days=1)
    about = {"tool": call["name"], "until": until, "at_most": 5}
    ahead, _ = standing_answers.give(ada, StandingAnswerBody(arguments=call["arguments"], any_value=[GONE], **about))
    other, _ = standing_answers.give(ada, StandingAnswerBody(arguments={"to": "wombat"}, **{**about, "tool": "look"}))
    tombstone = erase_episode(ada, one.pk)
    for row in (ahead, other):
        row.refresh_from_db()
    # without its arguments it would cover every call of its tool
    assert (ahead.tool, ahead.arguments, ahead.any_value, ahead.ended_by) == ("[erased]", {}, None, "erased")
    assert (other.arguments, other.ended_at) == ({"to": "wombat"}, None)
    assert tombstone.fell["experts.StandingAnswer: words"] == 1 and words_in_tables() == set()


def test_episodes_that_read_an_erased_answer_are_named(ada, store):
    expert = person(ada.project, "edo", "expert")
    one, other = (lived(ada, expert, key, planting(word)) for key, word in (("a", GONE), ("b", "wombat")))
    answers = [episode.asks.get(kind="question").accepted for episode in (one, other)]
    Advice.objects.filter(pk=answers[1].pk).update(taken_from=answers[0])
    tombstone = erase_episode(ada, one.pk)
    assert tombstone.left[0] == f"1 episode that got an answer or a briefing of it: {other.pk}"
    assert Advice.objects.filter(pk=answers[1].pk, taken_from=None).exists()


def test_every_table_with_an_author_is_known():
    listed = {one[0] for one in (*written.DELETED, *written.EMPTIED, *written.NAMED)}
    listed |= {*written.ELSEWHERE, *written.ACTED, *written.SET_UP}
    naming = {model for model in apps.get_models() if authors_of(model)}
    assert {model._meta.label for model in naming - listed} == NO_WORDS


LAPTOP = f"{GONE} laptop"


def personal_token(actor, name=LAPTOP, revoked=False):
    """A token as rows of earlier versions know it: they have its key and its name, not its person's."""
    issued, secret = members.issue_token(system(actor.project), name, "expert review")
    made = {"personal": True, "issued_by": actor.person, "revoked_at": timezone.now() if revoked else None}
    ApiToken.objects.filter(pk=issued.pk).update(**made)
    return issued, secret


def author_of(expert, way):
    if way == "page":
        return expert.key, expert.name
    issued, _ = personal_token(expert, revoked=way == "revoked token")
    return f"token:{issued.pk}", f"token {issued.name}"


@pytest.fixture(params=["page", "token", "revoked token"])
def wrote(request, ada, store):
    """An account with a word in every table that names an author, and an episode that it drove."""
    expert = person(ada.project, "edo", "expert")
    author_key, author = author_of(expert, request.param)
    one = lived(ada, expert, "a", lambda path: path)
    ask = one.asks.order_by("seq").first()
    # what others set up, and rows that theirs refer to, have another word
    fill = Filler(Project=ada.project, Episode=one, Ask=ask, User=expert.person)
    for model in apps.get_models():
        if (names := authors_of(model)) and model is not Advice and model._meta.label not in NO_WORDS:
            key = {name: author_key if name.endswith("_key") else author for name in names}
            key |= dict.fromkeys(signed(model), author)
            more = {"text": "own", "schema": None} if model is Annotation else {}
            fill.row(model, GONE, **key, **more)
    Annotation.objects.filter(text="own").update(text=f"{GONE} own")
    Ask.objects.filter(pk=ask.pk).update(draft_hint=f"{GONE} hint")
    # an address goes with its channel
    channel = fill.row(Subscription, GONE, user=expert.person, target="", secret={})
    fill.row(Delivery, "wombat", subscription=channel, subject_id=ask.pk, words=f"{GONE} reply")
    return author_key, author, one


def test_every_table_with_an_author_is_emptied(ada, wrote):
    author_key, author, one = wrote
    view = SavedView.objects.get(author_key=author_key)
    campaign = {"place": "error", "kind": "words", "tries": 1, "matched": 1, "chosen": 1, "author_key": ada.key}
    theirs = Campaign.objects.create(project=ada.project, name="c", view=view.name, query=view.query, **campaign)
    copied = {"subject": view.pk, "name": view.name, "query": view.query}
    hold = holding.place(ada, Hold.Place.VIEW, "Case 12.", **copied)
    with pytest.raises(OnHold):
        erase_person("edo")
    holding.release(ada, hold.pk)
    mine = Hold.objects.get(placed_by=author)
    record(ada, "hold.released", "lab", mine.reason)
    (tombstone,) = erase_person("edo")
    others = set(apps.get_models()) - {*written.ACTED, *written.SET_UP}
    assert fields_with_words(others) == STAYS
    assert VerifierVersion.objects.get().reason == "[erased]"
    theirs.refresh_from_db()
    hold.refresh_from_db()
    assert (theirs.view, hold.name, hold.query, hold.reason) == ("", "[erased]", "", "Case 12.")
    assert "1 repaired verifier, without their reasons" in tombstone.left
    (set_up,) = [line for line in tombstone.left if line.startswith("what they set up for others")]
    assert (
        "1 run, 1 plan of a run, 1 split, 1 label, 1 review queue, 1 rule of a review queue, 1 export, 1 push, 1 import"
        in set_up
    )
    assert tombstone.about == {"episodes": [one.pk]}
    # what stays has the person's name, and not that of their token
    assert {name for (name,) in signatures_in_rows() if GONE in name} == set()
    assert tombstone.fell.get("people.ApiToken: names", 0) == (author != "edo")
    assert [one.fell for one in erase_person("edo")] == [{}]


def test_command_erases_episodes_of_a_person_too(ada, wrote):
    _, _, one = wrote
    out = io.StringIO()
    call_command("erase", "--person", "edo", "--with-episodes", stdout=out)
    assert f"Episode {one.pk} of lab:" in out.getvalue()
    assert not Episode.objects.exists()
    assert fields_with_words(set(apps.get_models()) - set(written.SET_UP)) <= STAYS
    with pytest.raises(CommandError, match="--with-episodes needs --person"):
        call_command("erase", "--episode", one.pk, "--with-episodes")


def test_valkey_keeps_no_word_of_people_or_episodes(ada, store):
    expert = person(ada.project, "edo", "expert")
    one = lived(ada, expert, "a", planting(GONE))
    desk.look_at(expert, one.asks.first().pk)
    valkey = redis.Redis.from_url(settings.REDIS_URL)
    keys = list(valkey.scan_iter())
    assert any(b"looking" in key for key in keys)
    kept = [key for key in keys if GONE.encode() in key + (valkey.dump(key) or b"")]
    assert kept == []

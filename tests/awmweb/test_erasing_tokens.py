"""A person writes on pages and by personal tokens, over HTTP, and is erased: nothing is left of it anywhere."""

from __future__ import annotations

import logging

import pytest
import redis
from django.conf import settings
from django.test import Client

from awmclient.schema import AskOpen, EpisodeStart, Finish, Outcome, StepBatch
from awmweb.erasing.persons import erase_person
from awmweb.erasing.telling import lines_of
from episodes.models import Episode
from episodes.record import ending, indexing, recording
from experts.record import opening
from exports.jobs import working
from people.access import bearer, keys_of, system
from people.models import ApiToken, AuditEntry
from people.record import members
from people.record.audit import record
from reviews.record import assigning
from tests.awmweb.test_erasing import GONE, RECIPES, places_of
from tests.awmweb.test_erasing_everywhere import personal_token
from tests.browsing import as_person, html
from tests.exports.pages.test_export_pages import built, store
from tests.people_by_name import person, token

__all__ = ["store"]
pytestmark = pytest.mark.django_db


def recorded(loop, name):
    """A live episode with a step and two open asks."""
    one, _ = recording.start_episode(loop, EpisodeStart(key=name, task="Move the file.", expert="plain"))
    said = {"kind": "message", "role": "assistant", "content": "Done.", "seq": 1, "turn": 1}
    recording.append_steps(loop, one.pk, StepBatch.model_validate({"steps": [said]}).steps)
    asks = []
    for seq in (2, 3):
        asked = {"episode": one.pk, "key": f"{name} {seq}", "seq": seq, "question": f"Which number is {name} {seq}?"}
        asks.append(opening.open_ask(loop, AskOpen.model_validate({**asked, "turn": seq}))[0].pk)
    return one, asks


def sent(client, path, body=None, **more):
    given = {"content_type": "application/json", **more}
    answer = client.post(f"/api/v1{path}", {} if body is None else body, **given)
    assert answer.status_code in (200, 201), (path, answer.status_code, answer.content)
    return answer.json()


def answers(client, answered, declined):
    """Answer an ask with a file, and decline another; return the file."""
    lease = sent(client, f"/asks/{answered}/claim")
    path = f"/asks/{answered}/attachments?name={GONE}.txt"
    file = sent(client, path, f"{GONE} file".encode(), content_type="application/octet-stream")
    body = {"lease_token": lease["lease_token"], "text": f"{GONE} answer", "nonce": "n"}
    sent(client, f"/assignments/{lease['assignment']}/answer", body)
    lease = sent(client, f"/asks/{declined}/claim")
    why = {"lease_token": lease["lease_token"], "reason": f"{GONE} why"}
    sent(client, f"/assignments/{lease['assignment']}/decline", why)
    return file["id"]


def judges(client, one, given, declined):
    """Comment, correct, give a verdict and decline a review."""
    sent(client, f"/episodes/{one.pk}/annotations", {"label": "comment", "value": f"{GONE} comment", "seq": 1})
    better = {"seq": 1, "kind": "message", "text": f"{GONE} better", "why": f"{GONE} why"}
    sent(client, f"/episodes/{one.pk}/corrections", better)
    token_of = {review: sent(client, f"/reviews/{review}/claim")["lease_token"] for review in (given, declined)}
    verdict = {"lease_token": token_of[given], "verdict": "accept", "note": f"{GONE} note"}
    sent(client, f"/reviews/{given}/verdict", verdict)
    sent(client, f"/reviews/{declined}/decline", {"lease_token": token_of[declined], "reason": f"{GONE} why"})


def drafts(client, ask):
    """Write what only pages can."""
    sent(client, f"/asks/{ask}/claim")
    forms = {f"/asks/{ask}/draft": {"text": f"{GONE} draft", "version": "0"}, "/replies/": {"text": f"{GONE} reply"}}
    for path, form in forms.items():
        answer = client.post(f"/projects/lab{path}", form)
        assert answer.status_code in (200, 204, 302), (path, answer.status_code, answer.content[:300])


def finished(loop, ada, one):
    ending.finish(loop, one.pk, Finish(stop_reason="done"))
    ending.record_outcome(ada, one.pk, Outcome(reward_type="complete", reward=1.0))


@pytest.fixture
def wrote(ada, store):
    """Edo, what he wrote in each way in an episode of its own, and the ids of his files."""
    loop, edo = token(ada.project, "agent")[0], person(ada.project, "edo", "expert")
    before = {"token": personal_token(edo), "revoked token": personal_token(edo, f"{GONE} phone")}
    rows = ApiToken.objects.filter(pk__in=[row.pk for row, _ in before.values()])
    rows.update(personal=False)  # so that their rows have their own key, as those of earlier versions have
    _, new = members.issue_token(edo, f"{GONE} pad", "expert review", personal=True)
    secrets = {way: secret for way, (_, secret) in before.items()} | {"new token": new}
    ways = {"page": as_person(edo)}
    ways |= {way: Client(headers={"Authorization": f"Bearer {secret}"}) for way, secret in secrets.items()}
    ones, files = {}, []
    for way, client in ways.items():
        ones[way], asks = recorded(loop, way)
        files.append(answers(client, *asks))
        finished(loop, ada, ones[way])
    queues = [assigning.create_queue(ada, name, is_blind=False, reviews_required=4) for name in ("given", "declined")]
    for way, one in ones.items():
        reviews = []
        for queue in queues:
            assigning.fill(ada, queue.pk, Episode.every.filter(pk=one.pk))
            reviews.append(queue.reviews.get(episode=one).pk)
        judges(ways[way], one, *reviews)
    drafts(ways["page"], recorded(loop, "live")[1][0])
    rows.update(personal=True, issued_by=edo.person)
    members.revoke_token(ada, before["revoked token"][0].pk)
    indexing.work()
    return edo, ones, files


def test_nothing_is_left_of_pages_and_personal_tokens(ada, wrote, store, caplog, django_capture_on_commit_callbacks):
    edo, ones, files = wrote
    caplog.set_level(logging.DEBUG)
    assert len(keys_of(edo.person)) == 4 and all(built(ada, **recipe) for recipe in RECIPES)
    assert places_of(GONE, store) >= {
        *("episodes_step", "episodes_stepwords", "episodes_episodewords", "experts_advice", "experts_attachment"),
        *("experts_draft", "experts_quickreply", "experts_decline", "experts_askevent", "reviews_annotation"),
        *("reviews_correction", "reviews_verdict", "reviews_reviewdecline", "people_apitoken", "people_auditentry"),
    }
    with django_capture_on_commit_callbacks(execute=True):
        (tombstone,) = erase_person("edo")
    said = "\n".join(lines_of(tombstone))
    assert all(working.build(export["next"]) for export in tombstone.datasets)
    assert all(built(ada, **recipe) for recipe in RECIPES)
    indexing.work()
    assert places_of(GONE, store) == set()
    web = as_person(ada)
    assert "No episode" in html(web.get(f"/episodes/?q={GONE}"))
    for path in ("/audit/", "/api-tokens/", *(f"/episodes/{one.pk}/" for one in ones.values())):
        assert GONE not in web.get(path).content.decode(), path
    assert [web.get(f"/api/v1/attachments/{file}").status_code for file in files] == [404] * len(ones)
    valkey = redis.Redis.from_url(settings.REDIS_URL)
    assert [key for key in valkey.scan_iter() if GONE.encode() in key + (valkey.dump(key) or b"")] == []
    assert GONE not in said and GONE not in "".join(
        record.getMessage() for record in caplog.records if record.name != "django.db.backends"
    )
    # both say what was done
    assert tombstone.fell["people.ApiToken: names"] == 3
    assert tombstone.fell["experts.Advice: words"] == tombstone.fell["experts.Attachment"] == len(ones)
    assert erase_person("edo") == []


def test_name_that_another_token_has_stays_and_is_named(ada, store):
    edo = person(ada.project, "edo", "expert")
    mine, other = personal_token(edo, "laptop")[0], token(ada.project, "agent")[0].token
    ApiToken.objects.filter(pk=other.pk).update(name="laptop")
    elsewhere = members.ensure_project("far", "Far")
    members.issue_token(system(elsewhere), f"{GONE} pad", "expert")
    personal_token(edo, f"{GONE} pad")
    for name in ("laptop", f"{GONE} pad"):
        entry = {"project": ada.project, "verb": "ask.escalated", "target": name}
        AuditEntry.objects.create(actor=f"token {name}", reason=f"{name} why", **entry)
    (tombstone,) = erase_person("edo")
    assert "rows that have only the name token laptop, which another token has, too" in tombstone.left
    mine.refresh_from_db()
    assert mine.name == "[erased]" and AuditEntry.objects.filter(actor="token laptop", reason="laptop why").exists()
    # a token of another project has the name of its own
    assert not AuditEntry.objects.filter(project=ada.project, reason__contains=GONE).exists()


def test_audit_keeps_no_word_of_a_personal_token(ada, store):
    eve = person(ada.project, "eve", "researcher")
    issued, _ = members.issue_token(eve, f"{GONE} pad", "launch", personal=True)
    record(bearer(issued), "verifier.repaired", "notes/1", f"version 2: {GONE} reason")
    assert AuditEntry.objects.filter(actor=f"{eve.name} (token {GONE} pad)").exists()
    (tombstone,) = erase_person("eve")
    # the entry that says who was given the token has its name, too
    assert tombstone.fell["people.AuditEntry: words"] == 2 and places_of(GONE, store) == set()
    assert AuditEntry.objects.get(verb="verifier.repaired").actor == f"{eve.name} (token [erased])"

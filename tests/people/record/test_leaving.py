"""What is left of a person who is removed, and who may be invited under a name that is taken."""

from __future__ import annotations

import pytest

from awmclient.schema import AskOpen, EpisodeStart
from episodes.record import recording
from experts.record import opening, queue
from people.errors import Invalid
from people.models import Membership
from people.record import members

pytestmark = pytest.mark.attack("tokens and doors")


def test_what_a_removed_person_holds_is_free_at_once(project, ada, edo):
    episode, _ = recording.start_episode(ada, EpisodeStart(key="k", task="t", expert="plain"))
    ask, _ = opening.open_ask(ada, AskOpen(key="q", episode=episode.pk, seq=1, question="?"))
    queue.claim(edo, ask.pk)
    members.remove_member(ada, Membership.objects.get(project=project, user=edo.person).pk)
    ask.assignment.refresh_from_db()
    assert (ask.assignment.state, ask.assignment.holder) == ("queued", "")
    assert [event.verb for event in ask.events.order_by("pk")] == ["opened", "to_people", "claimed", "released"]
    assert queue.claim(ada, ask.pk).lease_token


def test_leaving_goes_through_apps_from_above_to_below(project, ada, edo, monkeypatch):
    """An ask is locked before the notifications about it, here as everywhere."""
    called, known = [], members._on_leave
    monkeypatch.setattr(
        members, "_on_leave", [lambda who, one=one: called.append(one.__module__) or one(who) for one in known]
    )
    members.remove_member(ada, Membership.objects.get(project=project, user=edo.person).pk)
    assert called == ["experts.record.queue", "reviews.record.assigning", "notices.record.subscriptions"]


def test_invitation_does_not_change_a_members_role(project, ada, edo):
    with pytest.raises(Invalid, match="already a member, with role expert"):
        members.invite(ada, "Edo", "admin")
    assert Membership.objects.get(project=project, user=edo.person).role == "expert"
    again, secret = members.invite(ada, "Edo", "expert")
    assert again.user == edo.person and members.redeem_login_link(secret)[0] == edo.person


def test_a_wrong_or_missing_token_is_401_for_writes_too(client, project):
    for headers in ({"Authorization": "Bearer awm_wrong"}, {}):
        answer = client.post("/api/v1/runs", data={"name": "x"}, content_type="application/json", headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthenticated")

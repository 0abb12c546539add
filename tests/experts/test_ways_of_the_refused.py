"""Whom the sign-in provider refuses: every way in is listed, ends, and comes back with the next sign-in."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from awmclient.schema import StandingAnswerBody
from experts.find import answer_links
from experts.models import Ask
from experts.notifications import KIND, AskSubject
from experts.record import standing_answers
from experts.who import advisers, authority
from notices.models import Channel, Delivery, Subscription
from notices.record import deliveries, slack
from people.errors import Invalid
from people.models import AuditEntry, Membership
from people.record import following, members
from people.revalidation import ended, right_of
from reviews.record import mentions
from tests.browsing import as_person, html
from tests.people_by_name import person

pytestmark = pytest.mark.attack("tokens and doors")


SLACK_MESSAGE = {"channel": "D1", "ts": "1.1"}


@dataclass
class Inside:
    """Edo with everything by which he can come in or be reached, as it was before the provider refused him."""

    ada: Any
    edo: Any
    ask: Ask
    browser: Client
    secret: str
    answer_token: str
    standing: Any
    channels: dict[str, Subscription]

    @property
    def now(self):
        return timezone.now()

    def told(self, channel):
        """Whether a notification of a new ask reaches this channel."""
        way = self.channels[channel]
        way.deliveries.filter(state="waiting").delete()
        deliveries.queue_for(AskSubject(self.ask))
        return way.deliveries.filter(state="waiting").exists()

    def sent(self, channel):
        """Whether a notification that was queued before is sent."""
        way = self.channels[channel]
        way.deliveries.all().delete()
        row = Delivery.objects.create(subscription=way, kind="test", due_at=self.now - timedelta(seconds=1))
        while (step := deliveries.take(self.now))[0]:
            if step[1] is not None and step[1].delivery_id == row.pk:
                return True
        return False

    def pressed(self):
        way = self.channels[Channel.SLACK]
        way.deliveries.all().delete()
        told = {"kind": KIND, "subject_id": self.ask.pk, "state": "sent", "ended_at": self.now}
        row = Delivery.objects.create(subscription=way, receipt=SLACK_MESSAGE, **told)
        return slack.pressed_by(KIND, row.pk, way.target), slack.replied_to(KIND, "D1", "1.1", way.target)


WAYS = {
    "page": lambda one: one.browser.get("/projects/lab/queue/").status_code == 200,
    "API by session": lambda one: one.browser.get("/api/v1/asks").status_code == 200,
    "socket": lambda one: not ended([right_of(one.edo, one.browser.session.session_key)]),
    "personal token": lambda one: members.token_of(one.secret) is not None,
    "answer link from before": lambda one: answer_links.link_of(one.answer_token, one.now) is not None,
    "new answer link": lambda one: bool(answer_links.answer_path(one.ask, one.edo.key)),
    "press in Slack": lambda one: one.pressed()[0] is not None,
    "reply in Slack": lambda one: one.pressed()[1] is not None,
    "standing answer": lambda one: authority.author_of(one.standing, one.now) is not None,
    "mention": lambda one: "edo" in {name["name"] for name in mentions.names(one.ada)},
    "routing": lambda one: one.edo.key in {who.key for who in advisers.members_of(one.ask.project, one.now)},
} | {
    f"{what} by {channel}": (lambda one, how=how, channel=channel: getattr(one, how)(channel))
    for channel in Channel.values
    for what, how in (("new notification", "told"), ("queued notification", "sent"))
}
"""Everything by which a person comes in, or is reached with a link or a question."""
UNTIL_NEW = {"page", "API by session", "socket", "personal token", "answer link from before"}
"""They do not come back: a new session, token or link takes their place."""


@pytest.fixture(params=["by hand", "last admin"])
def inside(request, project, ada, asked):
    edo = person(project, "edo", "expert")
    if request.param == "last admin":
        Membership.objects.filter(user=ada.person).delete()
        edo = person(project, "edo", "admin")
        following.follow(edo.person, {"lab": "admin"})
    ask = asked()
    about = {"tool": "look", "until": timezone.now() + timedelta(days=1), "at_most": 5}
    standing, _ = standing_answers.give(edo, StandingAnswerBody(arguments={"to": "x"}, **about))
    _, secret = members.issue_token(edo, "mine", "expert", personal=True)
    rows = {
        kind: Subscription.objects.create(project=project, user=edo.person, kind=kind, target=f"of {kind}", every_s=0)
        for kind in Channel.values
    }
    path = answer_links.answer_path(ask, edo.key).rpartition("/")[2]
    return Inside(ada, edo, ask, as_person(edo), secret, path, standing, rows)


def open_ways(one):
    return {name for name, is_open in WAYS.items() if is_open(one)}


def test_refused_person_has_no_way_in_until_the_next_sign_in(inside):
    assert open_ways(inside) == set(WAYS)
    link = members.issue_login_link(list(inside.edo.person.memberships.all()))
    following.suspend(inside.edo.person)
    assert inside.edo.person.memberships.count() == 1 and open_ways(inside) == set()
    assert Client().get(f"/login/once/{link}").status_code == 410
    new = members.issue_login_link(list(inside.edo.person.memberships.all()))
    assert open_ways(inside) == set(), "a link that no one has opened lets no one in"
    assert Client().get(f"/login/once/{new}").status_code == 302
    assert open_ways(inside) == set(WAYS) - UNTIL_NEW
    assert AuditEntry.objects.filter(verb="signed in", target="edo", reason="by a link").count() == 1


def test_suspended_member_is_marked_on_members(ada, edo):
    token, _ = members.issue_token(edo, "mine", "expert", personal=True)
    following.suspend(edo.person)
    assert ">suspended<" in html(as_person(ada).get("/projects/lab/members/"))
    token.refresh_from_db()
    assert token.revoked_at is not None


def test_only_admin_who_acts_cannot_be_removed(project, ada):
    bea = person(project, "bea", "admin")
    following.suspend(bea.person)
    with pytest.raises(Invalid, match="last admin"):
        members.remove_member(bea, Membership.objects.get(user=ada.person).pk)

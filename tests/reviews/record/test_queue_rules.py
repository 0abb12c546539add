"""A queue fills itself by a rule: a share by ID, each episode once, as far as its author may see."""

from __future__ import annotations

import pytest
from django.db import OperationalError
from django.urls import reverse

from episodes.models import Episode
from people.errors import Forbidden, Invalid
from people.models import AuditEntry, Membership
from reviews.models import QueueRule
from reviews.record import assigning, rules
from tests.browsing import as_person, html
from tests.reviews.conftest import ended

pytestmark = pytest.mark.django_db


def test_rule_adds_what_matches_once_and_names_itself(ada, queue):
    for number in range(3):
        ended(ada, f"r{number}", task_idx=number)
    rule = rules.set_rule(ada, queue.pk, {"task_idx": ["1", "2"]}, 1.0, annotators=3)
    assert [rules.fill_by_rules() for _ in range(2)] == [2, 0]
    assert {one.rule for one in queue.reviews.all()} == {rule} and queue.slots.count() == 6
    ended(ada, "later", task_idx=2)
    assert rules.fill_by_rules() == 1
    line = AuditEntry.objects.filter(verb="queue.filled").last()
    assert (line.actor, line.reason) == ("awmweb", "First look: 1 episodes, rule 1")


def test_share_is_drawn_by_id_and_a_larger_has_the_smaller(ada, queue):
    made = {ended(ada, f"s{number}", task_idx=number).pk for number in range(40)}
    drawn = []
    for share in (0.2, 0.2, 0.6, 1.0):
        rule = rules.set_rule(ada, queue.pk, {}, share)
        drawn.append(set(rules.drawn(Episode.objects.all(), rule).values_list("pk", flat=True)))
    assert drawn[0] == drawn[1] <= drawn[2] <= drawn[3] == made and len(drawn[0]) < 24 < 40
    assert 5 < len(drawn[2]) < 40
    assert list(queue.rules.filter(ended_at=None).values_list("number", flat=True)) == [4]


def test_rule_of_pairs_adds_pairs(ada):
    queue = assigning.create_queue(ada, "Pairs", kind="pairwise")
    rules.set_rule(ada, queue.pk, {}, 1.0)
    ended(ada, "p1")
    assert rules.fill_by_rules() == 0
    ended(ada, "p2", row=8)
    assert [rules.fill_by_rules() for _ in range(2)] == [1, 0] and queue.reviews.get().rule.number == 1


def test_rule_stops_with_its_author_and_says_why(ada, queue):
    ended(ada, "one")
    rules.set_rule(ada, queue.pk, {}, 1.0)
    Membership.objects.filter(user=ada.person).update(role="viewer")
    assert rules.fill_by_rules() == 0 and "can't fill queues any more" in QueueRule.objects.get().problem
    Membership.objects.filter(user=ada.person).update(role="admin")
    assert rules.fill_by_rules() == 1 and QueueRule.objects.get().problem == ""


@pytest.mark.parametrize(("share", "more"), [(0, {}), (1.1, {}), (0.5, {"annotators": 21})])
def test_rule_out_of_bounds_is_refused(ada, rita, queue, share, more):
    with pytest.raises(Invalid):
        rules.set_rule(ada, queue.pk, {}, share, **more)
    with pytest.raises(Invalid, match="Unknown filter: nothing"):
        rules.set_rule(ada, queue.pk, {"nothing": ["1"]}, 0.5)
    with pytest.raises(Forbidden):
        rules.set_rule(rita, queue.pk, {}, 0.5)


def test_blind_reviewers_do_not_read_the_filter_of_a_rule(ada, rita, queue):
    rules.set_rule(ada, queue.pk, {"outcome": ["others"]}, 0.5, view="Failed ones")
    shown = {who: html(as_person(who).get(reverse("review_queue", args=[queue.pk]))) for who in (ada, rita)}
    assert "Failed ones" in shown[ada] and "Failed ones" not in shown[rita] and "match its filter" in shown[rita]


def test_rule_that_the_database_refuses_stops_no_other(ada, queue, monkeypatch):
    ended(ada, "one")
    other = assigning.create_queue(ada, "Second")
    for one in (queue, other):
        rules.set_rule(ada, one.pk, {}, 1)
    add = assigning.add

    def refused(actor, into, rows, drawn):
        if into == queue:
            raise OperationalError("deadlock detected")
        return add(actor, into, rows, drawn)

    monkeypatch.setattr(assigning, "add", refused)
    assert rules.fill_by_rules() == 1 and other.reviews.count() == 1
    assert QueueRule.objects.get(queue=queue).problem == "The database refused it: OperationalError."


def test_rule_is_set_and_ended_on_the_page(ada, rita, queue):
    ended(ada, "one")
    page, address = as_person(ada), reverse("review_queue_rule", args=[queue.pk])
    assert page.post(address, {"percent": "x"}).status_code == 422
    page.post(address, {"percent": "100", "annotators": "1"})
    assert rules.fill_by_rules() == 1
    shown = html(as_person(rita).get(reverse("review_queue", args=[queue.pk])))
    assert "100% of the finished episodes" in shown and "Added 1 so far." in shown and "Set rule" not in shown
    page.post(address, {"end": "1"})
    ended(ada, "two")
    assert rules.fill_by_rules() == 0 and queue.reviews.count() == 1

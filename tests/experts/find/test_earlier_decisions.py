"""Earlier decisions on the tools of an approval: which are shown to whom, with which outcome."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from experts.find.earlier_decisions import earlier_decisions
from experts.models import Ask
from experts.record import batch
from tests.browsing import as_person
from tests.experts.test_standing_answers import REPLY, approval, give


def found(actor, ask):
    shown, total = earlier_decisions(actor, ask, timezone.now())
    return [(one.lines[0].word, one.lines[0].name) for one in shown], total


def test_decisions_on_the_same_tools_of_30_days_are_shown(edo, asked):
    old, same, other = (asked(**approval(REPLY, name=name)) for name in ("send_reply", "send_reply", "close"))
    batch.decide(edo, [old.pk], "approve", "", "1")
    batch.decide(edo, [same.pk], "reject", "Use the template.", "2")
    batch.decide(edo, [other.pk], "approve", "", "3")
    Ask.objects.filter(pk=old.pk).update(closed_at=timezone.now() - timedelta(days=31))
    give(edo, tool="other_tool")
    ask = asked(**approval(REPLY))
    assert found(edo, ask) == ([("Rejected", "send_reply")], 1)
    page = as_person(edo).get(f"/asks/{ask.pk}/similar", HTTP_HX_REQUEST="true").content.decode()
    assert "Use the template." in page and "1 decision on these tools" in page


def test_decisions_with_verifier_access_stay_from_blind_asks(edo, asked):
    seen = asked(expert="informed", **approval(REPLY))
    batch.decide(edo, [seen.pk], "reject", "The verifier wants another order.", "1")
    assert found(edo, asked(**approval(REPLY))) == ([], 0)
    assert found(edo, asked(expert="informed", **approval(REPLY))) == ([("Rejected", "send_reply")], 1)


def test_decisions_of_standing_answers_are_not_precedents(edo, asked):
    give(edo)
    assert not asked(**approval(REPLY)).is_open
    assert found(edo, asked(expert="informed", **approval(REPLY))) == ([], 0)

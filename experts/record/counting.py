"""Writes: the decisions of people on an approval that needs several of them.

Owns which decisions count. Leaves the ask to `closing.py`, which calls this under the locks of episode and ask.
"""

from __future__ import annotations

from django.db.models import QuerySet, Value
from django.db.models.functions import Concat, Left
from django.utils import timezone

from experts.find.answer_links import BY_LINK
from experts.models import Advice, Ask, QuorumDecision
from experts.rules.quorum import digest_of_decision, verdict_of
from experts.who import advisers


def count(ask: Ask, advice: Advice) -> bool:
    """Count a decision, once. Return whether its ask is decided.

    1. An ask that needs one person is. 2. A rejection ends it. 3. Other arguments than before start the count again,
    and who decided on those can decide on these. 4. Otherwise it takes as many people as the ask needs, who can all
    still answer it.
    """
    if ask.quorum_of < 2:
        return True
    verdict, digest = verdict_of(advice.decision), digest_of_decision(advice.decision)
    counted = QuorumDecision.objects.filter(ask=ask, counts=True)
    if verdict != "reject":
        _reset(counted.exclude(calls_digest=digest), advice)
    # of a person who has left, or lost the role, also one that was held until now
    able = advisers.may_count(ask, timezone.now())
    _reset(counted.exclude(author_key__in=able), advice)
    QuorumDecision.objects.create(
        ask=ask,
        advice=advice,
        author=advice.author,
        author_key=advice.author_key,
        verdict=verdict,
        calls_digest=digest,
        counts=advice.author_key in able,
    )
    return verdict == "reject" or counted.count() >= ask.quorum_of


def uncount(advice: Advice) -> None:
    """Let a decision that its author withdrew count no longer."""
    QuorumDecision.objects.filter(advice=advice).update(counts=False)


def _reset(rows: QuerySet[QuorumDecision], by: Advice) -> None:
    """Let these decisions count no longer, because of another one; their authors can send the same press again."""
    free_nonces(Advice.objects.filter(pk__in=list(rows.values_list("advice", flat=True))), by)
    rows.update(counts=False)


def free_nonces(rows: QuerySet[Advice], by: Advice) -> None:
    """Let what is sent next under the same nonce be another answer: `by` is the one that ended these."""
    # an answer link is used up; what went together is still found by how its nonces begin
    sent = rows.exclude(nonce="").exclude(nonce__startswith=BY_LINK)
    sent.update(nonce=Concat(Left("nonce", 170), Value(f"~{by.pk}")))

"""Writes: the verifier court: doubted tasks, and rulings on them.

A ruling is shown beside outcomes and changes none. The newest of a task counts; every count, export and selection of
tasks reads `at_fault`.
"""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from episodes.models import Episode
from episodes.stored.splits import task_key
from people.access import Actor, may_set_reviews, visible_or_404
from people.errors import Invalid
from people.record.audit import record
from reviews.models import CourtCase, Ruling, Word
from reviews.record import annotating
from reviews.visible.rulings import refuse_while_blind

REASON_MAX = 20_000


def doubt(episode: Episode) -> CourtCase:
    """Open a case for the episode's task, again if there is a ruling. The caller must be in a transaction."""
    now = timezone.now()
    key = task_key(episode.scenario, episode.task_idx, episode.task)
    place = {"scenario": episode.scenario, "task_idx": episode.task_idx, "doubted_at": now}
    case, made = CourtCase.objects.get_or_create(project_id=episode.project_id, task_key=key, defaults=place)
    if not made:
        # the time of the newest doubt: later than the last ruling, it opens the case again
        CourtCase.objects.filter(pk=case.pk).update(doubted_at=now)
    return case


@transaction.atomic
def rule(actor: Actor, case_id: str, word: str, reason: str) -> Ruling:
    """Record what is wrong with a verifier or a task, or that nothing is. A later ruling supersedes this one."""
    may_set_reviews(actor)
    if word not in Word.values:
        raise Invalid(f"Unknown ruling. Use one of {', '.join(Word.values)}.")
    if not reason.strip() or len(reason) > REASON_MAX:
        raise Invalid("A ruling needs a reason of at most 20,000 characters.")
    # two rulings at the same moment follow one another, and the newest counts
    case = visible_or_404(CourtCase.objects.select_for_update(), actor, case_id)
    refuse_while_blind(actor, case)
    # the columns of the author only; an empty episode has no informed expert, so the privilege is set below
    by = annotating.author(actor, Episode())
    ruling = Ruling.objects.create(case=case, word=word, reason=reason, **{**by, "privilege": "sees_verifier"})
    CourtCase.objects.filter(pk=case.pk).update(ruled_at=ruling.created_at)
    # without the word, which would say to someone who judges it blind what others found
    record(actor, "case.ruled", case.task_key)
    return ruling

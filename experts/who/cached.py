"""Reads: the earlier answer that an ask gets in place of a new one.

Owns which answers are reused: of the same words and pictures, for the same task, by whom the project's policy says.
"""

from __future__ import annotations

from django.db.models import F, Q

from awmclient.schema import ASKS_BACK
from episodes.models import Episode, StepKind
from episodes.visible import visibility
from experts.models import ERASED, SIMULATED, Advice, Ask, Privilege
from experts.who.arriving import is_indexed


def known_answer(ask: Ask, cache: str) -> Advice | None:
    """Return the newest advice for the same question of the same task, if the policy allows cached answers."""
    sources = {"models": ["llm"], "all": ["llm", "human"]}.get(cache)
    if sources is None:
        return None
    rows = Advice.objects.filter(_same_task(ask.episode, "ask__episode"), ask__project=ask.project, source__in=sources)
    # of an arm that is measured, and perhaps no answer at all
    rows = rows.exclude(author_key=SIMULATED)
    # exactly the same words and pictures: no person looks at a reused answer before the agent gets it
    same = rows.filter(ask__question=ask.question, ask__context=ask.context, privilege=ask.privilege, late=False)
    same = same.filter(ask__pictures_digest=ask.pictures_digest)
    if ask.privilege == Privilege.BLIND:  # a briefing may have contained outcomes that its asker passed on
        same = same.exclude(visibility.was_informed("ask__episode", [StepKind.BRIEFING]))
    # only an answer that its own agent got, and no question to that agent
    got = same.filter(ask__accepted=F("pk")).exclude(reason__in=(ASKS_BACK, ERASED))
    return got.order_by("-created_at").first()


def _same_task(episode: Episode, path: str) -> Q:
    if is_indexed(episode):
        return Q(**{f"{path}__scenario": episode.scenario, f"{path}__task_idx": episode.task_idx})
    return Q(**{f"{path}__task": episode.task})

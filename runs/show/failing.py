"""Reads: agent models, environment servers and the judge of verifiers that do not answer, for those who run the
installation.

Of episodes that awmweb's own workers run alone: what an external loop cannot reach is its own. Registered with
`people.operating`.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from django.db.models import Count, Max, Q, TextField
from django.db.models.functions import Cast

from episodes.models import RUN_HERE, Episode, EpisodeEvent, EpisodeState
from episodes.stored import outcomes
from episodes.stored.settled import NO_SERVER
from people.access import Actor, scoped
from people.operating import RECENT, Need
from people.text.in_words import count
from runs.models import ModelOutage
from runs.plan import choosing

LOOKED = 500
"""The newest episodes, and outcomes, that are read."""
SILENT_AGE_S = 15.0
"""How old an answer of an environment server may be: *Home* is opened often."""


def models(actor: Actor, now: datetime) -> Iterator[Need]:
    """Yield each agent model at which the episode that ended last failed, with the number since one did not, and each
    that takes no request now."""
    rows = scoped(Episode.objects.filter(origin__in=RUN_HERE, created_at__gt=now - RECENT), actor.project)
    ended = rows.filter(policy_kind="model", ended_at__gt=now - RECENT).order_by("-created_at")
    columns = ("policy_name", "fault", "fault_detail", "ended_at")
    by_model: dict[str, list[tuple[str, str, datetime]]] = {}
    for name, fault, detail, at in ended.exclude(state=EpisodeState.CANCELLED).values_list(*columns)[:LOOKED]:
        by_model.setdefault(name, []).append((fault, detail, at))
    for name, failures in by_model.items():
        newest = sorted(failures, key=lambda failure: failure[2], reverse=True)
        failed = next((place for place, one in enumerate(newest) if one[0] != "model"), len(newest))
        if failed:
            what = f"Agent model {name}" if name else "Agent model"
            yield Need(what, f"{count(failed, 'episode')} failed: {newest[0][1]}", newest[0][2], "models")
    for outage in ModelOutage.objects.order_by("name"):
        why = f"It does not respond, and no episode is started for it: {outage.reason}"
        yield Need(f"Agent model {outage.name}", why, outage.since, "models")


def servers(actor: Actor, _now: datetime) -> Iterator[Need]:
    """Yield built-in environment servers that do not respond, and what queued episodes wait for."""
    for address in choosing.silent(SILENT_AGE_S):
        yield Need(f"Environment server {address}", "It does not respond. Episodes stay queued.", page="environment")
    queued = scoped(Episode.objects.filter(state=EpisodeState.QUEUED), actor.project)
    waiting = EpisodeEvent.objects.filter(verb=NO_SERVER, episode__in=queued).order_by().values("episode__environment")
    reasons = waiting.annotate(episodes=Count("episode", distinct=True), newest=Max("pk"))
    for row in reasons.order_by("episode__environment"):
        last = EpisodeEvent.objects.get(pk=row["newest"])
        why = f"{count(row['episodes'], 'episode')} queued: {last.reason}"
        yield Need(f"Environment {row['episode__environment']}", why, last.at, "environment")


def judge(actor: Actor, now: datetime) -> Iterator[Need]:
    """Yield the judge of verifiers if the newest outcome that needed it has none."""
    newest = outcomes.of_project(actor.project).filter(at__gt=now - RECENT).order_by("-at")[:LOOKED]
    rows = outcomes.named(list(newest.values_list("pk", flat=True))).annotate(said=Cast("details", TextField()))
    judged = rows.filter(Q(reward_type="judge_error") | Q(said__contains='"mode": "sql"'))
    last = judged.defer("state_diff").order_by("-at").first()
    if last is not None and last.reward_type == "judge_error":
        why = last.details.get("error") if isinstance(last.details, dict) else None
        yield Need("Judge of verifiers", str(why or "It gave no result."), last.at, "models")

"""Writes: erase an episode with everything that hangs on it, its branches and its datasets.

Rows go by their references, so that a table that is new goes along. Here is only what names an episode without a
reference. A tombstone stays: what fell from where, without a word of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Set
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from awmenv import kept
from awmweb.demo.rows import erase
from awmweb.erasing import datasets
from awmweb.erasing.written import WORD
from episodes.find.held import held_among
from episodes.models import Episode, OutcomeHold
from episodes.record import pictures
from experts.models import Advice, Ask, ModelCall, StandingAnswer
from experts.record.standing_answers import has_its_values
from imports.models import Trace
from notices.models import Delivery, SlackPost
from people.access import Actor, may_manage_people, scoped, visible_or_404
from people.errors import Invalid, OnHold
from people.models import AuditEntry, Tombstone, digest_of
from people.record import holding
from people.record.audit import record
from people.record.keyed_writes import erase_answers
from people.text.in_words import count
from runs.models import Briefing, PlannedTry

ERASED = "erased"
NOTIFIED = ("experts.Ask", "reviews.Annotation")
"""Rows that notifications are about."""


@transaction.atomic
def erase_episode(actor: Actor, episode_id: str) -> Tombstone:
    """1. lock it, 2. refuse a live one, 3. delete rows, 4. what names them, 5. datasets, 6. the tombstone."""
    may_manage_people(actor)
    visible_or_404(Episode.every.all(), actor, episode_id)
    holding.guard(actor.project)
    family = _locked(episode_id)
    episode = visible_or_404(Episode.every.all(), actor, episode_id)  # again: another erased it while this one waited
    if Episode.every.live().filter(pk__in=family).exists():
        raise Invalid("The episode or a branch of it is still running. Cancel it first.")
    if (hold := held_among(actor.project, [episode.pk]).get(episode.pk)) is not None:
        raise OnHold(holding.words_of(hold))
    read_by = _readers_of(actor, family)
    counts = erase_rows(actor, family)
    lost = datasets.drop(actor, *datasets.affected(actor.project, family))
    record(actor, "episode.erased", episode.pk)
    return Tombstone.objects.create(
        project=actor.project,
        kind=Tombstone.Kind.EPISODE,
        subject=episode.pk,
        key_digest=digest_of(episode.key),
        by=actor.name,
        fell=dict(sorted((+counts).items())),
        datasets=lost,
        left=[*read_by, *left_of(lost)],
    )


def _readers_of(actor: Actor, family: Set[str]) -> list[str]:
    """Return other episodes that got words of these: by an answer from the cache, or by a briefing."""
    others = Episode.every.filter(project=actor.project).exclude(pk__in=family)
    cached = Advice.objects.filter(taken_from__ask__episode__in=family).values("ask__episode")
    rows = scoped(Briefing.objects.exclude(sources=[]), actor.project).values_list("pk", "sources")
    distilled = [pk for pk, sources in rows if family & set(sources)]
    briefed = PlannedTry.objects.filter(briefing__in=distilled).values("episode")
    readers = sorted(others.filter(Q(pk__in=cached) | Q(pk__in=briefed)).values_list("pk", flat=True))
    return (
        [f"{count(len(readers), 'episode')} that got an answer or a briefing of it: {some_of(readers)}"]
        if readers
        else []
    )


def some_of(ids: Collection[str]) -> str:
    return ", ".join(sorted(ids)[:20]) + (", …" if len(ids) > 20 else "")


def erase_rows(actor: Actor, family: Set[str]) -> Counter[str]:
    """Delete the rows of episodes and take out what names them, in the caller's transaction; return what fell."""
    ahead = _approved_ahead(actor, family)
    databases = forget_worlds(family)
    faults = ModelCall.objects.filter(ask__episode__in=family).exclude(fault="").update(fault="")
    shown = pictures.pictures_used(family)
    deleted = erase(Episode, family)
    erase_answers(actor.project)
    counts = Counter({label: len(keys) for label, keys in deleted.items() if keys})
    counts["episodes.Picture"] = pictures.drop_unused(shown)
    counts["experts.ModelCall: words of faults"] = faults
    counts["databases of interrupted worlds"] = databases
    counts["experts.StandingAnswer: words"] = end_standing(StandingAnswer.objects.filter(pk__in=ahead))
    return +(counts + _named_elsewhere(actor, family, {**deleted, "experts.StandingAnswer": ahead}))


def forget_worlds(family: Collection[str]) -> int:
    """Delete the databases that this machine's environment server keeps of the worlds of episodes. Before the rows:
    one that is missing only costs a restore."""
    worlds = Episode.every.filter(pk__in=family).exclude(world={}).values_list("scenario", "world")
    starts = [(scenario, world) for scenario, world in worlds if scenario and "base" in world]
    return sum(kept.forget(settings.AWMENV_CACHE_DIR, scenario, world) for scenario, world in starts)


def end_standing(rows: QuerySet[StandingAnswer]) -> int:
    """Take the words out of standing answers, which end first: one without arguments covers every call. Return the
    number of those that had some."""
    rows.filter(ended_at=None).update(ended_at=timezone.now(), ended_by=ERASED)
    return rows.exclude(arguments={}, any_value=None, tool=WORD).update(arguments={}, any_value=None, tool=WORD)


def _approved_ahead(actor: Actor, family: Set[str]) -> set[str]:
    """Return the standing answers that have arguments of calls of these episodes, which they were made of."""
    asks = Ask.objects.filter(episode__in=family, kind="approval").exclude(typed=None)
    calls = [call for typed in asks.values_list("typed", flat=True) for call in (typed or {}).get("calls", ())]
    tools = {call["name"] for call in calls}
    rows = scoped(StandingAnswer.objects.filter(tool__in=tools), actor.project).exclude(arguments={}, any_value=None)
    return {row.pk for row in rows if any(has_its_values(row, call) for call in calls)}


def family_of(episodes: Set[str]) -> set[str]:
    """Return episodes and their branches, which hold copies of their steps, and the branches of these."""
    family, fresh = set(episodes), set(episodes)
    while fresh:
        fresh = set(Episode.every.filter(fork__parent__in=fresh).values_list("pk", flat=True)) - family
        family |= fresh
    return family


def _locked(episode_id: str) -> set[str]:
    """Lock an episode, its branches and their traces, so that nothing is added to them; return them."""
    locked: set[str] = set()
    while (family := family_of({episode_id})) != locked:  # one can be forked before its lock is held
        # a trace before its episode, as where late spans become steps
        list(Trace.objects.filter(episode__in=family).order_by("pk").select_for_update())
        list(Episode.every.filter(pk__in=family).order_by("pk").select_for_update())
        locked = family
    return locked


def _named_elsewhere(actor: Actor, family: Set[str], deleted: Mapping[str, Set[Any]]) -> Counter[str]:
    """Take out what names erased rows without a reference to them."""
    counts: Counter[str] = Counter()
    # an erased pair withholds nothing of its other episode any more
    counts["episodes.OutcomeHold"] = OutcomeHold.objects.filter(by__in=deleted.get("reviews.Review", ())).delete()[0]
    notified = [str(key) for label in NOTIFIED for key in deleted.get(label, ())]
    mine = Delivery.objects.filter(subscription__project=actor.project, subject_id__in=notified)
    counts["notices.Delivery"] = mine.count()
    mine._raw_delete("default")
    posts = SlackPost.objects.filter(channel__project=actor.project, subject_id__in=notified)
    counts["notices.SlackPost"] = posts.count()
    posts._raw_delete("default")
    names = {str(key) for keys in deleted.values() for key in keys if isinstance(key, str)}
    audit = scoped(AuditEntry.objects.filter(target__in=names), actor.project).exclude(reason="")
    counts["people.AuditEntry: reasons"] = audit.update(reason="")
    for briefing in scoped(Briefing.objects.all(), actor.project).exclude(sources=[]):
        if family & set(briefing.sources):
            sources = [one for one in briefing.sources if one not in family]
            Briefing.objects.filter(pk=briefing.pk).update(text="", reason=ERASED, sources=sources)
            counts["runs.Briefing: texts"] += 1
    return counts


def left_of(lost: list[dict[str, Any]]) -> list[str]:
    """Return what is out of reach, for the person who erases."""
    pushed = sorted({address for one in lost for address in one.get("pushed_to", ())})
    return [
        *(f"{address}: pushed to the Hub; delete it there" for address in pushed),
        "downloads, reports and backups from before: delete them where they are",
    ]

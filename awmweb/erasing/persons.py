"""Writes: erase what a person wrote, in every project, on pages and by personal tokens. Their name stays with what they
did; the names of their tokens are theirs, too, and go (`signatures.py`).

Answers stay as rows, because asks, steps and statistics refer to them; their words go. Steps that show them change,
their episodes are read again for the search, and datasets with rows of these episodes fall.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from awmweb.demo.rows import erase
from awmweb.erasing import datasets, episodes, signatures
from awmweb.erasing.episodes import some_of
from awmweb.erasing.names import NAMELESS, AccountNames, names_of, signatures_of
from awmweb.erasing.written import DELETED, EMPTIED, NAMED, SET_UP, WORD
from episodes.models import (
    RUN_HERE,
    Episode,
    EpisodeFacts,
    EpisodeWords,
    Fork,
    SavedView,
    Step,
    StepKind,
    StepWords,
    VerifierVersion,
    WheelOrder,
)
from episodes.stored.entries import entry_of
from experts.models import ERASED, Advice, Ask, StandingAnswer
from notices.models import Delivery, Subscription
from people.access import Actor, keys_of, may_manage_people, system
from people.errors import NotFound
from people.models import AuditEntry, Hold, Membership, Project, Tombstone
from people.record import holding
from people.record.audit import record
from people.record.keyed_writes import erase_answers
from people.text.in_words import count
from reviews.models import COMMENT, Annotation, Correction, SchemaKind
from runs.models import Campaign, PersonTurn

OPTION = re.compile(r"[\w.+-]{1,40}", re.ASCII)
"""A value of a label that is no text: a number, or one word."""
FRESH: dict[str, Any] = {"read_seq": 0, "joined_seq": 0, "done": False, "errors": 0, "asks": 0} | {
    **dict.fromkeys(("stopped", "unread", "in_text"), 0),
    **{name: [] for name in ("tools", "answered", "waiting")},
}


def erase_person(username: str) -> list[Tombstone]:
    """Erase what an account wrote, project by project; return the tombstones of those where it wrote something."""
    user = User.objects.filter(username=username).first()
    if user is None:
        raise NotFound(f"Account {username!r} not found.")
    held = Hold.objects.filter(project=OuterRef("pk"), released_at=None)
    # those with a hold first: one in which the account wrote refuses before anything is erased
    projects = Project.objects.annotate(held=Exists(held)).order_by("-held", "slug")
    keys, names = keys_of(user), names_of(user)  # before rows with earlier ones go
    tombstones = [_erase_in(system(project), user, keys, names.within(project, user)) for project in projects]
    return [one for one in tombstones if one is not None]


@transaction.atomic
def _erase_in(actor: Actor, user: User, keys: Sequence[str], names: AccountNames) -> Tombstone | None:
    """1. answers and their steps, 2. other rows, 3. rows by name, 4. search, 5. datasets, 6. the tombstone."""
    may_manage_people(actor)
    holding.guard(actor.project)
    project = actor.project
    counts: Counter[str] = Counter()
    touched, proved = _answers(project, keys, names.tokens, counts), set[str]()
    for model, field, path in DELETED:
        rows = model._default_manager.filter(**{f"{field}__in": keys, path: project})
        if model is Correction:
            proved = _forked(project, rows, counts)
            touched |= set(rows.values_list("episode_id", flat=True)) | proved
        if model is SavedView:
            _copies_of_views(project, list(rows.values("pk", "name", "query")), counts)
        for label, pks in erase(model, list(rows.values_list("pk", flat=True))).items():
            counts[label] += len(pks)
    ahead = StandingAnswer.objects.filter(project=project, author_key__in=keys)
    counts["experts.StandingAnswer: words"] += episodes.end_standing(ahead)
    for model, field, path, empty in EMPTIED:
        _empty(model._default_manager.filter(**{f"{field}__in": keys, path: project}), empty, counts)
    _channels(project, user, counts)
    _quoted_in_audit(project, names.own, counts)
    for model, field, path, empty in NAMED:
        own_names = [*names.own, *signatures_of(project, user, names)] if model is AuditEntry else names.own
        _empty(model._default_manager.filter(**{f"{field}__in": own_names, path: project}), empty, counts)
    for name in names.own:
        touched |= _briefings(project, name, names.tokens, counts)
    acted = _acted(project, keys, names)
    stays = _named(acted) + _set_up(project, names)
    signatures.erase(project, user, names, counts)
    erase_answers(project)
    if +counts or stays or Membership.objects.filter(project=project, user=user).exists():
        _hints(project, counts)
    if not +counts and not stays:
        return None
    holding.refuse_any_hold(project)
    _read_again(touched)
    lost = datasets.drop(actor, *datasets.affected(project, touched))
    record(actor, "person.erased", user.username)
    readers = f"{count(len(touched), 'episode')} whose agents read it and may quote it: {some_of(touched)}"
    left = [readers] if touched else []
    left += stays
    if proved:
        left.append(
            f"{len(proved):,} branches that began with their corrections, erase them with --episode: {some_of(proved)}"
        )
    left += [
        f"rows that have only the name {name}, which another {'token' if name in names.tokens else 'account'} has, too"
        for name in names.shared
    ]
    return Tombstone.objects.create(
        project=project,
        kind=Tombstone.Kind.PERSON,
        subject=user.username[:160],
        by=actor.name,
        fell=dict(sorted((+counts).items())),
        datasets=lost,
        left=left + episodes.left_of(lost),
        about={"episodes": sorted(touched.union(proved, *acted.values()))},
    )


def named_episodes(username: str) -> list[tuple[Project, str]]:
    """Return the episodes that the tombstones of an account name, in which its words can still be."""
    stones = Tombstone.objects.filter(kind=Tombstone.Kind.PERSON, subject=username[:160]).select_related("project")
    by_episode = {pk: stone.project for stone in stones for pk in stone.about.get("episodes", ())}
    left = Episode.every.filter(pk__in=by_episode).order_by("pk").values_list("pk", flat=True)
    return [(by_episode[pk], pk) for pk in left]


def _copies_of_views(project: Project, views: Sequence[Mapping[str, Any]], counts: Counter[str]) -> None:
    """Take the filters of saved views out of holds and campaigns that were made of them."""
    holds = Hold.objects.filter(project=project, subject__in=[one["pk"] for one in views]).exclude(query="")
    counts["people.Hold: copies of views"] += holds.update(name=WORD, query="")
    names, queries = ({one[field] for one in views} for field in ("name", "query"))
    campaigns = Campaign.objects.filter(project=project, view__in=names - {""}, query__in=queries)
    counts["runs.Campaign: copies of views"] += campaigns.update(view="", query="")


def _quoted_in_audit(project: Project, names: Sequence[str], counts: Counter[str]) -> None:
    """Take out what the audit trail quotes of a person where another released their hold."""
    holds = Hold.objects.filter(project=project, placed_by__in=names).values_list("reason", flat=True)
    entries = AuditEntry.objects.filter(project=project, verb="hold.released", reason__in=holds)
    counts["people.AuditEntry: words"] += entries.update(reason="")


def _channels(project: Project, user: User, counts: Counter[str]) -> None:
    """Take out how they named their channels, and what a receiver replied to their notifications."""
    channels = Subscription.objects.filter(project=project, user=user)
    counts["notices.Subscription: names"] += channels.exclude(name__in=("", WORD)).update(name=WORD)
    counts["notices.Subscription: words"] += channels.exclude(broken__in=("", WORD)).update(broken=WORD)
    replies = Delivery.objects.filter(subscription__in=channels).exclude(words="")
    counts["notices.Delivery: words"] += replies.update(words="")


def _hints(project: Project, counts: Counter[str]) -> None:
    """Take out all hints to models: who gave one is not stored, and a closed ask needs none."""
    counts["experts.Ask: hints"] += Ask.objects.filter(project=project).exclude(draft_hint="").update(draft_hint="")


def _forked(project: Project, corrections: QuerySet[Any], counts: Counter[str]) -> set[str]:
    """Take the words of corrections out of the forks that were made of them, and return the branches."""
    made = Fork.objects.filter(project=project, correction__in=list(corrections.values_list("pk", flat=True)))
    for fork in made:
        change = {ERASED: next(iter(fork.change), "")}
        Fork.objects.filter(pk=fork.pk).update(change=change)
        counts["episodes.Fork: changes"] += 1
    return set(Episode.every.filter(fork__in=made).values_list("pk", flat=True))


def _acted(project: Project, keys: Sequence[str], names: AccountNames) -> dict[str, set[str]]:
    """Return the episodes in which a person did something rather than wrote it: only erasing them takes it away."""
    mine = {"episode__project": project, "author_key__in": keys}
    drove = WheelOrder.objects.filter(**mine).values_list("episode_id", flat=True)
    acted = PersonTurn.objects.filter(**mine).values_list("episode_id", flat=True)
    forked = Fork.objects.filter(project=project, created_by__in=names.every).values_list("parent_id", flat=True)
    loops = Episode.every.filter(project=project, started_by__in=names.own).exclude(origin__in=RUN_HERE)
    return {
        "episodes in which they acted for the agent": set(drove) | set(acted),
        "episodes that they forked, with what they changed": set(forked),
        "episodes that loops recorded in their name": set(loops.values_list("pk", flat=True)),
    }


def _named(by_words: Mapping[str, set[str]]) -> list[str]:
    return [
        f"{len(ids):,} {words}, erase them with --episode: {some_of(ids)}" for words, ids in by_words.items() if ids
    ]


def _set_up(project: Project, names: AccountNames) -> list[str]:
    """Return what a person set up for others."""
    repaired = VerifierVersion.objects.filter(project=project, created_by__in=names.every).count()
    made = {
        noun: model._default_manager.filter(**{f"{field}__in": names.every, path: project}).count()
        for model, (field, path, noun) in SET_UP.items()
    }
    listed = ", ".join(count(number, noun) for noun, number in made.items() if number)
    return [
        *([f"{count(repaired, 'repaired verifier')}, without their reasons"] if repaired else []),
        *([f"what they set up for others, with the names and settings that they gave it: {listed}"] if listed else []),
    ]


def _empty(rows: QuerySet[Any], empty: Mapping[str, Any], counts: Counter[str]) -> None:
    """Set the fields that have words, where they have some."""
    if rows.model is Annotation:
        # others name an option; a label without a schema takes any value
        bare = rows.filter(schema=None).values_list("pk", "text")
        free = [pk for pk, value in bare if not OPTION.fullmatch(str(value))]
        rows = rows.filter(Q(label=COMMENT) | Q(schema__kind=SchemaKind.TEXT) | Q(pk__in=free))
    has_words = Q()
    for name in empty:
        has_words |= ~Q(**{name: empty[name]})
    counts[f"{rows.model._meta.label}: words"] += rows.filter(has_words).update(**empty)


def _answers(project: Project, keys: Sequence[str], tokens: Collection[str], counts: Counter[str]) -> set[str]:
    """Take the words out of answers, of copies that a cache gave, and of the steps that show them; return the
    episodes."""
    mine = Advice.objects.filter(ask__project=project)
    pks = set(mine.filter(author_key__in=keys).values_list("pk", flat=True))
    fresh = pks
    while fresh:
        fresh = set(mine.filter(taken_from__in=fresh).values_list("pk", flat=True)) - pks
        pks |= fresh
    touched = set()
    branches: dict[str, set[str]] = {}
    for answer in mine.filter(pk__in=pks).select_related("ask"):
        decision, asked = without_words(answer.decision), answer.ask.episode_id
        if answer.reason != ERASED:
            empty = {"text": WORD, "tool_calls": None, "decision": decision, "reason": ERASED, "overruled": ""}
            Advice.objects.filter(pk=answer.pk).update(**empty)
            counts["experts.Advice: words"] += 1
        if answer.ask.accepted_id != answer.pk:
            continue
        if asked not in branches:
            branches[asked] = episodes.family_of({asked}) - {asked}
        # branches have copies of their parent's steps; a treated one has its step under another number
        copied = Q(episode__in=branches[asked], body__contains=answer.ask_id)
        steps = Step.objects.filter(Q(episode=asked, seq=answer.ask.seq) | copied, kind=StepKind.ASK)
        for step in steps.order_by("pk").select_for_update():
            if _reword(step, answer, decision, NAMELESS if answer.author in tokens else answer.author):
                touched.add(step.episode_id)
                counts["episodes.Step: answers"] += 1
    return touched


def without_words(decision: Any) -> Any:
    """Return a typed decision with its verdicts and choices alone."""
    if not isinstance(decision, Mapping):
        return decision
    calls = decision.get("calls")
    kept = {"chosen": decision.get("chosen"), "value": WORD if decision.get("value") is not None else None}
    kept["other"] = WORD if decision.get("other") is not None else None
    kept["calls"] = [{name: one.get(name) for name in ("id", "verdict")} for one in calls] if calls else None
    return {name: value for name, value in kept.items() if value is not None}


def _reword(step: Step, answer: Advice, decision: Any, author: str) -> bool:
    """Take the words of an answer out of a step; false if it has none of them."""
    body = json.loads(step.body)
    old_advice = body.get("advice")
    # a treated branch can have the same question with other advice, of the person who forked
    if (
        not isinstance(old_advice, dict)
        or body.get("ask") != answer.ask_id
        or old_advice.get("author") != answer.author
    ):
        return False
    advice = {name: one for name, one in old_advice.items() if name not in ("tool_calls", "files", "decision")}
    advice |= {"text": WORD, "author": author, **({"decision": decision} if decision is not None else {})}
    if advice == old_advice:
        return False
    _store(step, {**body, "advice": advice})
    return True


def _briefings(project: Project, name: str, tokens: Collection[str], counts: Counter[str]) -> set[str]:
    """Take the words out of briefings that were given to agents; return their episodes."""
    touched = set()
    rows = Step.objects.filter(kind=StepKind.BRIEFING, episode__project=project, body__contains=json.dumps(name))
    for step in rows.iterator():
        body = json.loads(step.body)
        if body.get("author") == name and body.get("text") != WORD:
            _store(step, {**body, "text": WORD, "author": NAMELESS if name in tokens else name})
            touched.add(step.episode_id)
            counts["episodes.Step: briefings"] += 1
    return touched


def _store(step: Step, body: Mapping[str, Any]) -> None:
    entry = entry_of(body, step.at)
    Step.objects.filter(pk=step.pk).update(body=entry.text, cut=entry.cut)


def _read_again(touched: set[str]) -> None:
    """Have the indexer read these episodes from their first step."""
    StepWords.objects.filter(episode__in=touched).delete()
    EpisodeWords.objects.filter(episode__in=touched).delete()
    EpisodeFacts.objects.filter(episode__in=Episode.every.filter(pk__in=touched)).update(**FRESH)

"""Reads: what one search of the command palette finds: episodes, tasks, runs, asks and members of a project.

Owns how far it looks and how many it shows. It reads the newest rows of one project by an index, so it costs the same
in a project of any size; the list of episodes looks at all of them. It shows no outcome, verdict or arm.
"""

from __future__ import annotations

import functools
import json
import operator
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from django.db.models import Max, Q, QuerySet
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode

from episodes.models import Episode, Run
from experts.models import Ask
from people.access import Actor, holds, may_see_queue, scoped
from people.models import Membership, display_name
from people.text.plain_text import clean

Rows = TypeVar("Rows", bound="QuerySet[Any]")
LOOKED = {"episodes": 2_000, "runs": 500, "asks": 1_000, "members": 500}
"""The newest rows of a project that a search reads."""
BY_ID = 100
"""The most rows of all projects whose ID begins with a search: IDs of one second share their first letters."""
SHOWN, WORDS_MAX, TEXT_MAX = 5, 100, 140
LEAST, SHORT_ID = 2, 6
_ID = re.compile(r"[0-9a-z]{6,20}", re.ASCII)


@dataclass(frozen=True)
class Found:
    """One thing by its name; `beside` is for things of the same name."""

    words: str
    beside: str
    url: str


@dataclass(frozen=True)
class FoundGroup:
    """What was found of one kind."""

    title: str
    items: list[Found]


def search(actor: Actor, typed: str) -> list[FoundGroup]:
    """Return the newest of each kind that has all words, or whose ID begins with the search; kinds without a match are
    left out."""
    # no stored text has a lone surrogate or U+0000, and PostgreSQL takes neither
    words = typed[:WORDS_MAX].encode("utf-8", "ignore").decode().replace("\x00", " ").split()
    if sum(map(len, words)) < LEAST:
        return []
    finders = {"Episodes": _episodes, "Tasks": _tasks, "Runs": _runs, "Asks": _asks, "Members": _members}
    groups = [FoundGroup(title, finder(actor, words)) for title, finder in finders.items()]
    return [group for group in groups if group.items]


def _with_words(words: Iterable[str], *fields: str) -> Q:
    """Match rows that have each word in one of these fields."""
    each = (functools.reduce(operator.or_, (Q(**{f"{one}__icontains": word}) for one in fields)) for word in words)
    return functools.reduce(operator.and_, each)


def _newest(rows: Rows, actor: Actor, most: int) -> Rows:
    """Return the newest rows of the project, yet to be narrowed."""
    ids = scoped(rows, actor.project).order_by("-created_at", "-pk").values("pk")[:most]
    return rows.filter(pk__in=ids)


def _by_id(rows: QuerySet[Any], actor: Actor, words: list[str]) -> list[str]:
    """Return the IDs of this project that begin with the search."""
    if len(words) != 1 or not _ID.fullmatch(words[0].lower()):
        return []
    start = words[0].lower()
    # not LIKE, which needs an index of its own; no ID is behind one of the same length with the last letter
    near = rows.filter(pk__gte=start, pk__lte=start.ljust(20, "z")).order_by("pk").values("pk")[:BY_ID]
    return list(scoped(rows.filter(pk__in=near), actor.project).values_list("pk", flat=True)[:SHOWN])


def _matching_episodes(actor: Actor, words: list[str]) -> QuerySet[Episode]:
    named = _with_words(words, "task", "scenario", "key") | _numbered(words) | _ending(words)
    return _newest(Episode.objects.all(), actor, LOOKED["episodes"]).filter(named)


def _numbered(words: list[str]) -> Q:
    """Match a task by its name, as in `library_1/27`."""
    name = re.fullmatch(r"(.+)/([0-9]{1,6})", "".join(words))
    return Q(scenario__iexact=name[1], task_idx=int(name[2])) if name else Q(pk="")


def _ending(words: list[str]) -> Q:
    """Match the last letters of an ID, which pages show."""
    is_end = len(words) == 1 and len(words[0]) >= SHORT_ID
    return Q(pk__endswith=words[0].lower()) if is_end else Q(pk="")


def _episodes(actor: Actor, words: list[str]) -> list[Found]:
    by_id = _by_id(Episode.every.all(), actor, words)
    rows = list(Episode.every.filter(pk__in=by_id).order_by("-pk"))
    rows += _matching_episodes(actor, words).exclude(pk__in=by_id).order_by("-created_at", "-pk")[: SHOWN - len(rows)]
    beside = {one.pk: f"{clean(str(one))} · {one.pk[-SHORT_ID:]}" for one in rows}
    return [Found(_short(one.task) or str(one), beside[one.pk], one.get_absolute_url()) for one in rows]


def _tasks(actor: Actor, words: list[str]) -> list[Found]:
    rows = _matching_episodes(actor, words).exclude(scenario="").exclude(task_idx=None).order_by()
    tasks = rows.values_list("scenario", "task_idx").annotate(words=Max("task"), at=Max("created_at"))
    return [
        Found(
            _short(text),
            f"{clean(scenario)} / {idx}",
            f"{reverse('episodes')}?{urlencode({'scenario': scenario, 'task_idx': str(idx)})}",
        )
        for scenario, idx, text, _ in tasks.order_by("-at")[:SHOWN]
    ]


def _runs(actor: Actor, words: list[str]) -> list[Found]:
    by_id = _by_id(Run.objects.all(), actor, words)
    rows = list(Run.objects.filter(pk__in=by_id))
    named = _newest(Run.objects.all(), actor, LOOKED["runs"]).filter(_with_words(words, "name")).exclude(pk__in=by_id)
    rows += named.order_by("-created_at", "-pk")[: SHOWN - len(rows)]
    return [Found(_short(one.name), one.pk[-SHORT_ID:], reverse("run", args=[one.pk])) for one in rows]


def _asks(actor: Actor, words: list[str]) -> list[Found]:
    if not holds(actor, may_see_queue):
        return []
    by_id = _by_id(Ask.objects.all(), actor, words)
    rows = list(Ask.objects.filter(pk__in=by_id).select_related("episode"))
    # a question is stored as JSON, in which other letters than ASCII are written as codes
    coded = [_coded(word) for word in words]
    in_question = functools.reduce(operator.and_, (_with_any(forms, "question") for forms in coded))
    named = _newest(Ask.objects.all(), actor, LOOKED["asks"]).filter(in_question).exclude(pk__in=by_id)
    rows += named.select_related("episode").order_by("-created_at", "-pk")[: SHOWN - len(rows)]
    return [Found(_short(one.question), _about(one), reverse("ask", args=[one.pk])) for one in rows]


def _with_any(forms: Iterable[str], field: str) -> Q:
    return functools.reduce(operator.or_, (Q(**{f"{field}__icontains": form}) for form in forms))


def _coded(word: str) -> set[str]:
    """Return how a word can be written in a stored JSON text: codes know no upper and lower case."""
    return {json.dumps(form)[1:-1] for form in (word, word.lower(), word.upper(), word.capitalize())}


def _about(ask: Ask) -> str:
    return f"{ask.get_status_display()} · {clean(str(ask.episode))}"


def _members(actor: Actor, words: list[str]) -> list[Found]:
    ids = (
        scoped(Membership.objects.current(timezone.now()), actor.project)
        .order_by("-pk")
        .values("pk")[: LOOKED["members"]]
    )
    rows = Membership.objects.filter(pk__in=ids).select_related("user")
    named = rows.filter(_with_words(words, "user__first_name", "user__last_name", "user__username"))
    return [
        Found(clean(display_name(member.user)), member.get_role_display(), f"{reverse('people')}#member-{member.pk}")
        for member in named.order_by("user__first_name", "pk")[:SHOWN]
    ]


def _short(text: str) -> str:
    words = " ".join(clean(text[: 4 * TEXT_MAX]).split())
    return words if len(words) <= TEXT_MAX else f"{words[: TEXT_MAX - 1]}…"

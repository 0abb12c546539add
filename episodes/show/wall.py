"""Reads for pages: live episodes by need, and rows of lists.

Leaves rows to `models.py`, cards to `step_cards.py`, one episode's page to `page.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, F, Q, QuerySet
from django.utils import timezone

from awmenv.health import Health
from episodes.models import Episode, EpisodeState, Run, Step, VerifierOutcome
from episodes.show.windows import ShownStep, shown
from episodes.stored.strip import actions_in, asks_in
from episodes.visible import visibility
from episodes.visible.lens import EVERYTHING
from people.access import Actor, scoped
from people.text.plain_text import clean

LIVE_MAX = 200
NOT_LISTED = ("tools", "policy", "final_answer")
ARGUMENTS, CHOICES, CHOICE_CHARS = 100, 20, 200
"""The most of a tool's schema that a page shows."""
HEAVY = ("details", "state_diff")
"""Large columns that no list shows."""
RUNS = 6
STALLED_S = 30
GROUPS = {
    "person": "Needs a person",
    "stalled": "Stalled",
    "running": "Running",
    "queued": "Queued",
    "over": "Just ended",
}
"""The groups of the list. Rows come into the last one on an open page only."""
NEEDS = {"waiting": "person", "parked": "person", "running": "running", "queued": "queued"}


@dataclass(frozen=True)
class EpisodeRow:
    """One episode in a list."""

    episode: Episode
    acted: int
    acting: bool
    elapsed: float
    last_action: str = ""
    outcome: str = ""
    source: str = ""
    health: Health | None = None
    last_at: datetime | None = None
    stalled: bool = False

    @property
    def budget(self) -> int | None:
        """The step limit of a live episode; None for an ended one, which draws no remaining steps."""
        return self.episode.max_steps if self.episode.is_live else None

    @property
    def asked(self) -> int:
        return asks_in(self.episode.strip)

    @property
    def took(self) -> float | None:
        """Seconds from start to end; None for one that did not begin or goes on, and for imports without times."""
        if self.episode.started_at is None or self.episode.ended_at is None:
            return None
        return None if self.episode.origin == "import" and not self.elapsed else self.elapsed

    @property
    def shows_state(self) -> bool:
        """Whether a list shows the state: it does for live, failed and stopped episodes, else it shows the outcome."""
        return not self.outcome and self.episode.state != "finished"

    @property
    def need(self) -> str:
        """The group of the row on the page of live episodes."""
        return "stalled" if self.stalled else NEEDS[self.episode.state]


@dataclass(frozen=True)
class Wall:
    """Live episodes: those that need a person first, then stalled, running and queued ones."""

    rows: list[EpisodeRow]
    total: int
    runs: list[Run]

    @property
    def groups(self) -> list[tuple[str, str, list[EpisodeRow]]]:
        return [(need, words, [row for row in self.rows if row.need == need]) for need, words in GROUPS.items()]

    @property
    def line(self) -> str:
        """ "60 live, 3 need a person, 2 stalled" """
        if not self.rows:
            return ""
        waiting, stalled = (sum(row.need == need for row in self.rows) for need in ("person", "stalled"))
        parts = [
            f"{self.total:,} live" if self.total == len(self.rows) else f"{len(self.rows):,} of {self.total:,} live"
        ]
        parts += [f"{waiting} {'needs' if waiting == 1 else 'need'} a person"] if waiting else []
        return ", ".join(parts + ([f"{stalled} stalled"] if stalled else []))


def row_of(
    episode: Episode, now: datetime, outcome: VerifierOutcome | None = None, last: ShownStep | None = None
) -> EpisodeRow:
    start, end = episode.started_at or now, episode.ended_at or now
    acting = episode.state == "running"
    # a loop's clock can be ahead of the server's
    last_at = min(last.at, now) if last else start
    return EpisodeRow(
        episode=episode,
        acted=actions_in(episode.strip),
        acting=acting,
        elapsed=(end - start).total_seconds(),
        last_action=_name(last) if last else "",
        outcome=outcome.reward_type if outcome else "",
        source=outcome.source if outcome else "",
        health=outcome.checked if outcome else None,
        last_at=last_at,
        stalled=acting and (now - last_at).total_seconds() > STALLED_S,
    )


def live(actor: Actor, only: list[str] | None = None) -> Wall:
    """Return the live episodes, or only those of them with the keys in `only`."""
    now, everything = timezone.now(), scoped(Episode.objects.live(), actor.project)
    chosen = everything if only is None else everything.filter(pk__in=only[:LIVE_MAX])
    episodes = list(chosen.select_related("run").defer(*NOT_LISTED).order_by("created_at")[:LIVE_MAX])
    lasts = last_steps(episodes)
    rows = [row_of(episode, now, last=lasts.get(episode.pk)) for episode in episodes]
    order = list(GROUPS)
    rows.sort(key=lambda row: (order.index(row.need), row.episode.created_at, row.episode.pk))
    # a second query only if the limit cut the list
    total = everything.count() if len(episodes) == LIVE_MAX else len(episodes)
    return Wall(rows, total, _runs({episode.run_id for episode in episodes if episode.run_id}))


def _runs(ids: set[str]) -> list[Run]:
    """Return the newest of these runs, each with its numbers of all, finished, failed and stopped episodes."""
    counts = Run.objects.filter(pk__in=ids).annotate(
        total=Count("episodes"),
        done=Count("episodes", filter=Q(episodes__state=EpisodeState.FINISHED)),
        failed=Count("episodes", filter=Q(episodes__state=EpisodeState.FAILED)),
        stopped=Count("episodes", filter=Q(episodes__state=EpisodeState.CANCELLED)),
    )
    return list(counts.order_by("-created_at")[:RUNS])


def last_steps(episodes: Iterable[Episode]) -> dict[str, ShownStep]:
    """Return the newest step of each episode, of which a list shows the name alone."""
    ids = [episode.pk for episode in episodes if episode.last_seq]
    rows = Step.objects.filter(episode__in=ids, seq=F("episode__last_seq"))
    return {row.episode_id: row for row in shown(EVERYTHING, rows, LIVE_MAX)}


def _name(step: ShownStep) -> str:
    if step.kind == "tool_call":
        return clean(str(step.wire().get("name", ""))[:60])
    return {"ask": "ask_expert", "message": "message"}.get(step.kind, step.kind)


def recent_outcomes(actor: Actor, count: int = 8) -> list[VerifierOutcome]:
    rows = visibility.of_project(actor).select_related("episode").defer(*HEAVY)
    return list(rows.order_by("-at")[:count])


def rows_with_outcomes(actor: Actor, episodes: Iterable[Episode]) -> list[EpisodeRow]:
    now, rows = timezone.now(), list(episodes)
    outcomes = visibility.of_episodes(actor, [episode.pk for episode in rows]).found_here()
    by_episode = {one.episode_id: one for one in outcomes.defer(*HEAVY)}
    return [row_of(episode, now, by_episode.get(episode.pk)) for episode in rows]


TOTAL_MAX, VERIFIED_MAX = 100_000, 10_000
"""Episodes, and newest outcomes, that a page counts: one that opens often counts no millions."""


@dataclass(frozen=True)
class Tallies:
    """Counts for the list's headline: `total` up to one more than `TOTAL_MAX`, outcomes among the newest
    `VERIFIED_MAX`."""

    total: int
    live: int = 0
    verified: int = 0
    complete: int = 0
    is_newest: bool = False

    @property
    def total_words(self) -> str:
        return f"{self.total:,}" if self.total <= TOTAL_MAX else f"more than {TOTAL_MAX:,}"


def up_to(rows: QuerySet[Any], most: int) -> int:
    """Return the number of rows, counted up to `most`."""
    return rows.order_by()[:most].count()


def total_of(actor: Actor) -> int:
    """Return the number of episodes, up to one more than `TOTAL_MAX`."""
    return up_to(scoped(Episode.objects.all(), actor.project), TOTAL_MAX + 1)


def complete_up_to(actor: Actor, most: int) -> int:
    """Return the number of episodes that their verifier found complete, counted up to `most`."""
    complete = visibility.verdicts_of(actor).filter(source=VerifierOutcome.Source.VERIFIER, reward_type="complete")
    return up_to(complete, most)


def tallies(actor: Actor) -> Tallies:
    """Return counts for the list's headline."""
    verdicts = visibility.verdicts_of(actor)
    is_newest = up_to(verdicts, VERIFIED_MAX + 1) > VERIFIED_MAX
    # all of them in any order, because an index has their newest ones of all projects
    counted = verdicts.order_by("-at", "-pk")[:VERIFIED_MAX] if is_newest else verdicts
    counts = counted.aggregate(verified=Count("pk"), complete=Count("pk", filter=Q(reward_type="complete")))
    # separate from the total, because each count has its own index
    live = scoped(Episode.objects.all(), actor.project).live().count()
    return Tallies(total_of(actor), live, **counts, is_newest=is_newest)


def tools_of(episode: Episode) -> list[dict[str, Any]]:
    """Return the agent's tools, cleaned for a page."""
    return [_tool(tool) for tool in episode.tools if isinstance(tool, Mapping)]


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Return the page's values of one tool. Its schema comes from the loop and can have any shape and size."""
    text, schema = clean(tool.get("description") or ""), tool.get("input_schema")
    schema = schema if isinstance(schema, Mapping) else {}
    required = {name for name in _list(schema.get("required")) if isinstance(name, str)}
    declared = schema.get("properties")
    properties = declared if isinstance(declared, Mapping) else {}
    arguments = [
        {"name": clean(name), "type": _type(spec), "required": name in required, "text": _about(spec)}
        # a schema comes from the loop and can have any number of properties
        for name, spec in itertools.islice(properties.items(), ARGUMENTS)
    ]
    line, _, rest = text.strip().partition("\n")
    name, more = clean(tool.get("name", "")), len(properties) - len(arguments)
    return {"name": name, "line": line, "text": rest.strip(), "arguments": arguments, "more": more}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _type(schema: object) -> str:
    if not isinstance(schema, Mapping):
        return "any"
    if choices := _list(schema.get("enum")):
        more = f" | … {len(choices)} in all" if len(choices) > CHOICES else ""
        return clean(" | ".join(str(value)[:CHOICE_CHARS] for value in choices[:CHOICES]) + more)
    forms = [one.get("type") for one in _list(schema.get("anyOf"))[:CHOICES] if isinstance(one, Mapping)]
    options = [one for kind in (schema.get("type"), *forms) for one in (kind if isinstance(kind, list) else [kind])]
    return clean(" or ".join(one for one in options[:CHOICES] if isinstance(one, str) and one != "null") or "any")


def _about(schema: object) -> str:
    return clean(schema.get("description") or "").rstrip(".") if isinstance(schema, Mapping) else ""

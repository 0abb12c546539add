"""Reads for pages: the wall of live episodes by run, the filtered list, and everything one episode's page shows.

Owns the sentences with numbers at the top of those pages. Leaves rows to `models.py`, cards to `cards.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import Count, F, Q, QuerySet
from django.db.models.functions import Length
from django.utils import timezone

from episodes.cards import DIFF_LINES, DiffLine, clean, diff_lines
from episodes.models import LIVE_STATES, Episode, Run, Step, VerifierOutcome
from episodes.strip import actions_in, changes_of
from people.access import Actor, scoped

WALL = 200
PEEK = 65_536
NOT_LISTED = ("tools", "policy", "final_answer")
"""Large, and shown in no list."""
STOPS = {
    "done": "the agent, done",
    "max_steps": "the step limit",
    "gave_up": "the agent, giving up",
    "timeout": "the time limit",
    "error": "an error",
}


@dataclass(frozen=True)
class Row:
    """One episode in a list."""

    episode: Episode
    acted: int
    acting: bool
    elapsed: float
    last_action: str = ""
    outcome: str = ""

    @property
    def budget(self) -> int | None:
        """Steps still allowed are drawn only while any can come."""
        return self.episode.max_steps if self.episode.is_live else None


@dataclass
class RunGroup:
    key: str
    name: str
    arm: str
    total: int = 0
    done: int = 0
    rows: list[Row] = field(default_factory=list)


def row_of(episode: Episode, now: datetime, last_action: str = "", outcome: str = "") -> Row:
    start, end = episode.started_at or now, episode.ended_at or now
    acting = episode.state == "running"
    return Row(episode, actions_in(episode.strip), acting, (end - start).total_seconds(), last_action, outcome)


def live(actor: Actor) -> list[RunGroup]:
    """Live episodes by run, newest run first; waiting before running before queued."""
    now = timezone.now()
    found = scoped(Episode.objects.live().select_related("run"), actor.project).defer(*NOT_LISTED)
    rows = list(found.order_by("created_at")[:WALL])
    order = {"waiting": 0, "running": 1, "queued": 2}
    rows.sort(key=lambda episode: (_newness(episode), order[episode.state], episode.created_at))
    actions = last_actions(rows)
    groups: dict[str, RunGroup] = {}
    for episode in rows:
        group = groups.setdefault(episode.run_id or "", _group(episode))
        group.rows.append(row_of(episode, now, actions.get(episode.pk, "")))
    _count(groups)
    return list(groups.values())


def _newness(episode: Episode) -> tuple[float, str]:
    return (-episode.run.created_at.timestamp(), episode.run.pk) if episode.run else (0.0, "")


def _group(episode: Episode) -> RunGroup:
    if episode.run is None:
        return RunGroup("none", "Without a run", "")
    return RunGroup(episode.run.pk, episode.run.name, episode.run.arm)


def _count(groups: dict[str, RunGroup]) -> None:
    """How many of each run are over."""
    counts = Run.objects.filter(pk__in=[key for key in groups if key]).annotate(
        total=Count("episodes"), over=Count("episodes", filter=~Q(episodes__state__in=LIVE_STATES))
    )
    for run in counts:
        groups[run.pk].total, groups[run.pk].done = run.total, run.over
    if "" in groups:
        groups[""].total = len(groups[""].rows)


def last_actions(episodes: Iterable[Episode]) -> dict[str, str]:
    """What each live episode did last, by the name of the tool; very large steps stay unread."""
    ids = [episode.pk for episode in episodes if episode.last_seq]
    rows = Step.objects.filter(episode__in=ids, seq=F("episode__last_seq")).annotate(size=Length("body"))
    found = rows.filter(size__lt=PEEK).values_list("episode_id", "kind", "body")
    return {pk: clean(_name(kind, body)) for pk, kind, body in found}


def _name(kind: str, body: str) -> str:
    if kind == "tool_call":
        return str(json.loads(body).get("name", ""))[:60]
    return {"ask": "ask_expert", "message": "message"}.get(kind, kind)


def live_line(groups: list[RunGroup]) -> str:
    rows = [row for group in groups for row in group.rows]
    if not rows:
        return ""
    waiting = sum(row.episode.state == "waiting" for row in rows)
    runs = f"in {len(groups)} runs" if len(groups) > 1 else "in one run"
    wait = f", {waiting} {'waits' if waiting == 1 else 'wait'} for an answer" if waiting else ""
    return f"{len(rows)} {runs}{wait}"


def recent_outcomes(actor: Actor, count: int = 8) -> list[VerifierOutcome]:
    rows = VerifierOutcome.objects.filter(source="verifier").select_related("episode")
    return list(scoped(rows, actor.project, "episode__project").order_by("-at")[:count])


@dataclass(frozen=True)
class Filters:
    """The query string of the episode list."""

    q: str = ""
    state: str = ""
    outcome: str = ""
    run: str = ""
    scenario: str = ""

    @classmethod
    def read(cls, query: Mapping[str, Any]) -> Filters:
        return cls(**{name: str(query.get(name, "")).replace("\x00", "")[:200] for name in cls.__dataclass_fields__})

    @property
    def any(self) -> bool:
        return any((self.q, self.state, self.outcome, self.run, self.scenario))

    def apply(self, rows: QuerySet[Episode]) -> QuerySet[Episode]:
        if self.q:
            rows = rows.filter(Q(task__icontains=self.q) | Q(scenario__icontains=self.q) | Q(key__icontains=self.q))
        for name in ("state", "run", "scenario"):
            if value := getattr(self, name):
                rows = rows.filter(**{name: value})
        if self.outcome == "none":
            return rows.exclude(outcomes__source="verifier")
        if self.outcome:
            return rows.filter(outcomes__source="verifier", outcomes__reward_type=self.outcome)
        return rows


def rows_with_outcomes(episodes: Iterable[Episode]) -> list[Row]:
    now, rows = timezone.now(), list(episodes)
    found = VerifierOutcome.objects.filter(source="verifier", episode__in=[episode.pk for episode in rows])
    types = dict(found.values_list("episode_id", "reward_type"))
    return [row_of(episode, now, outcome=types.get(episode.pk, "")) for episode in rows]


def tallies(actor: Actor) -> dict[str, int]:
    """Counts for the list's headline."""
    episodes = scoped(Episode.objects.all(), actor.project)
    verified = scoped(VerifierOutcome.objects.filter(source="verifier"), actor.project, "episode__project")
    return {
        **episodes.aggregate(total=Count("pk"), live=Count("pk", filter=Q(state__in=LIVE_STATES))),
        **verified.aggregate(verified=Count("pk"), complete=Count("pk", filter=Q(reward_type="complete"))),
    }


def tools_of(episode: Episode) -> list[dict[str, Any]]:
    """The tools an agent has, fit for a page."""
    return [_tool(tool) for tool in episode.tools if isinstance(tool, Mapping)]


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    text, schema = clean(tool.get("description") or ""), tool.get("input_schema") or {}
    required, properties = _list(schema.get("required")), schema.get("properties") or {}
    arguments = [
        {"name": clean(name), "type": _type(one), "required": name in required, "text": _about(one)}
        for name, one in (properties.items() if isinstance(properties, Mapping) else ())
    ]
    line, _, rest = text.strip().partition("\n")
    return {"name": clean(tool.get("name", "")), "line": line, "text": rest.strip(), "arguments": arguments}


def _list(value: object) -> list[Any]:
    """A tool's schema is the agent's word: what should be a list may be anything."""
    return value if isinstance(value, list) else []


def _type(schema: object) -> str:
    if not isinstance(schema, Mapping):
        return "any"
    if choices := _list(schema.get("enum")):
        return clean(" | ".join(str(value) for value in choices))
    options = [schema.get("type"), *(one.get("type") for one in _list(schema.get("anyOf")) if isinstance(one, Mapping))]
    return clean(" or ".join(str(one) for one in options if one and one != "null") or "any")


def _about(schema: object) -> str:
    return clean(schema.get("description") or "").rstrip(".") if isinstance(schema, Mapping) else ""


def changed_tables(diff: object) -> list[tuple[str, list[DiffLine], list[DiffLine]]]:
    """A state diff as (table, first lines, further lines)."""
    if not isinstance(diff, Mapping):
        return []
    tables = [(clean(table), list(diff_lines({"": kinds}))) for table, kinds in diff.items()]
    return [(table, lines[:DIFF_LINES], lines[DIFF_LINES:]) for table, lines in tables if lines]


def gathered(steps: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, list[Any]]]:
    """The changes of many steps, table by table, in the order they were made."""
    all_changes: dict[str, dict[str, list[Any]]] = {}
    for step in steps:
        diff = step.get("state_diff")
        for table, kinds in diff.items() if isinstance(diff, Mapping) else ():
            for kind, rows in kinds.items() if isinstance(kinds, Mapping) else ():
                if isinstance(rows, list):
                    all_changes.setdefault(str(table), {}).setdefault(str(kind), []).extend(rows)
    return all_changes


def headline(episode: Episode, outcome: VerifierOutcome | None, open_asks: int, now: datetime) -> str:
    """The finding of an episode's page, as a sentence."""
    acted = actions_in(episode.strip)
    steps = f"{acted} {'step' if acted == 1 else 'steps'}"
    if outcome is not None:
        found = {"complete": "The task is complete", "others": "The task is not complete"}.get(outcome.reward_type)
        return f"{found or 'The verifier said ' + clean(outcome.reward_type).replace('_', ' ')}, after {steps}."
    if episode.state == "waiting":
        return f"The agent waits for {'an answer' if open_asks < 2 else f'{open_asks} answers'} at step {acted}."
    return {
        "queued": "Queued; no worker has taken it up yet.",
        "running": f"The agent is at work, {steps} in." if acted else "The agent has started.",
        "failed": f"The {episode.fault or 'loop'} broke after {steps}; this says nothing about the task.",
        "cancelled": f"Stopped after {steps}.",
    }.get(episode.state, f"The agent is through, after {steps}.")


def changed_rows(diff: object) -> int:
    return changes_of(diff)

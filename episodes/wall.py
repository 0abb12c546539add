"""Reads for pages: the wall of live episodes by need, the filtered list, and everything one episode's page shows.

Owns the sentences with numbers at the top of those pages. Leaves rows to `models.py`, cards to `step_cards.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, F, Q
from django.utils import timezone

from awmenv.health import Health
from episodes.models import LIVE_STATES, Episode, EpisodeState, Run, Step, VerifierOutcome
from episodes.selection import NOT_VERIFIED
from episodes.step_cards import DIFF_LINES, DiffLine, diff_lines
from episodes.strip import actions_in, changes_of
from episodes.windows import Shown, shown
from people.access import Actor, scoped
from people.plain_text import clean

WALL = 200
NOT_LISTED = ("tools", "policy", "final_answer")
ARGUMENTS, CHOICES, CHOICE_CHARS = 100, 20, 200
"""How much of a tool's schema a page shows."""
HEAVY = ("details", "state_diff")
"""Large, and shown in no list."""
RUNS = 6
STALLED_S = 30
GROUPS = {"person": "Needs a person", "stalled": "Stalled", "running": "Running", "queued": "Queued"}
NEEDS = {"waiting": "person", "running": "running", "queued": "queued"}
FOUND = {
    "complete": "The task is complete",
    "others": "The task is not complete",
    "judge_error": "Nobody knows whether the task is complete: the verifier or its judge broke",
}
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
    health: Health | None = None
    last_at: datetime | None = None
    stalled: bool = False

    @property
    def budget(self) -> int | None:
        """Steps still allowed are drawn only while any can come."""
        return self.episode.max_steps if self.episode.is_live else None

    @property
    def need(self) -> str:
        """Why the row stands where it stands on the wall."""
        return "stalled" if self.stalled else NEEDS[self.episode.state]


@dataclass(frozen=True)
class Wall:
    """Live episodes: who needs a person first, then the stalled, then those at work, then those in the queue."""

    rows: list[Row]
    total: int
    runs: list[Run]

    @property
    def groups(self) -> list[tuple[str, str, list[Row]]]:
        return [(need, words, [row for row in self.rows if row.need == need]) for need, words in GROUPS.items()]

    @property
    def line(self) -> str:
        """ "60 live, 3 need a person, 2 stalled" """
        if not self.rows:
            return ""
        waiting, stalled = (sum(row.need == need for row in self.rows) for need in ("person", "stalled"))
        parts = [f"{self.total} live" if self.total == len(self.rows) else f"{len(self.rows)} of {self.total} live"]
        parts += [f"{waiting} {'needs' if waiting == 1 else 'need'} a person"] if waiting else []
        return ", ".join(parts + ([f"{stalled} stalled"] if stalled else []))


def row_of(episode: Episode, now: datetime, outcome: VerifierOutcome | None = None, last: Shown | None = None) -> Row:
    start, end = episode.started_at or now, episode.ended_at or now
    acting = episode.state == "running"
    last_at = min(last.at, now) if last else start
    return Row(
        episode=episode,
        acted=actions_in(episode.strip),
        acting=acting,
        elapsed=(end - start).total_seconds(),
        last_action=_name(last) if last else "",
        outcome=outcome.reward_type if outcome else "",
        health=outcome.checked if outcome else None,
        last_at=last_at,
        stalled=acting and (now - last_at).total_seconds() > STALLED_S,
    )


def live(actor: Actor, only: list[str] | None = None) -> Wall:
    """The wall; `only` names the episodes that a page has heard of and not seen."""
    now, everything = timezone.now(), scoped(Episode.objects.live(), actor.project)
    chosen = everything if only is None else everything.filter(pk__in=only[:WALL])
    found = list(chosen.select_related("run").defer(*NOT_LISTED).order_by("created_at")[:WALL])
    lasts = last_steps(found)
    rows = [row_of(episode, now, last=lasts.get(episode.pk)) for episode in found]
    order = list(GROUPS)
    rows.sort(key=lambda row: (order.index(row.need), row.episode.created_at, row.episode.pk))
    total = everything.count() if len(found) == WALL else len(found)
    return Wall(rows, total, _runs({episode.run_id for episode in found if episode.run_id}))


def _runs(ids: set[str]) -> list[Run]:
    """The newest runs on the wall, each with how many of its episodes there are and how many are over."""
    counts = Run.objects.filter(pk__in=ids).annotate(
        total=Count("episodes"),
        done=Count("episodes", filter=Q(episodes__state=EpisodeState.FINISHED)),
        failed=Count("episodes", filter=Q(episodes__state=EpisodeState.FAILED)),
        stopped=Count("episodes", filter=Q(episodes__state=EpisodeState.CANCELLED)),
    )
    return list(counts.order_by("-created_at")[:RUNS])


def last_steps(episodes: Iterable[Episode]) -> dict[str, Shown]:
    """The newest step of each episode."""
    ids = [episode.pk for episode in episodes if episode.last_seq]
    rows = Step.objects.filter(episode__in=ids, seq=F("episode__last_seq"))
    return {row.episode_id: row for row in shown(rows, WALL)}


def _name(step: Shown) -> str:
    if step.kind == "tool_call":
        return clean(str(step.wire().get("name", ""))[:60])
    return {"ask": "ask_expert", "message": "message"}.get(step.kind, step.kind)


def recent_outcomes(actor: Actor, count: int = 8) -> list[VerifierOutcome]:
    rows = VerifierOutcome.objects.filter(source="verifier").select_related("episode").defer(*HEAVY)
    return list(scoped(rows, actor.project, "episode__project").order_by("-at")[:count])


@dataclass(frozen=True)
class Filters:
    """The query string of the episode list."""

    q: str = ""
    state: str = ""
    outcome: str = ""
    run: str = ""
    arm: str = ""
    expert: str = ""
    scenario: str = ""

    @classmethod
    def read(cls, query: Mapping[str, Any]) -> Filters:
        return cls(**{name: str(query.get(name, "")).replace("\x00", "")[:200] for name in cls.__dataclass_fields__})

    @property
    def said(self) -> dict[str, list[str]]:
        """Those that narrow, as `episodes.selection` takes them."""
        return {name: [value] for name, value in asdict(self).items() if value}

    @property
    def exported(self) -> dict[str, str]:
        """The filters that an export has too."""
        some = {name: value for name, value in asdict(self).items() if value and name not in ("q", "state")}
        return {name: value for name, value in some.items() if (name, value) != ("outcome", NOT_VERIFIED)}


def rows_with_outcomes(episodes: Iterable[Episode]) -> list[Row]:
    now, rows = timezone.now(), list(episodes)
    found = VerifierOutcome.objects.filter(source="verifier", episode__in=[episode.pk for episode in rows])
    outcomes = {one.episode_id: one for one in found.defer(*HEAVY)}
    return [row_of(episode, now, outcomes.get(episode.pk)) for episode in rows]


def tallies(actor: Actor) -> dict[str, int]:
    """Counts for the list's headline."""
    episodes = scoped(Episode.objects.all(), actor.project)
    verified = scoped(VerifierOutcome.objects.verdicts(), actor.project, "episode__project")
    return {
        **episodes.aggregate(total=Count("pk"), live=Count("pk", filter=Q(state__in=LIVE_STATES))),
        **verified.aggregate(verified=Count("pk"), complete=Count("pk", filter=Q(reward_type="complete"))),
    }


def tools_of(episode: Episode) -> list[dict[str, Any]]:
    """The tools an agent has, fit for a page."""
    return [_tool(tool) for tool in episode.tools if isinstance(tool, Mapping)]


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    """A tool's schema is the agent's word: anything may stand anywhere, and as much as it likes."""
    text, schema = clean(tool.get("description") or ""), tool.get("input_schema")
    schema = schema if isinstance(schema, Mapping) else {}
    required = {name for name in _list(schema.get("required")) if isinstance(name, str)}
    given = schema.get("properties")
    properties = given if isinstance(given, Mapping) else {}
    arguments = [
        {"name": clean(name), "type": _type(one), "required": name in required, "text": _about(one)}
        for name, one in itertools.islice(properties.items(), ARGUMENTS)
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
    actions = f"{acted} {'action' if acted == 1 else 'actions'}"
    if outcome is not None:
        found = FOUND.get(outcome.reward_type)
        return f"{found or 'The verifier said ' + clean(outcome.reward_type).replace('_', ' ')}, after {actions}."
    if episode.state == "waiting":
        return f"The agent waits for {'an answer' if open_asks < 2 else f'{open_asks} answers'}, {actions} in."
    return {
        "queued": "Queued; no worker has taken it up yet.",
        "running": f"The agent is at work, {actions} in." if acted else "The agent has started.",
        "failed": f"{_broken(episode)} after {actions}; this says nothing about the task.",
        "cancelled": f"Stopped after {actions}.",
    }.get(episode.state, f"The agent is through, after {actions}.")


def _broken(episode: Episode) -> str:
    if episode.is_cut_off:
        return "Cut off" if episode.is_builtin else "Its loop fell silent"
    return f"The {episode.fault or 'loop'} broke"


def cut_off_words(episode: Episode) -> str:
    """What became of an episode whose loop was not heard any more."""
    if not episode.is_cut_off:
        return ""
    kept = "What it did until then is kept, the verifier was not asked, and no task counts as failed for it."
    if episode.is_builtin:
        return f"The process that played it was stopped or killed, and no other can go on in its place. {kept}"
    return f"Nothing was heard of the loop outside that plays it. {kept} A late step or heartbeat brings it back."


def changed_rows(diff: object) -> int:
    return changes_of(diff)

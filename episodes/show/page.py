"""Reads: what the page of one episode shows beside its steps, as small values. Owns its headline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from django.utils import timezone

from awmclient.schema import StopReason
from awmclient.words.faults import is_own
from episodes.models import AGAIN, Episode, EpisodeState, VerifierOutcome
from episodes.show import durability, windows
from episodes.show.findings import failed_check, found_by
from episodes.show.state_lines import DiffLine, diff_lines
from episodes.show.step_cards import DIFF_LINES, card_of
from episodes.show.values import pieces_of
from episodes.show.wall import EpisodeRow, row_of
from episodes.stored import packs
from episodes.stored.strip import OUTCOMES, STOPS, actions_in, changes_of, outcome_words
from episodes.visible import visibility
from episodes.visible.lens import Lens
from people.access import Actor
from people.text.plain_text import clean

ASK_STATES = {"o": "open", "a": "answered", "f": "fell_back", "d": "declined", "c": "cancelled"}


@dataclass(frozen=True)
class Ending:
    """The outcome as this reader may see it, and what is said in its place."""

    outcome: VerifierOutcome | None
    reported: VerifierOutcome | None
    is_withheld: bool
    is_expected: bool
    """Whether the agent has finished and its verifier has not."""

    @property
    def details(self) -> list[tuple[str, str]]:
        return pieces_of(self.outcome.details) if self.outcome and self.outcome.details else []

    @property
    def findings(self) -> list[tuple[str, str]]:
        findings = found_by(self.outcome.details) if self.outcome else None
        return pieces_of(findings) if findings else []

    @property
    def failed_check(self) -> str:
        failed = self.outcome is not None and self.outcome.reward_type != "complete"
        return failed_check(self.outcome.details) if self.outcome and failed else ""

    @property
    def reported_words(self) -> str:
        return outcome_words(self.reported.reward_type) if self.reported else ""


@dataclass(frozen=True)
class Changes:
    """The rows that an episode changed: by its outcome if that has them, else by its newest writes."""

    tables: list[tuple[str, list[DiffLine], list[DiffLine]]]
    rows: int
    newest: int
    older: int
    unknown_calls: int
    """Calls that did not report their changes."""


@dataclass(frozen=True)
class AskLines:
    """The newest asks of an episode, newest first, and the number of all."""

    lines: list[dict[str, Any]]
    all: int

    @property
    def open(self) -> int:
        return sum(line["state"] == "open" for line in self.lines)


@dataclass(frozen=True)
class EpisodeHead:
    """What the head of the page says of an episode besides its outcome."""

    headline: str
    row: EpisodeRow
    chips: list[tuple[str, str]]
    stop_words: str
    is_replaced: bool
    """Whether the loaded scenario is another version than this episode's."""
    rerun: Episode | None
    """The rerun of a failed built-in episode."""
    rerun_of: Episode | None


def ending_of(actor: Actor, lens: Lens, episode: Episode) -> Ending:
    by_source = visibility.by_source(actor, episode)
    reported, withheld = by_source.get("reported"), Lens.OUTCOME not in lens
    # the environment's own word is all that there is; a loop's is beside the verifier's
    outcome = by_source.get("verifier") or (reported if episode.is_builtin else None)
    unverified = outcome is None and not withheld
    expected = episode.is_builtin and not episode.fault and episode.state == EpisodeState.FINISHED and unverified
    return Ending(outcome, None if outcome is reported else reported, withheld, expected)


def changes_in(lens: Lens, episode: Episode, outcome: VerifierOutcome | None) -> Changes:
    unknown = 0 if outcome and episode.is_builtin else windows.unknown_calls(episode)
    if outcome and outcome.state_diff:
        return Changes(changed_tables(outcome.state_diff), changes_of(outcome.state_diff), 0, 0, unknown)
    writes, everything = windows.writes(lens, episode)
    diff = gathered(writes)
    return Changes(changed_tables(diff), changes_of(diff), len(writes), everything - len(writes), unknown)


def asked_in(lens: Lens, episode: Episode) -> AskLines:
    steps, everything = windows.asks(lens, episode)
    return AskLines([_ask_line(step, episode) for step in reversed(steps)], everything)


def head_of(episode: Episode, outcome: VerifierOutcome | None, open_asks: int, no_server: bool) -> EpisodeHead:
    now, same = timezone.now(), Episode.every.filter(project=episode.project_id)
    first = episode.key.removeprefix(AGAIN) if episode.is_builtin and episode.key.startswith(AGAIN) else ""
    failed = episode.is_builtin and episode.state == EpisodeState.FAILED
    digest = episode.scenario_digest
    return EpisodeHead(
        headline=headline(episode, outcome, open_asks, no_server),
        row=row_of(episode, now),
        chips=durability.chips(episode, now),
        stop_words=STOPS.get(cast(StopReason, episode.stop_reason), episode.stop_reason),
        is_replaced=bool(digest) and packs.scenario_digest(episode.scenario) not in ("", digest),
        rerun=same.filter(key=episode.again_key).only("pk").first() if failed else None,
        rerun_of=same.filter(pk=first).only("pk").first() if first else None,
    )


def _ask_line(step: dict[str, Any], episode: Episode) -> dict[str, Any]:
    card = card_of(step)
    ask = card.ask
    assert ask is not None
    # an ask that was open when its episode ended never gets an answer
    state = "cancelled" if card.waits and not episode.is_live else ASK_STATES.get(card.mark.code, "open")
    by = f"{ask.author} {ask.said}" if ask.text or ask.calls else ask.no_advice
    return {"pk": ask.ask_id, "seq": card.seq, "question": ask.question, "state": state, "by": by}


def changed_tables(diff: object) -> list[tuple[str, list[DiffLine], list[DiffLine]]]:
    """Return a state diff as (table, first lines, further lines)."""
    if not isinstance(diff, Mapping):
        return []
    tables = [(clean(table), list(diff_lines({"": kinds}))) for table, kinds in diff.items()]
    return [(table, lines[:DIFF_LINES], lines[DIFF_LINES:]) for table, lines in tables if lines]


def gathered(steps: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, list[Any]]]:
    """Return the changes of many steps, table by table, in the order they were made."""
    all_changes: dict[str, dict[str, list[Any]]] = {}
    for step in steps:
        diff = step.get("state_diff")
        for table, kinds in diff.items() if isinstance(diff, Mapping) else ():
            for kind, rows in kinds.items() if isinstance(kinds, Mapping) else ():
                if isinstance(rows, list):
                    all_changes.setdefault(str(table), {}).setdefault(str(kind), []).extend(rows)
    return all_changes


def headline(episode: Episode, outcome: VerifierOutcome | None, open_asks: int, no_server: bool = False) -> str:
    """Return the headline of an episode's page."""
    acted = actions_in(episode.strip)
    actions = f"{acted} {'action' if acted == 1 else 'actions'}"
    if outcome is not None:
        kind = OUTCOMES.get(outcome.reward_type)
        return f"{kind.finding if kind else 'Outcome: ' + clean(outcome.reward_type)}, after {actions}."
    if episode.state in ("waiting", "parked"):
        awaited = "an answer" if open_asks < 2 else f"{open_asks:,} answers"
        parked = ", parked" if episode.state == "parked" else ""
        return f"The agent is waiting for {awaited}{parked} ({actions} so far)."
    return {
        "queued": "Queued. The environment server did not respond."
        if no_server
        else "Queued. No worker has started it yet.",
        "running": f"The agent is working ({actions} so far)." if acted else "The agent has started.",
        "failed": f"{_failure(episode)} after {actions}. {_counts(episode.fault)}",
        "cancelled": f"Stopped after {actions}.",
    }.get(episode.state, f"The agent finished after {actions}.")


def _counts(fault: str) -> str:
    return "Counts as not complete." if is_own(fault) else "Not counted as a failed task."


def _failure(episode: Episode) -> str:
    if episode.is_cut_off:
        return "Interrupted" if episode.is_builtin else "Lost contact with the agent"
    return f"Failed with fault {episode.fault}" if episode.fault else "Failed"


def cut_off_words(episode: Episode) -> str:
    """Return why an episode was lost without a final call of its loop, or "" for any other."""
    if not episode.is_cut_off:
        return ""
    if episode.is_builtin:
        return (
            "Its worker process was stopped or killed, and no other can continue the episode."
            " Recorded steps are kept and the verifier did not run."
        )
    return (
        "No heartbeat from the external loop. Recorded steps are kept and the verifier did not run."
        " The episode reopens if the loop reports again."
    )

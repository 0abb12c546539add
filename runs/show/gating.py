"""Reads: the decisions that a run drew by turn, from the record of its episodes, and the gate that they fit.

A record is folded as its loop did, so that a gate reads the same numbers when it decides. Called with the comparison of
a run, so who cannot see that cannot see this.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from awmclient.asking.rules import Row, Seen, asking_rule, is_decision, row_of
from awmclient.nouns.kinds import is_ask, is_nudge
from awmclient.record.progress import LoopProgress
from episodes.models import Episode
from episodes.visible.trajectory import steps_of
from people.text.in_words import percent
from runs.errors import NotFitted
from runs.models import ENDED
from runs.show.comparison import RunComparison
from runs.statistics.compare import Try
from runs.statistics.gating import PRICE, DrawnDecision, Fitted, Value, fit
from runs.statistics.sentences import points, span_text
from runs.statistics.units import units_of


def fit_run(comparison: RunComparison, price: float = PRICE) -> Fitted:
    """Fit a gate on the offers that a run drew by turn. Raises `NotFitted`, which says what is missing."""
    if comparison.plan.state not in ENDED:
        raise NotFitted("The run has not ended: episodes that end first are not like the others.")
    drawing = chances_of(comparison)
    if not drawing:
        raise NotFitted(
            "No arm of this run draws its offers by turn, and an offer for a whole episode cannot tell one turn from "
            "another. Launch a run with an arm such as {name: drawn, expert: plain, ask: random:0.3}."
        )
    card = {
        "run": comparison.plan.run_id,
        "name": comparison.plan.run.name,
        "arms": sorted(drawing),
        "plan": comparison.plan.digest,
    }
    return fit(list(decisions_of(comparison, drawing)), price, card)


def chances_of(comparison: RunComparison) -> dict[str, float]:
    """Return the chance of an offer at each turn, by arm, for arms that draw it."""
    chances = {
        arm["name"]: asking_rule(arm["ask"]).chance
        for arm in comparison.plan.document["arms"]
        if isinstance(arm.get("ask"), str) and arm["ask"]
    }
    return {name: chance for name, chance in chances.items() if chance is not None}


def decisions_of(
    comparison: RunComparison, drawing: Mapping[str, float], tries: Sequence[Try] | None = None
) -> Iterator[DrawnDecision]:
    """Yield the decisions of the counted tries of these arms, or of some tries."""
    plan = comparison.plan.document
    among = comparison.tries if tries is None else tries
    chosen = [(one, one.complete) for one in among if one.arm in drawing and one.complete is not None]
    joined = joined_by([one for one, _ in chosen])
    episodes = Episode.objects.in_bulk([attempt.episode for attempt, _ in chosen])
    for attempt, is_complete in chosen:
        episode = episodes[attempt.episode]
        is_seen = bool((episode.policy.get("ask") or {}).get("seen"))
        for row, offered, asked in drawn_in(steps_of(episode), plan["max_asks"], plan["max_steps"], is_seen):
            share = drawing[attempt.arm]
            of_answer = joined.get(attempt.scenario, "")
            yield DrawnDecision(attempt.episode, attempt.scenario, row, offered, share, is_complete, asked, of_answer)


def joined_by(tries: Sequence[Try]) -> dict[str, str]:
    """Return, by scenario, the first of those that read an answer in common, for those that share one."""
    joined = [{tries[place].scenario for place in unit} for unit in units_of(tries, by_scenario=True)]
    return {name: min(names) for names in joined for name in names if len(names) > 1}


def drawn_in(
    steps: Sequence[Mapping[str, Any]], max_asks: int, max_steps: int, task_seen: bool = False
) -> Iterator[tuple[Row, bool, bool]]:
    """Yield each decision of an episode: the features before it, whether help was offered, and whether the agent asked
    in the turn after it."""
    progress, mine = LoopProgress(), [step for step in steps if step.get("turn") is not None]
    asked_in = {step["turn"] for step in mine if is_ask(step)}
    # None: an end after a decision that declined leaves no step of its own
    for place, step in enumerate([*mine, None]):
        decides = is_decision(progress, max_asks) and progress.spent < max_steps
        is_offer = step is not None and is_nudge(step)
        if decides and (is_offer or step is None or step["turn"] > progress.turn):
            row = row_of(Seen(mine[:place], progress, task_seen))
            yield row, is_offer, progress.turn + 1 in asked_in
        if step is not None:
            progress.add(step)


def words_of(fitted: Fitted) -> list[str]:
    """Return what was found, a sentence each."""
    card = fitted.gate.card
    strongest = sorted(fitted.gate.offered.weights.items(), key=lambda item: -abs(item[1]))[:3]
    claim = "Better" if fitted.claims else "Not shown to be better"
    return [
        f"{card['decisions']:,} decisions in {card['episodes']:,} episodes of {len(card['scenarios'])} scenarios, "
        f"{card['complete']:,} complete; help was offered at {card['offered']:,}, and {card['asked']:,} of those were "
        "asked at.",
        f"{claim} than offers at random at the same rate ({percent(fitted.rate)} of turns): {_span(fitted.timing)} per "
        f"episode. Against no offers: {_span(fitted.gain)}.",
        f"An offer counts most by {', '.join(f'{name} ({weight:+.2f})' for name, weight in strongest)}.",
        "This is an estimate from drawn offers, each with the others as they came. A run with the gate as an arm "
        "decides.",
    ]


def _span(value: Value) -> str:
    return (
        f"{points(value.mean)} {span_text(value.interval)}" if value.interval else f"{points(value.mean)}, no interval"
    )

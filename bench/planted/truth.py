"""Runs whose truth is planted, and people who attack them: what a run says about an effect that is not there.

A run is what its launch fixed (`claims.made`) and the tries that came of it. Every word and interval is read from
`comparison.evaluate`, the entry of pages, API and reports. There is no effect on the tasks of a run: the mean of the
true differences is exactly 0. An attack acts as a person who sees all outcomes of both arms and wants the run to say
something; any *better* or *worse* anywhere in what it says at any look is false. Pure; needs no database.
"""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from runs.plan import claims
from runs.plan.claims import Claims
from runs.plan.plans import plan_of
from runs.show.comparison import evaluate
from runs.statistics.compare import CANCELLED, Try
from runs.statistics.paired import mcnemar

CONTROL, TREATED = "control", "treated"
LATER = ("second", "third")
"""More arms of a run from which a person chooses."""
SCENARIOS = 10
WORDS = ("better", "worse")
Chances = list[tuple[float, float]]
"""Of each task: the chance to complete it for the control, and for every other arm."""


def even(tasks: int, dice: random.Random) -> Chances:
    """Return chances without an effect on any task."""
    return [(base, base) for base in (dice.uniform(0.1, 0.9) for _ in range(tasks))]


def ties(tasks: int, dice: random.Random) -> Chances:
    """Return chances of which nine of ten always end alike in all arms."""
    return [(0.5, 0.5) if place % 10 == 0 else (base, base) for place, base in enumerate(_sure(tasks, dice))]


def lopsided(tasks: int, dice: random.Random) -> Chances:
    """Let one task in five lose, and the others gain a quarter of that; the mean is 0."""
    found = []
    for place in range(tasks):
        base = dice.uniform(0.45, 0.85)
        found.append((base, base - 0.4) if place % 5 == 0 else (base, base + 0.1))
    return found


def unequal(tasks: int, dice: random.Random) -> Chances:
    """Let the control be certain on every task, while the other arms throw a coin; the mean is 0."""
    return [(float(place % 2), 0.5) for place in range(tasks)]


def _sure(tasks: int, dice: random.Random) -> list[float]:
    return [float(dice.random() < 0.5) for _ in range(tasks)]


WORLDS: dict[str, Callable[[int, random.Random], Chances]] = {
    "even": even,
    "ties": ties,
    "lopsided": lopsided,
    "unequal": unequal,
}


@dataclass
class Seen:
    """What a run said in its life: every word, and for every printed interval whether it held the truth."""

    false: bool = False
    covered: list[bool] = field(default_factory=list)
    covered_early: list[bool] = field(default_factory=list)
    words: set[str] = field(default_factory=set)


@dataclass
class Planted:
    """A run with planted outcomes. `outcomes` are those that every try would have, by task, arm and seed."""

    dice: random.Random
    said: Claims
    tries: list[Try]
    outcomes: Mapping[tuple[str, str, int], bool]
    truth: float
    treated: float = 0.0
    """The mean of the chances of an arm beside the control."""
    seen: Seen = field(default_factory=Seen)

    def look(self, tries: list[Try], *, stopped: bool = False) -> bool:
        """Read all that the run says of these tries, and return whether it says a word."""
        contrasts, effects = evaluate(self.said, tries, stopped=stopped)
        assert not any(one.void for one in contrasts), "the planned tries are those of the launch"
        found = {word for one in (*contrasts, *effects) for word in _words(asdict(one) | {"verdict": one.verdict})}
        self.seen.words |= found
        self.seen.false |= bool(found)
        for one in contrasts:
            if one.verdict == "withheld":
                continue
            low, high = one.running.interval
            self.seen.covered_early.append(low <= self.truth <= high)
            if one.tasks_scope is not None and one.tasks_scope.interval is not None:
                low, high = one.tasks_scope.interval
                self.seen.covered.append(low - 1e-9 <= self.truth <= high + 1e-9)
        return bool(found)


def _words(value: Any) -> Iterator[str]:
    """Yield every verdict in what a run says, in whatever scope."""
    if isinstance(value, Mapping):
        for name, one in value.items():
            if name == "verdict" and one in WORDS:
                yield one
            else:
                yield from _words(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _words(one)


def planted(
    tasks: int, seeds: int, world: str, number: str, *, arms: tuple[str, ...] = (), uplift: float = 0
) -> Planted:
    """Return a run that has ended. One task in twenty was found unfit before its launch."""
    dice = random.Random(f"{tasks}/{seeds}/{world}/{number}")
    chances = WORLDS[world](tasks, dice)
    if uplift:
        chances = [(base, base + uplift) for base in (dice.uniform(0.1, 0.9 - uplift) for _ in range(tasks))]
    # places give the worlds above, so the order in which tasks are read is shuffled as a launch does
    names = [f"s{place % SCENARIOS}/{place}" for place in range(tasks)]
    dice.shuffle(names)
    document = plan_of(
        {
            "name": "planted",
            "tasks": names,
            "seeds": seeds,
            "arms": [{"name": name} for name in (CONTROL, TREATED, *arms)],
        }
    )
    said = claims.made(document, names, {})
    tries, outcomes = [], {}
    for position, name in enumerate(names):
        chance = chances[int(name.rpartition("/")[2])]
        for seed in range(seeds):
            for arm in said.arms:
                complete = dice.random() < chance[arm != CONTROL]
                outcomes[name, arm, seed] = complete
                tries.append(Try(name, name.partition("/")[0], arm, seed, position, complete=complete))
    truth = sum(b - a for a, b in chances) / tasks
    return Planted(dice, said, tries, outcomes, truth, sum(b for _, b in chances) / tasks)


def honest(run: Planted) -> None:
    """Read all scopes and the running statement, and interfere with nothing."""
    run.look(run.tries)


def stopping(run: Planted) -> None:
    """Read after every task; cancel the run at the first moment at which its counts look like a result."""
    run.look(cut) if (cut := _cut(run)) else None
    run.look(cut, stopped=True) if cut else run.look(run.tries)


def _cut(run: Planted) -> list[Try]:
    """Return the tries of a run that was cancelled when an ordinary test of its counts first said p < .05."""
    by_position: dict[int, list[Try]] = {}
    for one in run.tries:
        by_position.setdefault(one.position, []).append(one)
    won = lost = 0
    for position in sorted(by_position):
        mine = by_position[position]
        d = sum((1 if one.arm == TREATED else -1) * bool(one.complete) for one in mine if one.arm in (CONTROL, TREATED))
        won, lost = won + (d > 0), lost + (d < 0)
        if position >= 5 and mcnemar(won, lost) < 0.05:
            return [_ended(one, CANCELLED) if one.position > position else one for one in run.tries]
    return []


def _ended(one: Try, why: str) -> Try:
    return replace(one, complete=None, excluded=why)


def cancelling(run: Planted) -> None:
    """Cancel open tries by what the other arm showed: those that would count against the wanted word."""
    run.look(_cancelled(run))


def _cancelled(run: Planted) -> list[Try]:
    budget = run.dice.choice([2, 0.05 * len(run.tries), 0.2 * len(run.tries), len(run.tries)])
    mean = {}
    for name in {one.task for one in run.tries}:
        for arm in run.said.arms:
            all_ = [run.outcomes[name, arm, seed] for seed in range(run.said.seeds)]
            mean[name, arm] = sum(all_) / len(all_)
    first = {one.task: run.dice.choice([CONTROL, TREATED]) for one in run.tries}
    found = []
    for one in run.tries:
        seen_first = first[one.task]
        other = mean[one.task, seen_first]
        against = other > 0.5 if seen_first == CONTROL else other < 0.5
        if (one.arm == CONTROL) != (seen_first == CONTROL) and against and budget >= 1:
            budget -= 1
            found.append(_ended(one, CANCELLED))
        else:
            found.append(one)
    return found


def retrying(run: Planted) -> None:
    """Crash episodes of an arm by how they would have ended, and retry them until they have an outcome."""
    crashed = _crashed(run, run.tries)
    run.look(crashed)
    run.look(_retried(run, crashed))


def _crashed(run: Planted, tries: list[Try]) -> list[Try]:
    """Return tries of which failures crashed, as if the arm had a fault, or successes, because they take longer."""
    share, of = run.dice.choice([0.03, 0.08, 0.15, 0.3]), run.dice.random() < 0.25
    return [
        _ended(one, "fault worker") if one.arm != CONTROL and one.complete is of and run.dice.random() < share else one
        for one in tries
    ]


def _retried(run: Planted, tries: list[Try]) -> list[Try]:
    """Return the tries with another episode for each lost one, with the chance of its task."""
    found = []
    for one in tries:
        if one.excluded == "fault worker":
            alike = [run.outcomes[one.task, one.arm, seed] for seed in range(run.said.seeds)]
            again = run.dice.random() < (sum(alike) + 1) / (len(alike) + 2)
            found.append(replace(one, complete=again, excluded="", retried_at=1.0 + one.position))
        else:
            found.append(one)
    return found


def excluding(run: Planted) -> None:
    """Break the judge for tries that can only lose, as often as a count of losses does not show."""
    run.look(_unjudged(run, run.tries))


def _unjudged(run: Planted, tries: list[Try]) -> list[Try]:
    budget = run.dice.choice([3, 5, 0.05 * len(run.tries) / len(run.said.arms)])
    won = {one.task for one in run.tries if one.arm == CONTROL and one.complete}
    found = []
    for one in tries:
        chosen = one.arm != CONTROL and one.task in won and one.complete is not None and budget >= 1
        budget -= chosen
        found.append(_ended(one, "judge_error") if chosen else one)
    return found


def adding(run: Planted) -> None:
    """Add seeds until something is said, three times at most."""
    tries = list(run.tries)
    for wave in range(4):
        if wave:
            tries += _more(run, wave)
        if run.look(tries):
            return


def _more(run: Planted, wave: int) -> list[Try]:
    """Return another round of seeds. Each task has the chance that its arm had, which its first seeds estimate."""
    found = []
    for one in run.tries:
        if one.seed == 0:
            alike = [run.outcomes[one.task, arm, seed] for arm in run.said.arms for seed in range(run.said.seeds)]
            complete = run.dice.random() < sum(alike) / len(alike)
            found.append(
                replace(one, seed=run.said.seeds + wave - 1, wave=wave, complete=complete, excluded="", retried_at=0.0)
            )
    return found


def sharing(run: Planted) -> None:
    """Give two tasks one answer, chosen by the control's outcomes: unlike ones, or those that it failed."""
    run.look(_shared(run))


def _shared(run: Planted) -> list[Try]:
    whole = {name: sum(run.outcomes[name, CONTROL, seed] for seed in range(run.said.seeds)) for name in _names(run)}
    middle = sorted(whole.values())[len(whole) // 2]
    good = [name for name in whole if whole[name] > middle or (whole[name] == middle and middle > 0)]
    bad = [name for name in whole if name not in set(good)]
    # unlike pairs leave only luck of one side; tasks that can only be won are read early beside an early one
    chosen = zip(good, bad, strict=False) if run.dice.random() < 0.5 else zip(bad, bad[len(bad) // 2 :], strict=False)
    names: dict[str, frozenset[str]] = {}
    for one, other in chosen:
        if one not in names and other not in names:
            names[one] = names[other] = frozenset({one})
    return [replace(one, shared=names.get(one.task, frozenset())) if one.arm == TREATED else one for one in run.tries]


def _names(run: Planted) -> list[str]:
    return list(dict.fromkeys(one.task for one in run.tries))


def everything(run: Planted) -> None:
    """Combine crashes, retries, cancels, a broken judge, a choice of arm and scope, more seeds, a stop."""
    tries = _unjudged(run, _crashed(run, _cancelled(run)))
    if run.look(tries):
        return
    tries = _retried(run, tries)
    if run.look(tries):
        return
    if not run.seen.false:
        run.look([*tries, *_more(run, 1)])
    if not run.seen.false:
        stopping(run)


ATTACKS: dict[str, tuple[Callable[[Planted], None], tuple[str, ...]]] = {
    "none": (honest, ()),
    "optional stopping": (stopping, ()),
    "cancel": (cancelling, ()),
    "retry": (retrying, ()),
    "exclusion": (excluding, ()),
    "added seeds": (adding, ()),
    "shared answers": (sharing, ()),
    "choice of arm": (honest, LATER),
    "everything": (everything, LATER),
}
"""What a person does, and the further arms of the run. Every attack reads every scope and every field of the answer, so
that a choice of scope or profile is part of each."""
Counts = dict[str, list[int]]
"""Of each attack: runs, false ones, intervals at the end that cover and all, and the same of those while running."""


def attacked(attack: str, tasks: int, seeds: int, number: int) -> Seen:
    """Return what one run said under an attack; the worlds take turns."""
    how, arms = ATTACKS[attack]
    run = planted(tasks, seeds, list(WORLDS)[number % len(WORLDS)], f"{attack}/{number}", arms=arms)
    how(run)
    return run.seen


def cell(place: tuple[int, int], seconds: float) -> Counts:
    """Play runs of one size under each attack in turn, until this time of the processor is over."""
    found: Counts = defaultdict(lambda: [0] * 6)
    # a busy machine takes longer for as many runs
    until, number = time.process_time() + seconds, 0
    while time.process_time() < until or number < 4:
        for attack in ATTACKS:
            seen = attacked(attack, *place, number)
            row = found[attack]
            more = (
                1,
                seen.false,
                sum(seen.covered),
                len(seen.covered),
                sum(seen.covered_early),
                len(seen.covered_early),
            )
            found[attack] = [a + b for a, b in zip(row, more, strict=True)]
        number += 1
    return dict(found)

"""Verifiers with planted errors, and blind people who judge a random sample: what runs say without these errors.

Each try has what people would say of it, drawn by its task and arm, and what the verifier says. The arm is as good as
the control, or better by what a world says. Pure; needs no database.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from bench.planted import truth
from runs.show.comparison import evaluate
from runs.statistics import corrected
from runs.statistics.contrast import Corrected
from runs.statistics.self_control import against_itself


@dataclass(frozen=True)
class Errors:
    """How often a verifier fails what people would accept, by arm, and accepts what they would reject: in both arms,
    and further in the arm alone. `by_task`: it does so for all episodes of a task or for none. `unread` drawn episodes
    in a hundred have no verdict yet. `effect`: what the arm truly adds."""

    treated: float = 0.0
    control: float = 0.0
    lenient: float = 0.0
    lenient_treated: float = 0.0
    by_task: bool = False
    unread: int = 0
    effect: float = 0.0


def judged_run(
    tasks: int, seeds: int, drawn: int, errors: Errors, dice: random.Random
) -> tuple[Corrected | None, Corrected | None, float, float]:
    """Return the corrected difference and rate of the arm of one run, and the truth of both. People judge `drawn`
    episodes of the run, without regard to arm or outcome."""
    run = truth.planted(tasks, seeds, "even", f"corrected/{dice.random()}", uplift=errors.effect)
    strict = {truth.TREATED: errors.treated, truth.CONTROL: errors.control}
    lenient = {truth.TREATED: errors.lenient + errors.lenient_treated, truth.CONTROL: errors.lenient}
    blind: dict[tuple[str, str], bool] = {}

    def seen(each: truth.Try) -> bool:
        chance = (strict if each.complete else lenient)[each.arm]
        if not errors.by_task:
            return bool(each.complete) is not (dice.random() < chance)
        wrong = blind.setdefault((each.task, each.arm), dice.random() < strict[each.arm])
        return bool(each.complete) and not wrong

    people = {f"{place}": bool(each.complete) for place, each in enumerate(run.tries)}
    tries = [replace(each, episode=f"{place}", complete=seen(each)) for place, each in enumerate(run.tries)]
    sample = dice.sample(sorted(people), min(drawn, len(people)))
    verdicts = {name: None if dice.randrange(100) < errors.unread else people[name] for name in sample}
    (contrast,), _ = evaluate(run.said, tries)
    both = corrected.difference(tries, contrast, verdicts), corrected.rate(tries, truth.TREATED, verdicts)
    return *both, run.truth, run.treated


def covers(tasks: int, seeds: int, drawn: int, errors: Errors) -> Callable[[random.Random], bool | None]:
    """Return whether the corrected difference holds the truth; None without a line."""

    def play(dice: random.Random) -> bool | None:
        seen, _, planted, _ = judged_run(tasks, seeds, drawn, errors, dice)
        return None if seen is None else seen.interval[0] <= planted <= seen.interval[1]

    return play


def rate_covers(tasks: int, seeds: int, drawn: int, errors: Errors) -> Callable[[random.Random], bool | None]:
    """Return whether the corrected rate of the arm holds the truth; None without a line."""

    def play(dice: random.Random) -> bool | None:
        _, seen, _, planted = judged_run(tasks, seeds, drawn, errors, dice)
        return None if seen is None else seen.interval[0] <= planted <= seen.interval[1]

    return play


def is_on_a_wrong_side(tasks: int, seeds: int, drawn: int, errors: Errors) -> Callable[[random.Random], bool | None]:
    """Return whether the corrected difference would be read as one that is not: of arms that are alike, or the other
    way round."""

    def play(dice: random.Random) -> bool | None:
        seen, _, planted, _ = judged_run(tasks, seeds, drawn, errors, dice)
        return None if seen is None else (seen.interval[0] > 0 >= planted) or (seen.interval[1] < 0 <= planted)

    return play


def itself_says(dice: random.Random) -> bool | None:
    """Return whether two random halves of one arm's seeds are said to differ."""
    run = truth.planted(60, 4, "even", f"itself/{dice.random()}")
    return against_itself(run.tries, truth.CONTROL).startswith(("Better", "Worse", "Shown"))


WORLDS = {
    "fails 30% of what people accept in one arm": Errors(treated=0.3),
    "fails all of 30% of the tasks in one arm": Errors(treated=0.3, by_task=True),
    "fails 3% in one arm": Errors(treated=0.03),
    "fails 10% in both arms, accepts 10% of the rest": Errors(treated=0.1, control=0.1, lenient=0.1),
    "fails 30% in one arm, 10% of the drawn are unread": Errors(treated=0.3, unread=10),
    **{
        f"{words}, the arm adds {100 * effect:.0f} points": replace(errors, effect=effect)
        for effect in (0.1, 0.25)
        for words, errors in (
            ("fails 30% of what people accept in one arm", Errors(treated=0.3)),
            ("fails all of 30% of the tasks in one arm", Errors(treated=0.3, by_task=True)),
            ("accepts 30% of what people reject", Errors(lenient=0.3)),
            ("accepts 30% of what people reject in one arm", Errors(lenient_treated=0.3)),
        )
    },
    "accepts 30% of what people reject": Errors(lenient=0.3),
    "accepts 30% of what people reject in one arm": Errors(lenient_treated=0.3),
}

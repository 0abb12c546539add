"""Statements after an erratum, in planted worlds: people who see the outcomes choose what the verifier is repaired on.

The repairs are false: what they make complete was not. So each reading of the corrected outcomes alone is wrong, and
only what both readings carry may be said."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from bench.planted import draws, truth
from bench.planted.case import PlantedCase, World
from runs.show.comparison import evaluate
from runs.statistics import campaigned, forked, offers, rereading, worth
from runs.statistics.campaigned import CampaignFinding, RootPair
from runs.statistics.forked import ForkArm, ForkFinding
from runs.statistics.offers import Effect
from runs.statistics.prices import Price

MINUTES, UPLIFT = 5.0, 0.2
"""What an answer takes of people on average, and what it adds."""
SHOWN = ("better", "worse")


def drawn_arm(dice: random.Random, tries: int, rate: float) -> ForkArm:
    return ForkArm(tries, tries, sum(dice.random() < rate for _ in range(tries)))


def price_covers(price: Price | None, true: float) -> bool | None:
    """Return whether a price, or the least that it says, holds the true one; None if neither is said."""
    if price is None or (price.interval is None and price.least is None):
        return None
    low, high = price.interval or (price.least, float("inf"))
    return low is not None and low <= true <= high


def priced(dice: random.Random, tasks: int) -> truth.Planted:
    """Return a run whose arm completes more, and takes people's time."""
    run = truth.planted(tasks, 1, "even", f"priced/{dice.random()}", uplift=UPLIFT)
    run.tries = [
        replace(each, human_s=60 * MINUTES * dice.uniform(0.4, 1.6) if each.arm == truth.TREATED else 0.0)
        for each in run.tries
    ]
    return run


def run_price(tasks: int, *, repaired: bool) -> World:
    """Read the price of an extra success; people repair half of what the arm with help lost."""

    def play(dice: random.Random) -> bool | None:
        run = priced(dice, tasks)
        lost = [each.task for each in run.tries if each.arm == truth.TREATED and not each.complete]
        opened = set(lost[: len(lost) // 2])
        (first,), _ = evaluate(run.said, run.tries)
        (now,), _ = evaluate(
            run.said,
            [
                replace(each, complete=True) if each.arm == truth.TREATED and each.task in opened else each
                for each in run.tries
            ],
        )
        read = rereading.contrast(now, first, {truth.TREATED: len(opened)}) if repaired else first
        return price_covers(read.price, MINUTES / run.truth)

    return play


def shared_price(tasks: int) -> World:
    """Read the price where an answer goes to twelve tasks: it adds 40 points to all of them or nothing, and takes as
    many minutes for each."""

    def play(dice: random.Random) -> bool | None:
        run = truth.planted(tasks, 1, "even", f"shared price/{dice.random()}")
        answers = [(dice.choice([0.0, 2 * UPLIFT]), MINUTES * dice.uniform(0.4, 1.6)) for _ in range(-(-tasks // 12))]
        tries = []
        for each in run.tries:
            number = each.position // 12
            gain, minutes = answers[number]
            if each.arm == truth.CONTROL:
                tries.append(replace(each, complete=dice.random() < 0.3))
            else:
                complete, read = dice.random() < 0.3 + gain, frozenset({f"{number}"})
                tries.append(replace(each, complete=complete, human_s=60 * minutes, shared=read))
        (contrast,), _ = evaluate(run.said, tries)
        return price_covers(contrast.price, MINUTES / UPLIFT)

    return play


def offer_reread(dice: random.Random, episodes: int, uplift: float) -> tuple[Effect, float, float]:
    """Return what an offer says once people have repaired half of what was lost on one side, with the true effect and
    price. Each offered episode takes people's time."""
    tries, gain = draws.tries_of(dice, 0.5, episodes, (0.2, 0.6, uplift))
    tries = [replace(each, human_s=60 * MINUTES * dice.uniform(0.4, 1.6) * bool(each.offered)) for each in tries]
    side = dice.random() < 0.5
    repaired = [
        replace(each, complete=True) if each.offered is side and not each.complete and dice.random() < 0.5 else each
        for each in tries
    ]
    ((first,), (now,)) = (offers.effects(each, draws.DRAWN) for each in (tries, repaired))
    return rereading.effect(now, first), gain, MINUTES / gain if gain else 0.0


def offer_covers(dice: random.Random) -> bool | None:
    """Offers add 20 points; people repair half of what one side lost."""
    read, gain, _ = offer_reread(dice, 200, UPLIFT)
    return None if read.interval is None else read.interval[0] <= gain <= read.interval[1]


def offer_price(dice: random.Random) -> bool | None:
    """Read the price of such an offer."""
    read, _, true = offer_reread(dice, 200, UPLIFT)
    return price_covers(read.price, true)


def offer_shown(dice: random.Random) -> bool | None:
    """Offers add nothing; people repair half of what one side lost."""
    read, _, _ = offer_reread(dice, 200, 0.0)
    return read.verdict in SHOWN or read.running.verdict in SHOWN


def campaign_reread(dice: random.Random, effect: float) -> CampaignFinding:
    """Return what a campaign of 24 roots x 4 says once people have repaired half of what one side lost."""
    rates = [dice.choice([0.2, 0.3, 0.5, 0.6]) for _ in range(24)]
    pairs = [
        RootPair(f"{root}", "k", 0, drawn_arm(dice, 4, rate + effect), drawn_arm(dice, 4, rate))
        for root, rate in enumerate(rates)
    ]
    side = dice.choice(["treated", "control"])

    def fixed(arm: ForkArm) -> ForkArm:
        return replace(arm, complete=arm.complete + sum(dice.random() < 0.5 for _ in range(arm.known - arm.complete)))

    repaired = [replace(pair, **{side: fixed(getattr(pair, side))}) for pair in pairs]
    return rereading.campaign(campaigned.finding(repaired), campaigned.finding(pairs))


def campaign_covers(dice: random.Random) -> bool | None:
    """Play a change that adds 15 points; people repair half of what one side lost."""
    span = campaign_reread(dice, 0.15).cells[0].together
    return None if span is None else span[0] <= 0.15 <= span[1]


def campaign_shown(dice: random.Random) -> bool | None:
    """Play a change that does nothing; people repair half of what one side lost."""
    return bool(campaign_reread(dice, 0.0).cells[0].verdict)


def forks_of(dice: random.Random, tries: int, forks: int) -> list[tuple[float, ForkFinding]]:
    """Return the true effects of changes, of which 60% do nothing, with what their forks show at first."""
    seen = []
    for _ in range(forks):
        effect = 0.0 if dice.random() < 0.6 else dice.uniform(0.1, 0.4)
        rate = dice.uniform(0.1, 0.6)
        arms = drawn_arm(dice, tries, rate + effect), drawn_arm(dice, tries, rate)
        seen.append((effect, forked.finding(*arms, "", "")))
    return seen


def share_wrong_covers(tries: int) -> World:
    """Make a dataset of the pairs that 300 forks show; in half of these people repair what the better arm lost."""

    def play(dice: random.Random) -> bool | None:
        first = forks_of(dice, tries, 300)
        seen = []
        for effect, before in first:
            if before.verdict == "better" and dice.random() < 0.5:
                now = forked.finding(replace(before.treated, complete=tries), before.control, "", "")
                before = rereading.fork(now, before)
            seen.append((effect, before))
        priors = rereading.priors([fork for _, fork in seen])
        pairs = [(effect, fork) for effect, fork in seen if fork.verdict]
        if not pairs:
            return None
        _, low, high = worth.share_wrong([rereading.worth(fork, *priors).wrongs for _, fork in pairs])
        wrong = sum(not effect or (effect > 0) != (fork.verdict == "better") for effect, fork in pairs)
        return low <= wrong / len(pairs) <= high

    return play


def worth_covers(tries: int) -> World:
    """Take a pair of a dataset of 100 forks, and repair what the better arm lost in it."""

    def play(dice: random.Random) -> bool | None:
        first = forks_of(dice, tries, 100)
        better = [place for place, (_, seen) in enumerate(first) if seen.verdict == "better"]
        if not better:
            return None
        place = dice.choice(better)
        effect, before = first[place]
        now = forked.finding(replace(before.treated, complete=tries), before.control, "", "")
        read = [seen for _, seen in first]
        read[place] = rereading.fork(now, before)
        change = rereading.worth(read[place], *rereading.priors(read))
        return change.low <= effect <= change.high

    return play


def cases() -> Iterator[PlantedCase]:
    case = partial(PlantedCase, share=0.475)
    for tasks in (60, 150):
        world = f"{tasks} tasks, 20 points and 5 minutes more"
        yield case("Price: interval", world, run_price(tasks, repaired=False), covers=True)
        play = run_price(tasks, repaired=True)
        yield case("Erratum: price of a run", f"{world}, half of what it lost is repaired", play, covers=True)
    for tasks in (150, 300):
        world = f"{tasks} tasks, 20 points and 5 minutes more, one answer for twelve of them"
        yield case("Price: interval", world, shared_price(tasks), covers=True)
    half = "half of what one side lost is repaired"
    world = f"200 episodes, 20 points more, {half}"
    yield case("Erratum: interval of help by draw", world, offer_covers, covers=True)
    yield case("Erratum: price of help by draw", f"{world}, 5 minutes each", offer_price, covers=True)
    yield case("Erratum: help by draw shown", f"200 episodes, no effect, {half}", offer_shown)
    roots = "24 roots x 4"
    yield case("Erratum: interval of a campaign", f"{roots}, 15 points more, {half}", campaign_covers, True)
    yield case("Erratum: campaign shown", f"{roots}, no effect, {half}", campaign_shown)
    for tries in (8, 16):
        world = f"100 forks of {tries} v {tries}, 60% do nothing, what a pair's better arm lost is repaired"
        yield case("Erratum: interval of worth", world, worth_covers(tries), covers=True)
        world = f"300 forks of {tries} v {tries}, 60% do nothing, what half of the better arms lost is repaired"
        yield case("Erratum: share of wrong pairs", world, share_wrong_covers(tries), covers=True, share=0.2)

"""Worlds whose rows are in a database, read by the product's own readers: branches that a server ended or a person
erased, models that repeat themselves, outcomes without a verdict in lists, and answers that were edited.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial

from django.utils import timezone

from awmclient.schema import NOT_COUNTED, AskOpen, EpisodeStart
from awmweb.erasing.episodes import erase_rows
from bench.planted.case import PlantedCase, World
from bench.planted.corrected import MINUTES, UPLIFT, price_covers
from bench.planted.rows import (
    ARMS,
    CONTROL,
    ROOTS,
    TREATED,
    TRIES,
    CampaignRows,
    DeskRows,
    ForkRows,
    RunRows,
    answered,
    campaign_rows,
    desk_rows,
    end,
    fork_rows,
    run_rows,
    stored,
)
from bench.planted.shares import holds
from episodes.models import Episode, Step
from episodes.record import recording
from episodes.show import wall
from experts.metrics.records import Look, metrics_of
from experts.models import Assignment
from experts.record import advising, opening, queue
from exports.select.measured import measured
from people.models import new_id
from runs.models import Campaign
from runs.plan import spending
from runs.show import campaigns, forks
from runs.show.campaigns import CampaignView
from runs.show.comparison import compare_run
from runs.statistics.campaigned import ALL, CampaignCell
from runs.statistics.forked import ForkFinding
from tests.runs.planned import ended_rows

ENDINGS = sorted(NOT_COUNTED)
"""How a server, a verifier or a filter ends an episode, which says nothing of its agent."""
EFFECT = 0.15
"""What the change of a campaign adds where it adds something."""
Rates = Mapping[str, float]
"""By arm, how often its branches are complete, or are lost."""
Happening = Callable[[random.Random, ForkRows, Rates], None]
"""What happens to the branches of a fork that end at these rates."""


def drawn(dice: random.Random, branches: Sequence[Episode], rates: Rates, lost: Rates) -> list[str]:
    """Return how each branch ended, at the rate of its arm; a server or filter ended this share of it."""
    types = []
    for branch in branches:
        complete, is_lost = dice.random() < rates[branch.branch_arm], dice.random() < lost[branch.branch_arm]
        types.append(dice.choice(ENDINGS) if is_lost else "complete" if complete else "others")
    return types


def alike(dice: random.Random, branches: Sequence[Episode], rates: Rates, sizes: Sequence[int]) -> list[str]:
    """Return how each branch ended if an arm has groups of these sizes, each of which made one choice; and store what
    each of them said."""
    types, steps = [], []
    for arm in ARMS:
        mine = iter([one for one in branches if one.branch_arm == arm])
        for number, size in enumerate(sizes):
            kind = "complete" if dice.random() < rates[arm] else "others"
            body = {"seq": 2, "kind": "message", "role": "assistant", "content": f"{arm} {number}", "turn": 1}
            for branch in (next(mine) for _ in range(size)):
                types.append(kind)
                steps.append(Step(episode=branch, seq=2, kind="message", body=json.dumps(body), at=branch.ended_at))
    Step.objects.bulk_create(steps)
    return types


def against(dice: random.Random, branches: Sequence[Episode], types: Sequence[str]) -> set[str]:
    """Return the branches that a person loses who favors the arm that did better: its failures, what the other one
    completed, or both, and all of them or a half."""
    ends = [(branch, kind == "complete") for branch, kind in zip(branches, types, strict=True)]
    wins = {arm: sum(won for branch, won in ends if branch.branch_arm == arm) for arm in ARMS}
    favored = max(ARMS, key=lambda arm: (wins[arm], dice.random()))
    lost, share = dice.choice([{favored}, set(ARMS) - {favored}, set(ARMS)]), dice.choice([0.5, 1.0])
    worse = [branch.pk for branch, won in ends if branch.branch_arm in lost and won is (branch.branch_arm != favored)]
    return set(dice.sample(worse, round(share * len(worse))))


def shown(rows: ForkRows) -> ForkFinding:
    """Return what the page of a fork shows."""
    finding = forks.finding_of(rows.actor, rows.fork, list(Episode.every.filter(fork=rows.fork)))
    assert finding is not None, "awmweb itself sees every outcome"
    return finding


def is_said(rows: ForkRows) -> bool:
    """Return whether a fork says a word, or makes a pair of a dataset."""
    return bool(shown(rows).verdict or measured(Episode.objects.filter(pk=rows.fork.parent_id)))


def even(dice: random.Random) -> Rates:
    """Return one rate for both arms."""
    return dict.fromkeys(ARMS, dice.uniform(0.05, 0.95))


def uneven(dice: random.Random) -> Rates:
    return {arm: dice.uniform(0.1, 0.9) for arm in ARMS}


def fork_says(tries: int, how: Happening) -> World:
    """Make a fork whose change does nothing, and let something happen to its branches."""

    def play(dice: random.Random, rows: ForkRows) -> bool | None:
        how(dice, rows, even(dice))
        return is_said(rows)

    return stored(partial(fork_rows, tries), play)


def fork_covers(tries: int, how: Happening) -> World:
    """Read the interval of a fork of any two rates."""

    def play(dice: random.Random, rows: ForkRows) -> bool | None:
        rates = uneven(dice)
        how(dice, rows, rates)
        return holds(shown(rows).interval, rates[TREATED] - rates[CONTROL])

    return stored(partial(fork_rows, tries), play)


def by_server(*lost: float) -> Happening:
    """End these shares of both arms by a server or filter, whatever they would have shown."""

    def how(dice: random.Random, rows: ForkRows, rates: Rates) -> None:
        end(rows.branches, drawn(dice, rows.branches, rates, dict(zip(ARMS, lost, strict=True))))

    return how


def by_what_they_showed(dice: random.Random, rows: ForkRows, rates: Rates) -> None:
    """End by a server or filter what goes against the arm that did better."""
    types = drawn(dice, rows.branches, rates, dict.fromkeys(ARMS, 0.0))
    lost = against(dice, rows.branches, types)
    ends = zip(rows.branches, types, strict=True)
    end(rows.branches, [dice.choice(ENDINGS) if branch.pk in lost else kind for branch, kind in ends])


def by_person(dice: random.Random, rows: ForkRows, rates: Rates) -> None:
    """Erase what goes against the arm that did better."""
    types = drawn(dice, rows.branches, rates, dict.fromkeys(ARMS, 0.0))
    end(rows.branches, types)
    erase_rows(rows.actor, against(dice, rows.branches, types))


def by_model(*sizes: int) -> Happening:
    """Let a model repeat itself: an arm has groups of these sizes."""

    def how(dice: random.Random, rows: ForkRows, rates: Rates) -> None:
        end(rows.branches, alike(dice, rows.branches, rates, sizes))

    return how


Play = Callable[[random.Random, CampaignRows, list[str]], None]


def view_of(rows: CampaignRows, dice: random.Random, effect: float, how: Play, lost: float = 0.0) -> CampaignView:
    """Return what a campaign shows whose roots differ in how hard they are, after something has happened."""
    types: list[str] = []
    size = 2 * TRIES
    for place in range(ROOTS):
        rate = dice.choice([0.1, 0.2, 0.3, 0.5, 0.6])
        mine = rows.branches[size * place : size * (place + 1)]
        types += drawn(dice, mine, {TREATED: rate + effect, CONTROL: rate}, {TREATED: lost, CONTROL: 0.0})
    how(dice, rows, types)
    return campaigns.seen(rows.actor, Campaign.objects.select_related("project").get(pk=rows.campaign.pk))


def campaign_says(how: Play, lost: float = 0.0) -> World:
    """Read a campaign whose change does nothing; None where it is withheld."""

    def play(dice: random.Random, rows: CampaignRows) -> bool | None:
        finding = view_of(rows, dice, 0.0, how, lost).finding
        return None if finding is None else any(one.verdict for one in finding.cells)

    return stored(campaign_rows, play)


def campaign_covers(how: Play, lost: float = 0.0, effect: float = EFFECT) -> World:
    """Read the interval of a campaign; None where it is withheld."""

    def play(dice: random.Random, rows: CampaignRows) -> bool | None:
        finding = view_of(rows, dice, effect, how, lost).finding
        cells: list[CampaignCell] = finding.of(ALL) if finding is not None else []
        return holds(cells[0].together, effect) if cells else None

    return stored(campaign_rows, play)


def campaign_withheld(how: Play) -> World:
    """Read whether a campaign says only that episodes were erased."""

    def play(dice: random.Random, rows: CampaignRows) -> bool | None:
        view = view_of(rows, dice, 0.0, how)
        return view.finding is None and "erased since the launch" in view.sentence

    return stored(campaign_rows, play)


def nothing_erased(_dice: random.Random, rows: CampaignRows, types: list[str]) -> None:
    end(rows.branches, types)


def one_draw_each(_dice: random.Random, rows: CampaignRows, types: list[str]) -> None:
    """Let every branch of an arm of a root end as its first one: the model repeats itself."""
    end(rows.branches, [types[place - place % TRIES] for place in range(len(types))])


def branches_erased(dice: random.Random, rows: CampaignRows, types: list[str]) -> None:
    """Erase what goes against the arm that did better."""
    end(rows.branches, types)
    erase_rows(rows.actor, against(dice, rows.branches, types))


def oldest_erased(_dice: random.Random, rows: CampaignRows, types: list[str]) -> None:
    """Erase the branches of the older half of the forks, as a rule by age does."""
    end(rows.branches, types)
    erase_rows(rows.actor, {branch.pk for branch in rows.branches[: len(rows.branches) // 2]})


def roots_erased(dice: random.Random, rows: CampaignRows, types: list[str]) -> None:
    """Erase the roots that went the other way than most, with their branches."""
    end(rows.branches, types)
    size, won = 2 * TRIES, {}
    for place in range(ROOTS):
        mine = [kind == "complete" for kind in types[size * place : size * (place + 1)]]
        won[str(rows.branches[size * place].fork.parent_id)] = sum(mine[:TRIES]) - sum(mine[TRIES:])
    up = sum(won.values()) >= 0
    worse = sorted(root for root, by in won.items() if (by < 0 if up else by > 0))
    lost = set(dice.sample(worse, dice.randint(1, len(worse)))) if worse else {dice.choice(sorted(won))}
    erase_rows(rows.actor, lost | {one.pk for one in rows.branches if one.fork.parent_id in lost})


def desk_covers(dice: random.Random, rows: DeskRows) -> bool | None:
    """Read *Episode completed* where a server or filter ended a third of the episodes; half of the others do."""
    end(rows.episodes, _third_lost(dice, rows.episodes)[0])
    share = metrics_of(rows.actor, Look(time="all"), timezone.now()).desk.completed
    return None if share.low is None or share.high is None else share.low <= 0.5 <= share.high


def list_is_exact(dice: random.Random, rows: DeskRows) -> bool | None:
    """Read how many episodes the list calls verified and complete, where a server or filter ended a third."""
    types, complete, counted = _third_lost(dice, rows.episodes)
    end(rows.episodes, types)
    seen = wall.tallies(rows.actor)
    return (seen.verified, seen.complete) == (counted, complete)


def _third_lost(dice: random.Random, episodes: Sequence[Episode]) -> tuple[list[str], int, int]:
    """Return how episodes ended, and how many are complete of those that count. Tasks differ in how hard they are."""
    types = []
    for _ in episodes:
        kind = "complete" if dice.random() < dice.betavariate(0.5, 0.5) else "others"
        types.append(dice.choice(ENDINGS) if dice.random() < 1 / 3 else kind)
    return types, types.count("complete"), sum(kind not in NOT_COUNTED for kind in types)


def sum_is_exact(dice: random.Random, rows: DeskRows) -> bool | None:
    """Let a person answer asks after times of our own, edit some up to three times, and withdraw some first: the sum
    is that of the times, but for the seconds that this machine took."""
    planted, starts = 0.0, []
    for _ in range(2):
        start = EpisodeStart(key=new_id(), task="t", expert="plain")
        episode, _ = recording.start_episode(rows.actor, start)
        starts.append(episode.pk)
        question = AskOpen(key="q", episode=episode.pk, seq=1, question="Into which one?")
        ask, _ = opening.open_ask(rows.actor, question)
        lease = queue.claim(rows.expert, ask.pk)
        seconds = dice.uniform(20, 200)
        Assignment.objects.filter(ask=ask).update(claimed_at=timezone.now() - timedelta(seconds=seconds))
        advising.answer(rows.expert, lease.assignment_id, lease.lease_token, "This.", new_id())
        if dice.random() < 0.3:
            lease = advising.withdraw(rows.expert, ask.pk)
            advising.answer(rows.expert, lease.assignment_id, lease.lease_token, "That.", new_id())
        for edit in range(dice.randint(0, 3)):
            advising.edit(rows.expert, ask.pk, f"This {edit}.", None, new_id())
        planted += seconds
    return 0 <= spending.human_s(Episode.objects.filter(pk__in=starts)) - planted < 10


def edited_price(dice: random.Random, rows: RunRows) -> bool | None:
    """Read the price of an extra success of a run whose answers were edited up to three times."""
    ends, asked = {}, []
    for task in range(len(rows.episodes) // 2):
        base = dice.uniform(0.1, 0.9 - UPLIFT)
        ends[rows.episodes[task, "baseline"]] = dice.random() < base
        ends[rows.episodes[task, "expert"]] = dice.random() < base + UPLIFT
        asked.append(Episode(pk=rows.episodes[task, "expert"]))
    ended_rows(ends)
    took = [60 * MINUTES * dice.uniform(0.4, 1.6) for _ in asked]
    answered(rows.project, asked, [[seconds] * dice.randint(1, 4) for seconds in took])
    (contrast,) = compare_run(rows.actor, rows.plan.pk, is_bare=True).contrasts
    return price_covers(contrast.price, MINUTES / UPLIFT)


def cases() -> Iterator[PlantedCase]:
    """Yield every case. With as many worlds of 1000 repeats a standard error at 5% is one point."""
    case = partial(PlantedCase, stored=True, share=0.475)
    happens: dict[str, Happening] = {
        "a server or filter ends 40% of one arm": by_server(0.0, 0.4),
        "a server ends what goes against the better arm": by_what_they_showed,
        "a person erases what goes against the better arm": by_person,
        "all branches of an arm alike": by_model(8),
        "half of an arm alike": by_model(4, 1, 1, 1, 1),
        "each continuation twice": by_model(2, 2, 2, 2),
    }
    for world, how in happens.items():
        yield case("Fork: better or worse", f"8 v 8, no effect, {world}", fork_says(8, how))
        yield case("Fork: interval", f"8 v 8, any two rates, {world}", fork_covers(8, how), covers=True)
    size = f"{ROOTS} roots x {TRIES}"
    of_campaigns: dict[str, tuple[Play, float]] = {
        "a server or filter ends 40% of one arm": (nothing_erased, 0.4),
        "a person erases branches against the better arm": (branches_erased, 0.0),
        "the older half of the branches is erased by age": (oldest_erased, 0.0),
        "every arm of a root is alike": (one_draw_each, 0.0),
    }
    for world, (play, lost) in of_campaigns.items():
        yield case("Campaign: shown", f"{size}, no effect, {world}", campaign_says(play, lost))
        world = f"{size}, 15 points more, {world}"
        yield case("Campaign: interval of a place", world, campaign_covers(play, lost), covers=True)
    world = f"{size}, no effect, a person erases episodes that went the other way"
    yield case("Campaign: shown", world, campaign_says(roots_erased))
    yield case("Campaign: withheld", world, campaign_withheld(roots_erased), covers=True, share=0.2)
    world, rows = "48 tasks, a server or filter ends a third", partial(desk_rows, 48)
    yield case("Metrics: episode completed", world, stored(rows, desk_covers), covers=True)
    yield case("List: verified and complete", world, stored(rows, list_is_exact), covers=True, share=0.2)
    world = "two answers, edited up to three times, some withdrawn"
    yield case("Minutes: sum", world, stored(partial(desk_rows, 0), sum_is_exact), covers=True, share=0.2)
    world = "60 tasks, 20 points and 5 minutes more, answers edited up to three times"
    yield case("Price: interval", world, stored(partial(run_rows, 60), edited_price), covers=True)

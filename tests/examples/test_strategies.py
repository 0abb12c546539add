"""`make strategies` and `make prices`: who may ask, what is kept of a killed run, and what the pages say."""

from __future__ import annotations

import asyncio
import json
import random

import pytest

from examples.strategies import page
from examples.strategies.plan import PRICED, STRATEGIES, Plan, help_of, level
from examples.strategies.state import OtherPlan, State, write_whole

ARMS = {arm.name: arm for arm in STRATEGIES}
PLAN = Plan(STRATEGIES, steps=4, groups=2, group=8, held_desks=1, looks=2, look_tasks=5)


def step(number, errors=0, **solo):
    """A training step of 16 counted rollouts; `solo` has complete and counted ones of a family."""
    helped = {"count": [3, 1, 4]}
    return {"step": number, "counted": 16, "errors": errors, "asks": 2, "solo": solo, "helped": helped}


def test_fixed_arms_offer_none_all_and_half():
    assert [help_of(ARMS[name], 8, [])("count") for name in ("none", "always", "mixed")] == [0, 8, 4]


def test_help_by_format_errors_follows_the_rule_of_428():
    arm = ARMS["adaptive_errors"]
    offered = [help_of(arm, 8, [step(1, errors)])("count") for errors in (12, 8, 1)]
    assert help_of(arm, 8, [])("count") == 6 and offered == [6, 4, 2]


def test_help_by_levels_differs_by_family():
    steps = [step(1, count=[7, 8], close=[2, 8], agreed=[0, 8], tag=[1, 2])]
    offer = help_of(ARMS["adaptive_levels"], 8, steps)
    assert [offer(family) for family in ("count", "close", "agreed", "tag", "new")] == [2, 4, 6, 6, 6]
    # what was long ago does not count
    later = [*steps, *(step(at, close=[8, 8]) for at in range(2, 12))]
    assert level("close", later) == "easy" and level("agreed", later) == "unknown"


def test_units_go_seed_by_seed_and_finished_ones_are_read(tmp_path):
    state = State(tmp_path, PLAN)
    units = list(state.units([1, 2]))
    assert [(one.seed, one.arm.name) for one in units[:6]] == [*((1, name) for name in ARMS), (2, "none")]
    write_whole(units[0].checkpoint, lambda file: file.write_text("going"))
    units[0].finish({"solo": []})
    again = list(State(tmp_path, PLAN).units([1, 2]))
    assert [one.result for one in again[:2]] == [{"solo": []}, None]
    assert not again[0].checkpoint.exists()
    assert State(tmp_path, PLAN).whole([1]) == {}
    for one in again[1:5]:
        one.finish({})
    assert list(State(tmp_path, PLAN).whole([1, 2])) == [1]


def test_a_folder_of_another_plan_is_refused(tmp_path):
    State(tmp_path, PLAN)
    with pytest.raises(OtherPlan, match="another plan"):
        State(tmp_path, Plan(STRATEGIES))


def test_prices_go_on_from_what_strategies_left(tmp_path):
    always = next(one for one in State(tmp_path, Plan(STRATEGIES)).units([1]) if one.arm.name == "always")
    always.finish({"solo": []})
    left = [one.arm.name for one in State(tmp_path, Plan(PRICED)).units([1]) if one.result is None]
    assert left == [arm.name for arm in PRICED if arm.price]


def test_a_file_is_there_whole_or_not_at_all(tmp_path):
    def killed(file):
        file.write_text("half")
        raise KeyboardInterrupt

    write_whole(tmp_path / "result.json", lambda file: file.write_text("whole"))
    with pytest.raises(KeyboardInterrupt):
        write_whole(tmp_path / "result.json", killed)
    assert (tmp_path / "result.json").read_text() == "whole"


def results_of(arms, seeds, rates, asked=None):
    """Results of all arms, whose held-out tasks are complete by a rate and asked about by two."""
    chance, asked = random.Random(1), asked or {}
    found = {}
    for seed in seeds:
        found[seed] = {}
        for arm in arms:
            needed, needless = asked.get(arm.name, (1.0, 0.5))
            solo, offered = [], []
            for at in range(100):
                needs = at % 5 == 4
                one = {"place": f"desk/{at}", "family": "agreed" if needs else "count", "needs": needs, "asks": 0}
                done = at / 100 < rates[arm.name] + chance.choice((0.0, 0.01))
                asks = int((at // 5) / 20 < (needed if needs else needless))
                solo.append({**one, "complete": done})
                offered.append({**one, "complete": done, "asks": asks})
            looks = [{"step": at, "solo": 0.5, "offered": 0.6} for at in (2, 4)]
            steps = [step(at, count=[2, 4]) for at in range(1, 5)]
            about = {"arm": arm.name, "price": arm.price, "seconds": 9.0, "looks": looks, "steps": steps}
            found[seed][arm.name] = {**about, "solo": solo, "offered": offered}
    return found


STARTS = {seed: {"digest": f"d{seed}", "look": {"step": 0, "solo": 0.4, "offered": 0.5}} for seed in range(1, 7)}


def test_page_says_what_six_seeds_show_and_draws_six_charts(tmp_path):
    rates = {"none": 0.5, "always": 0.5, "mixed": 0.5, "adaptive_errors": 0.5, "adaptive_levels": 0.6}
    file = tmp_path / "strategies.md"
    page.write("strategies", PLAN, STARTS, results_of(STRATEGIES, STARTS, rates), file)
    text = file.read_text()
    assert "adaptive_levels against none: Better over these 6 seeds: +10 points" in text
    assert "adaptive_errors against none: No difference shown over these 6 seeds" in text
    assert "adaptive_levels against always: Not tested" in text
    titles = [line for line in text.splitlines() if line.startswith("## ")]
    assert [title[:4] for title in titles] == ["## I", "## 1", "## 2", "## 3", "## 4", "## 5", "## V", "## C"]
    charts = sorted((tmp_path / "strategies").glob("*.png"))
    assert len(charts) == 6 and all(f"strategies/{chart.name}" in text for chart in charts)


def test_page_says_so_if_nothing_is_shown(tmp_path):
    file = tmp_path / "strategies.md"
    results = results_of(STRATEGIES, STARTS, dict.fromkeys(ARMS, 0.5))
    page.write("strategies", PLAN, STARTS, results, file)
    short = file.read_text().partition("## In short")[2].partition("##")[0]
    assert "Nothing is shown of the planned question" in short and "in four of five repeats" in short


def test_page_of_an_unfinished_comparison_claims_nothing(tmp_path):
    file = tmp_path / "strategies.md"
    page.write("strategies", PLAN, {}, {}, file)
    assert "No seed is through yet." in file.read_text() and not (tmp_path / "strategies").exists()


def test_page_of_prices_counts_the_seeds_that_reach_the_goal(tmp_path):
    plan = Plan(PRICED, steps=4)
    rates = {arm.name: 0.5 for arm in PRICED} | {"always": 0.4}
    asked = {arm.name: (1.0, 0.0) for arm in PRICED} | {"always": (1.0, 0.9), "price_0.3": (0.2, 0.0)}
    file = tmp_path / "prices.md"
    page.write("prices", plan, STARTS, results_of(PRICED, STARTS, rates, asked), file)
    text = file.read_text()
    assert "| 0.1 | 6 of 6 | 6 of 6 | 6 of 6 | 6 of 6 | **6 of 6** |" in text
    assert "| 0.3 | 0 of 6 | 6 of 6 | 6 of 6 | 6 of 6 | **0 of 6** |" in text
    assert "price_0.01 against always: Fewer over these 6 seeds: -90 points" in text and "Worse" not in text
    assert (tmp_path / "prices" / "success.png").exists()


class Killed(Exception):
    """The end of a process."""


class Ground:
    """Rollouts whose end is drawn, and a kill at a step."""

    def __init__(self, killed_at=None):
        self.killed_at, self.played, self.steps = killed_at, [], []

    async def start_run(self, name, metadata):
        return {"run": name}

    async def report(self, run, step, losses, counts):
        self.steps.append(step)

    async def play(self, sampler, place, *, helped, redrawn=None, training_step, **about):
        from examples.train_demo.learning import Played

        if training_step == self.killed_at:
            raise Killed
        self.played.append(training_step)
        done = random.Random(f"{training_step} {self.played.count(training_step)}").random() < 0.5
        return Played([3, 4, 5], [0, 0, 1], [0.0, 0.0, -3.0], complete=done, helped=helped, asks=int(helped))

    async def read(self, sampler, some, *, helped, **about):
        from examples.train_demo.playing import Reading

        return [Reading(one.name, one.task.family, one.task.needs, True, int(helped)) for one in some]


@pytest.mark.train
def test_a_killed_arm_goes_on_from_its_checkpoint_and_ends_alike(tmp_path):
    import torch

    from examples.strategies.training import train
    from examples.train_demo.house import Start, training_worlds
    from examples.train_demo.model import Size, Tiny
    from examples.train_demo.playing import places
    from examples.train_demo.words import trained_tokenizer

    plan = Plan((ARMS["mixed"],), steps=8, groups=2, group=4, looks=2, look_tasks=3)
    worlds = training_worlds(1)
    tokenizer = trained_tokenizer([task.text for task in worlds[0].tasks])
    torch.manual_seed(1)
    start = Start([], tokenizer, Tiny(Size(tokenizer.get_vocab_size())).state_dict(), 0, 0.0)
    weights = []
    for folder, killed_at in (("whole", None), ("killed", 7)):
        [unit] = State(tmp_path / folder, plan).units([1])

        def go(ground, unit=unit):
            asyncio.run(train(unit, plan, start, ground, places(worlds), places(worlds)[:4], lambda text: None))

        if killed_at:
            with pytest.raises(Killed):
                go(Ground(killed_at))
            assert unit.checkpoint.exists() and unit.result is None
        ground = Ground()
        go(ground)
        assert ground.steps == (list(range(6, 9)) if killed_at else list(range(1, 9)))
        result = json.loads((unit.folder / "result.json").read_text())
        assert [one["step"] for one in result["steps"]] == list(range(1, 9))
        assert sum(one["helped"][family][-1] for one in result["steps"] for family in one["helped"]) == 32
        weights.append(torch.load(unit.folder / "model.pt", weights_only=True))
    assert not torch.equal(weights[0]["words.weight"], start.weights["words.weight"])
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


@pytest.mark.train
def test_start_of_a_seed_is_the_same_in_every_process(tmp_path):
    import subprocess
    import sys

    from tests.examples.test_train_demo import ROOT

    code = (
        "from examples.train_demo.house import trained_start\n"
        "from tests.examples.test_train_demo import row\n"
        "print(trained_start([row()] * 3, 1, 3, print).digest)"
    )
    made = [
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True, timeout=300)
        for _ in range(2)
    ]
    assert len({one.stdout.strip() for one in made}) == 1

"""The example `make train-demo`: its worlds on the environment server, and, as `train`, what its model learns from."""

from __future__ import annotations

import asyncio
import random
import re
import subprocess
import sys

import pytest
import yaml

from awmclient.choosing.scripted import ScriptedPolicy
from awmclient.loop.rollout import rollout
from awmclient.testing import MemoryDashboard
from awmenv.client import EnvironmentClient
from examples.train_demo import results
from examples.train_demo.worlds import FAMILIES, NO_ONE, ON_RECORD, World, write_worlds
from tests.awmenv.conftest import ROOT, start_server

TOOLS = [
    {"function": {"name": name, "parameters": {"properties": kinds, "required": list(kinds)}}}
    for name, kinds in {
        "find_customer": {"text": {"type": "string"}},
        "refund_order": {"order_id": {"type": "integer"}, "amount": {"type": "integer"}},
    }.items()
]


def row():
    """An `sft` row of a refund, with an ask."""
    asked = {"name": "ask_expert", "arguments": {"question": "how much was agreed with Ada Balo"}}
    calls = [{"name": "find_customer", "arguments": {"text": "Ada Balo"}}, asked]
    calls.append({"name": "refund_order", "arguments": {"order_id": 123, "amount": 45}})
    results = [
        '[{"id": 150, "name": "Ada Balo"}]',
        '{"status": "advice", "advice": "we agreed on 45"}',
        '{"refunded": 45}',
    ]
    messages = [{"role": "system", "content": "You carry out"}, {"role": "user", "content": "Refund it to Ada Balo"}]
    for call, result in zip(calls, results, strict=True):
        messages.append({"role": "assistant", "content": "", "tool_calls": [{"function": call}]})
        messages.append({"role": "tool", "content": result})
    offered = [*TOOLS, {"function": {"name": "ask_expert", "parameters": {"properties": {}}}}]
    return {"messages": [*messages, {"role": "assistant", "content": "done"}], "tools": offered}


def test_demonstrations_pass_and_other_ends_do_not(tmp_path):
    """Each family once, over the environment server: the demonstration is complete, its first half alone is not."""
    world = World(7, FAMILIES, len(FAMILIES))
    write_worlds(tmp_path / "sources", [world])
    build = [sys.executable, str(ROOT / "packs/sources/build.py"), "--sources", str(tmp_path / "sources")]
    subprocess.run([*build, "--output", str(tmp_path / "desks")], check=True, timeout=90)
    server = start_server(tmp_path, tmp_path / "desks")

    async def verdict(at: int, turns: list) -> str:
        found = []

        async def judge(env: EnvironmentClient, answer: str | None) -> None:
            found.append((await env.verify(answer)).reward_type)

        async with EnvironmentClient(server.url) as env:
            dash = MemoryDashboard(expert=lambda question: world.tasks[at].note)
            place = {"scenario": world.name, "task_idx": at, "expert": "plain"}
            await rollout(ScriptedPolicy(turns), env, dash, task="t", on_end=judge, verify=True, **place)
        return found[0]

    async def verdicts() -> list[tuple[str, str]]:
        return [
            (await verdict(at, task.turns), await verdict(at, [*task.turns[:2], {"answer": "done"}]))
            for at, task in enumerate(world.tasks)
        ]

    try:
        assert asyncio.run(verdicts()) == [("complete", "others")] * len(FAMILIES)
    finally:
        server.stop()


def test_worlds_of_one_seed_are_equal_and_of_two_are_not():
    first, again, other = World(7, FAMILIES, 10), World(7, FAMILIES, 10), World(8, FAMILIES, 10)
    assert [task.text for task in first.tasks] == [task.text for task in again.tasks]
    assert first.rows == again.rows
    assert {(task.needs, task.demo) for task in first.tasks if task.needs} == {(True, "asked")}
    assert {task.demo for task in World(7, FAMILIES, 20).tasks if not task.needs} == {"alone", "asked", "offered"}
    asked = first.tasks[4]
    assert first.answer(f"how much was agreed with {asked.name}?") == asked.note
    assert first.answer(f"what is known of {first.tasks[0].name}") == ON_RECORD and first.answer("who") == NO_ONE
    assert not {task.text for task in first.tasks} & {task.text for task in other.tasks}


@pytest.mark.train
def test_template_learns_only_what_the_agent_wrote():
    from examples.train_demo.words import Redrawn, call_of, encoded, redrawn, told, trained_tokenizer

    segments = told(row()["messages"], row()["tools"])
    assert [text for text, learns in segments if learns] == [
        "find_customer Ada Balo <end>", "ask_expert how much was agreed with Ada Balo <end>",
        "refund_order 123 45 <end>", "answer done <end>",
    ]  # fmt: skip
    assert [text for text, learns in segments if not learns][1:] == [
        "<got> 150 Ada Balo <say>", "<got> we agreed on 45 <say>", "<got> 45 <say>",
    ]  # fmt: skip
    assert call_of("refund_order 123 45", TOOLS) == ("refund_order", {"order_id": 123, "amount": 45})
    assert call_of("find_customer Ada Balo", TOOLS) == ("find_customer", {"text": "Ada Balo"})
    assert call_of("answer done", TOOLS) == "done"
    other = " ".join(text for text, _ in redrawn(segments, random.Random(1)))
    assert other.split()[3:6] != ["Ada", "Balo"] and other.count(" ".join(other.split()[4:6])) == 4
    exchange = Redrawn(random.Random(2))
    there = exchange.there("refund 123 45 of Ada Balo for the mug")
    assert there != "refund 123 45 of Ada Balo for the mug" == exchange.back(there)
    tokenizer = trained_tokenizer([text for text, _ in segments])
    ids, mask = encoded(tokenizer, segments)
    learned = tokenizer.decode(
        [one for one, learns in zip(ids, mask, strict=True) if learns], skip_special_tokens=False
    )
    assert learned == " ".join(text for text, learns in segments if learns)


@pytest.mark.train
def test_sampler_and_learner_agree_on_probabilities():
    """In a batch of contexts of unlike length: padding, positions and the cache change nothing."""
    import torch

    from examples.train_demo.learning import logps_of
    from examples.train_demo.model import Size, Tiny

    torch.manual_seed(1)
    model = Tiny(Size(40))
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    contexts = [[5, 6, 7], [8, 9, 10, 11, 12, 13], [14]]
    for context, (drawn, logps) in zip(contexts, model.sampled(contexts, end=1, most=6, temperature=1.0), strict=True):
        told = logps_of(model, torch.tensor([context + drawn]))[0, len(context) - 1 :]
        assert told.tolist() == pytest.approx(logps, abs=1e-4)


@pytest.mark.train
def test_update_favors_the_rollouts_that_were_better():
    import torch

    from examples.train_demo.learning import Played, grpo_update, logps_of
    from examples.train_demo.model import Size, Tiny, optimizers

    torch.manual_seed(1)
    model, rows = Tiny(Size(40)), {5: 1.0, 6: 0.0}

    def chance(last: int) -> float:
        return float(logps_of(model, torch.tensor([[3, 4, last]]))[0, -1].detach())

    before = {last: chance(last) for last in rows}
    group = [
        Played([3, 4, last], [0, 0, 1], [0.0, 0.0, before[last]], reward, complete=reward > 0)
        for last, reward in rows.items()
    ]
    flat = [Played([3, 4, 5], [0, 0, 1], [0.0, 0.0, before[5]], 1.0)] * 2
    losses = grpo_update(model, optimizers(model, 1e-2), [group, flat], 1.0)
    assert losses["learned_from"] == 2 and losses["ratio_off"] < 1e-5
    assert chance(5) > before[5] and chance(6) < before[6]
    broken = [Played([3, 4, 5], [0, 0, 1], [0.0] * 3, 1.0), Played([3], [0], [0.0], 0.0, counts=False)]
    assert grpo_update(model, optimizers(model, 1e-2), [broken], 1.0)["learned_from"] == 0


@pytest.mark.train
def test_price_is_not_scaled_up_where_outcomes_are_alike():
    from examples.train_demo.learning import Played, advantages_of

    def of(*rollouts: tuple[bool, int]) -> list[float]:
        group = [Played([], [], [], complete - 0.1 * asks, complete=complete, asks=asks) for complete, asks in rollouts]
        return [value for _, value in advantages_of(group)]

    assert of((False, 1), (False, 0)) == pytest.approx([-0.05, 0.05])
    assert of((True, 1), (False, 0)) == pytest.approx([0.9, -0.9], abs=1e-3)
    assert of((True, 0), (True, 0)) == []


@pytest.mark.train
def test_names_come_back_as_they_were_encoded():
    from examples.train_demo.words import trained_tokenizer

    tokenizer = trained_tokenizer([task.text for task in World(1, FAMILIES, 20).tasks])
    for task in World(2, FAMILIES, 20).tasks:
        assert tokenizer.decode(tokenizer.encode(task.text).ids) == task.text


README = ROOT / "awmenv" / "README.md"
PAGE = ROOT / "docs" / "measured" / "train-demo.md"


def test_results_on_the_space_page_are_those_of_the_demo(tmp_path):
    copy = tmp_path / "README.md"
    copy.write_text(README.read_text())
    page = PAGE.read_text()
    results.write(copy, page)
    assert copy.read_text() == README.read_text()
    rows = results.table(page).splitlines()[2:]
    assert len(rows) == page.count("\n## Seed ") and all(row.count("points") == 1 for row in rows)


def test_results_of_a_page_without_them_are_refused(tmp_path):
    page = PAGE.read_text()
    with pytest.raises(ValueError, match="no results for seed 1"):
        results.table(re.sub(r"- \w+ against .*\n", "", page))
    (tmp_path / "README.md").write_text("nothing")
    with pytest.raises(ValueError, match="no marks"):
        results.write(tmp_path / "README.md", page)


def test_space_page_tells_problem_environment_results_and_links():
    _, head, text = README.read_text().split("---\n", 2)
    assert yaml.safe_load(head)["sdk"] == "docker"
    titles = [line for line in text.splitlines() if line.startswith("## ")]
    assert titles == ["## The problem", "## The environment", "## Run it", "## Results", "## Links"]
    named = re.findall(r"`(docs/[\w./-]+)`", text)
    assert named and all((ROOT / path).exists() for path in named)

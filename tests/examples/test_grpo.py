"""The example `examples/grpo`: TRL trains on rollouts of a running product, with people who answer and a dashboard that
dies (`make test-train`). The model is tiny and random; what it would draw is scripted."""

from __future__ import annotations

import asyncio
import importlib
import json
import re
import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType, SimpleNamespace

import httpx
import pytest

from awmclient.client import HttpDashboard
from awmenv.batches import EnvironmentBatch
from examples.grpo.recipe import RECIPES, Recipe
from examples.grpo.rollouts import Place, Rollouts, settled
from examples.grpo.turns import Chat, Drawn
from tests.documented import proves, run
from tests.running import ROOT, product, until
from tests.tiny_model import write_tiny_model

pytestmark = pytest.mark.train
TINY, GROUP, STEPS = ROOT / "tests/packs/tiny", 4, 2
SECRET = "Into the blue one."
"""What advice says; a model must never be trained on it."""
SILENT = 3
"""The question of each step that nobody answers."""


def packed(file):
    return [json.loads(line) for line in (TINY / file).read_text().splitlines()]


def call(name, arguments):
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


class Script:
    """Draws for the model: every rollout asks first; then every other one does what the task wants."""

    def __init__(self, tokenizer):
        self.tokenizer, self.asked = tokenizer, 0
        scripts = {(one["scenario"], one["task_idx"]): one["scripts"]["oracle"] for one in packed("scripts.jsonl")}
        tasks = {one["scenario"]: one["tasks"] for one in packed("gen_tasks.jsonl")}
        self.oracles = {tasks[scenario][at]: turns for (scenario, at), turns in scripts.items()}

    def __call__(self, _trainer):
        return self.generate

    def generate(self, contexts):
        return [(self.tokenizer(self.said(one), add_special_tokens=False)["input_ids"], []) for one in contexts]

    def said(self, context):
        text = self.tokenizer.decode(context)
        turn = text.count("<|im_start|>assistant") - 1
        if turn == 0:
            self.asked += 1
            return call("ask_expert", {"question": f"Question {self.asked}: where to?"}) + "<|im_end|>"
        oracle = next(turns for task, turns in self.oracles.items() if task in text)
        if int(re.search(r"Question (\d+):", text)[1]) % 2:
            return "Nothing was done.<|im_end|>"
        step = oracle[turn - 1]
        return (step["answer"] if "answer" in step else call(**step["call"])) + "<|im_end|>"


class Desk(threading.Thread):
    """A person who waits until a whole group asks, kills the dashboard once, and answers all but one question."""

    def __init__(self, house):
        super().__init__(daemon=True)
        self.house, self.http = house, house.http(house.token("expert"))
        self.most, self.answered, self.killed, self.problem = 0, set(), 0, None

    def run(self):
        try:
            while len(self.answered) < STEPS * (GROUP - 1):
                self.look()
                time.sleep(0.2)
        except Exception as problem:
            self.problem = problem

    def look(self):
        try:
            found = self.http.get("/asks", params={"status": "open"}).raise_for_status().json()["asks"]
        except httpx.HTTPError:
            return  # the dashboard is down
        self.most = max(self.most, len(found))
        waiting = [one for one in found if one["id"] not in self.answered]
        if len(found) < GROUP and not self.answered:
            return
        if not self.killed:
            self.killed = self.house.kill("web")
            until(lambda: self.house.children()["web"] != self.killed and self.house.healthy(), 90)
            return
        for one in waiting:
            if int(re.search(r"\d+", one["question"])[0]) % GROUP != SILENT:
                self.answer(one)

    def answer(self, ask):
        lease = self.http.post(f"/asks/{ask['id']}/claim", json={}).raise_for_status().json()
        body = {"lease_token": lease["lease_token"], "text": SECRET, "nonce": ask["id"]}
        self.http.post(f"/assignments/{lease['assignment']}/answer", json=body).raise_for_status()
        self.answered.add(ask["id"])


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    words = [(TINY / file).read_text() for file in ("gen_tasks.jsonl", "gen_envs.jsonl", "scripts.jsonl")]
    return write_tiny_model(tmp_path_factory.mktemp("base"), words, vocabulary=2000)


@pytest.fixture
def model(base):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    return AutoModelForCausalLM.from_pretrained(base), AutoTokenizer.from_pretrained(base)


@pytest.fixture
def quiet(monkeypatch):
    for name, value in (("HF_HUB_OFFLINE", "1"), ("TRL_EXPERIMENTAL_SILENCE", "1")):
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="module")
def house():
    """A product whose curriculum serves two tasks of the tiny pack: all others are held out."""
    with product() as running:
        running.manage("loadpack", str(TINY), "--unchecked")
        starter = [json.loads(line) for line in (ROOT / "packs/starter/gen_tasks.jsonl").read_text().splitlines()]
        held = [["lamps_1", 0], *([one["scenario"], at] for one in starter for at in range(len(one["tasks"])))]
        (running.var / "split.json").write_text(json.dumps({"train": [["notes_1", 0], ["notes_1", 1]], "val": held}))
        running.manage("build_split", "--read", str(running.var / "split.json"), "--name", "starter")
        yield running


def place_of(house):
    environment = f"http://127.0.0.1:{house.environment['AWMENV_PORT']}"
    return Place(house.url, house.token("agent"), environment, ask_deadline_s=15)


@pytest.fixture
def sent(monkeypatch):
    """How many episodes each request has recorded, and how many worlds each message has stepped."""
    found = SimpleNamespace(episodes=[], worlds=[])
    record, exchange = HttpDashboard.record_whole, EnvironmentBatch._exchange
    monkeypatch.setattr(
        HttpDashboard, "record_whole", lambda dash, some: found.episodes.append(len(some)) or record(dash, some)
    )
    monkeypatch.setattr(
        EnvironmentBatch,
        "_exchange",
        lambda batch, socket, some: found.worlds.append(len(some)) or exchange(batch, socket, some),
    )
    return found


CPU = {"gradient_checkpointing": False}
TRIED = Recipe(help="always", groups=1, group=GROUP, at_once=2, lora=False, learning_rate=1e-3)
COUNTED = """
import json
from curriculum.models import TrainingStep
from experts.models import Ask
asks = Ask.objects.filter(episode__run=%r)
reasons = sorted(asks.exclude(reason="").values_list("reason", flat=True))
steps = TrainingStep.objects.filter(run=%r).order_by("training_step").values("training_step", "checkpoint")
said = {"asks": asks.count(), "reasons": reasons, "steps": list(steps)}
print("FOUND", json.dumps(said))
"""


def test_trl_trains_on_asking_rollouts_as_the_dashboard_dies(house, model, quiet, tmp_path):
    import torch

    from awmclient.client import SyncHttpDashboard
    from examples.grpo.training import trainer_of

    place, (net, tokenizer), desk = place_of(house), model, Desk(house)
    with SyncHttpDashboard(place.url, place.token) as dash:
        run = dash.start_run("grpo", metadata=TRIED.metadata())
    script, drawn = Script(tokenizer), []
    trainer = trainer_of(
        net, tokenizer, place, run=run, folder=tmp_path, steps=STEPS, recipe=TRIED, generate_with=script,
        save_steps=STEPS, **CPU,
    )  # fmt: skip
    played = trainer.rollout_func
    trainer.rollout_func = lambda prompts, trainer: drawn.append(found := played(prompts, trainer)) or found
    before = [one.detach().clone() for one in net.parameters()]
    desk.start()
    result = trainer.train()
    desk.join(60)
    assert desk.problem is None and desk.killed and len(desk.answered) == STEPS * (GROUP - 1)
    assert desk.most == GROUP, "a whole group waits for advice together"
    pairs = zip(before, net.parameters(), strict=True)
    assert result.global_step == STEPS and any(not torch.equal(*pair) for pair in pairs)
    found = json.loads(re.search("FOUND (.*)", house.manage("shell", "-c", COUNTED % (run, run)))[1])
    assert found["asks"] == STEPS * GROUP, "a repeated question is the same ask"
    assert Counter(found["reasons"])["deadline"] == STEPS
    assert [(one["training_step"], bool(one["checkpoint"])) for one in found["steps"]] == [(1, False), (2, True)]
    for step in drawn:
        assert sorted(step["reward"]) == [0.0, 0.0, 1.0, 1.0]
        assert step["lead"] == [value - 0.5 for value in step["reward"]]
        for ids, mask in zip(step["completion_ids"], step["env_mask"], strict=True):
            assert len(ids) == len(mask)
            learned, read = (
                tokenizer.decode([one for one, bit in zip(ids, mask, strict=True) if bit == side]) for side in (1, 0)
            )
            assert SECRET not in learned and '"status"' not in learned and "ask_expert" in learned
            assert ("no_advice" in read) != (SECRET in read) and "ask_expert" not in read


def test_merged_adapters_are_saved_whole_and_answer_the_same(base, model, house, quiet, tmp_path):
    import torch
    from transformers import AutoModelForCausalLM

    from examples.grpo.training import drawn_by, evaluate, save_merged, trainer_of

    place, (net, tokenizer) = place_of(house), model
    trainer = trainer_of(
        net, tokenizer, place, run="none", folder=tmp_path, steps=1,
        recipe=TRIED.model_copy(update={"lora": True}), **CPU,
    )  # fmt: skip
    with torch.no_grad():
        for name, weight in trainer.model.named_parameters():
            if "lora_B" in name:
                weight.normal_(std=0.3, generator=torch.Generator().manual_seed(3))
    ids = tokenizer("Switch all lamps off.", return_tensors="pt")["input_ids"]
    with torch.no_grad():
        trained = trainer.model(ids).logits.clone()
    save_merged(trainer.model, tokenizer, tmp_path / "merged")
    merged = AutoModelForCausalLM.from_pretrained(tmp_path / "merged")
    with torch.no_grad():
        assert torch.allclose(merged(ids).logits, trained, atol=1e-4)
        assert not torch.allclose(AutoModelForCausalLM.from_pretrained(base)(ids).logits, trained, atol=1e-2)
    [(tokens, _)] = drawn_by(merged, tokenizer, ids.tolist(), 0.0, 5)
    assert 1 <= len(tokens) <= 5
    with house.http(house.token("agent")) as loop:
        made = loop.post("/runs", json={"name": "held out", "metadata": {"evaluation": True}}).raise_for_status().json()
    assert evaluate(merged, tokenizer, place, [("lamps_1", 0)], run=made["id"], arm="after") in (0.0, 1.0)


def test_rollout_without_a_verdict_is_no_advantage_and_no_loss():
    judged = [Drawn([1], [2, 3], [1, 1], [0.0, 0.0], reward=float(at)) for at in range(2)]
    lost, never = Drawn([1], [2, 3], [1, 0], [0.0, 0.0]), Drawn()
    found = settled([*judged, lost, never])
    assert [one.reward for one in found] == [0.0, 1.0, 0.5, 0.5]
    assert found[2].mask == [0, 0] and (found[3].prompt, found[3].ids, found[3].mask) == ([1], [0], [0])


def test_lead_is_over_those_with_the_same_offer_of_help():
    group = [Drawn([1], [2], [1], [0.0], reward=value, helped=helped)
             for value, helped in ((1.0, True), (0.9, True), (0.0, False), (1.0, False), (None, False))]  # fmt: skip
    assert [one.lead for one in settled(group)] == pytest.approx([0.05, -0.05, -0.5, 0.5, 0.0])


def played_by(recipe, place, tokenizer, run, step=0, solo=()):
    """Play one step of a recipe as TRL calls it, with a script in place of its model."""
    rollouts = Rollouts(place, run, recipe.arm, Chat(tokenizer), Script(tokenizer))
    rollouts.solo += solo
    trainer = SimpleNamespace(num_generations=recipe.group, state=SimpleNamespace(global_step=step))
    return rollouts([None] * recipe.group, trainer), rollouts


OFFERED = {"none": 0, "always": 4, "mixed": 2, "adaptive_errors": 3, "adaptive_levels": 3, "priced": 4}
"""How many of a group of four may ask in the first step."""


@pytest.mark.parametrize("file", sorted(RECIPES.glob("*.yaml")), ids=lambda file: file.stem)
async def test_recipe_offers_help_by_its_rule(file, house, model, quiet, sent):
    """Within a running event loop, as a notebook has one."""
    recipe, place = Recipe.read(file, groups=1, group=GROUP), replace(place_of(house), ask_deadline_s=1)
    async with HttpDashboard(place.url, place.token) as dash:
        run = await dash.start_run(file.stem, metadata=recipe.metadata())
    found, rollouts = played_by(recipe, place, model[1], run)
    assert sum(found["helped"]) == OFFERED[file.stem]
    paid = recipe.arm.price if file.stem == "priced" else 0.0
    assert sorted(found["reward"]) == pytest.approx([-paid, -paid, 1 - paid, 1 - paid])
    assert max(sent.worlds) == GROUP, "worlds of a group begin in one message"
    assert sum(sent.episodes) == GROUP - OFFERED[file.stem], "who asks an expert is live, all others are collected"
    if file.stem == "none":
        assert len(sent.episodes) < GROUP
        [counts] = rollouts.solo[0]["solo"].values()
        assert counts == [2, 4]
    if file.stem == "adaptive_levels":
        found, _ = played_by(recipe, place, model[1], run, 1, [{"solo": {"notes_1": [8, 8]}}])
        assert sum(found["helped"]) == 1, "a scenario that is easy alone gets least help"


async def test_notebook_runs_from_top_to_bottom(house, base, quiet, tmp_path, monkeypatch):
    """All cells, in one namespace and within an event loop, as a kernel runs them; the tiny model draws by itself."""
    cells = json.loads((ROOT / "examples/grpo/grpo.ipynb").read_text())["cells"]
    place = place_of(house)
    changed = {"groups": 1, "group": 2, "new_tokens": 8, "ask_deadline_s": 1}
    given = {
        "AWMWEB_URL": place.url, "AWMWEB_TOKEN": place.token, "AWMENV_URL": place.environment_url, "MODEL": str(base),
        "STEPS": "1", "OUTPUT": str(tmp_path / "out"), "HELD_OUT": "lamps_1/0", "CHANGED": json.dumps(changed),
    }  # fmt: skip
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    names = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"grpo.ipynb, cell {cell['id']}", "exec"), names)  # noqa: S102
    assert (Path(given["OUTPUT"]) / "merged" / "model.safetensors").exists()
    assert set(names["shares"]) == {"before", "after"}


@proves("docs/training.md", "import asyncio")
async def test_documented_rollouts_teach_a_loop_of_ones_own(block, house, model, quiet, sent):
    """The trainer stands in for prime-rl and the like: it takes the rows, and makes a step of policy gradient."""
    import torch

    made = await run(block, {})
    place, (net, tokenizer) = place_of(house), model
    script, asked = Script(tokenizer), []

    async def draw(context):
        asked.append(len(context))
        [(ids, _)] = script.generate([context])
        return ids, [-1.0] * len(ids)

    prompts = [{"scenario": "notes_1", "task_idx": at, "split": "train"} for at in (0, 1)]
    rows = await made["rollouts"](place, tokenizer, draw, prompts, GROUP)
    assert len(rows) == 2 * GROUP and max(sent.worlds) == 2 * GROUP and len(sent.episodes) < 2 * GROUP
    assert sorted(one["reward"] for one in rows[:GROUP]) == [0.0, 0.0, 1.0, 1.0]
    before = [one.detach().clone() for one in net.parameters()]
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for one in rows:
        assert len(one["token_ids"]) == len(one["mask"]) == len(one["logprobs"])
        assert {value for value, bit in zip(one["logprobs"], one["mask"], strict=True) if bit} == {-1.0}
        ids, mask = torch.tensor(one["token_ids"]), torch.tensor(one["mask"])
        logps = net(ids[None]).logits[0, :-1].log_softmax(-1).gather(1, ids[1:, None])[:, 0]
        (-one["advantage"] * logps[mask[1:]].sum()).backward()
    optimizer.step()
    assert any(not torch.equal(*pair) for pair in zip(before, net.parameters(), strict=True))


def test_loop_of_verl_plays_draws_and_masks(house, model, quiet, sent, monkeypatch):
    """verl itself needs a cluster of GPUs; what it hands to a loop and takes from it is stood in for."""
    place, (_, tokenizer) = place_of(house), model
    script, requests = Script(tokenizer), set()

    class Servers:
        async def generate(self, request_id, prompt_ids, sampling_params):
            requests.add(request_id)
            [(ids, _)] = script.generate([prompt_ids])
            return SimpleNamespace(token_ids=ids, log_probs=[-1.0] * len(ids))

    verl = ModuleType("verl.experimental.agent_loop.agent_loop")
    verl.AgentLoopBase, verl.AgentLoopOutput, verl.AgentLoopMetrics = object, SimpleNamespace, dict
    verl.register = lambda name: lambda loop: loop
    for name in ("verl", "verl.experimental", "verl.experimental.agent_loop"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, verl.__name__, verl)
    for name, value in (
        ("AWMWEB_URL", place.url),
        ("AWMWEB_TOKEN", place.token),
        ("AWMENV_URL", place.environment_url),
    ):
        monkeypatch.setenv(name, value)
    monkeypatch.delitem(sys.modules, "examples.own_verl", raising=False)
    own = importlib.import_module("examples.own_verl")
    monkeypatch.setattr(own, "PLACE", replace(own.PLACE, ask_deadline_s=1))
    script.asked = 1
    told = {"scenario": "notes_1", "task_idx": 0, "expert": "plain"}

    def rollout():
        loop = own.AwmwebLoop()
        loop.tokenizer, loop.server_manager = tokenizer, Servers()
        return loop.run({"temperature": 1.0}, extra_info=told, raw_prompt=[])

    async def worker():
        return await asyncio.gather(rollout(), rollout())

    found = asyncio.run(worker())
    assert sorted(one.reward_score for one in found) == [0.0, 1.0] and len(requests) == 2
    assert max(sent.worlds) == 2, "rollouts of a worker are stepped in one message"
    for one in found:
        assert len(one.response_ids) == len(one.response_mask) == len(one.response_logprobs)
        drawn = [value for value, bit in zip(one.response_logprobs, one.response_mask, strict=True) if bit]
        assert set(drawn) == {-1.0} and 0 in one.response_mask
        assert "Write a note" in tokenizer.decode(one.prompt_ids)


@contextmanager
def llama(script):
    """A server of llama.cpp that draws what the script says."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            prompt = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["prompt"]
            [(ids, _)] = script.generate([prompt])
            body = json.dumps({"completion_probabilities": [{"id": one, "logprob": -1.0} for one in ids]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            """Print no line of a request."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


def test_asks_of_the_round_with_real_weights_are_answered(house, base, model, quiet):
    """`make train-real`: no simulated human is behind a loop of one's own, so the round answers by itself."""
    from awmclient.client import SyncHttpDashboard
    from examples.train_real import __main__ as command

    place, learned = place_of(house), []
    with SyncHttpDashboard(place.url, place.token) as dash, llama(Script(model[1])) as address:
        run = dash.start_run("real rounds", metadata={})
        lab = SimpleNamespace(
            product=house, agent=place.token, environment_url=place.environment_url,
            desk=lambda: house.http(house.token("expert")), learner_run=lambda: run,
            tasks=["notes_1/0", "notes_1/1"], size=SimpleNamespace(desks=1, worlds=list),
            serving=lambda name: nullcontext({name: address}), folder_of=lambda name: base,
            once=lambda name, make: make(), learn=lambda kind, begin, rows, name: learned.extend(rows) or {},
        )  # fmt: skip
        rounds = command.Rounds(lab)
        rounds.done["sft"] = {}
        rounds.grpo()
    counts = json.loads(re.search("FOUND (.*)", house.manage("shell", "-c", COUNTED % (run, run)))[1])
    assert counts["asks"] == 2 * 2 and not counts["reasons"], "half of each group is offered an expert"
    assert {len(row["ids"]) - len(row["mask"]) for row in learned} == {0}
    assert all(sum(row["mask"]) == len(row["logps"]) and row["lead"] for row in learned)

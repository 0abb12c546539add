"""Exports in the hands of real trainers (`make test-train`): two steps on the processor, and which tokens carry loss.

The model is tiny and random, its tokenizer is trained on the rows; nothing is fetched.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import shutil
import tempfile
from pathlib import Path

import pytest
from django.core.management import call_command

from awmclient.choosing.scripted import ScriptedPolicy
from awmclient.loop.rollout import rollout
from awmclient.schema import EpisodeStart, Finish, Outcome, RunStart, StepBatch, ToolSpec
from awmclient.testing import MemoryDashboard
from awmenv.client import EnvironmentClient
from awmenv.packs import load_pack
from episodes.record import ending, recording
from exports.assembly.building import Walk
from exports.formats import FORMATS
from exports.recipe import Recipe
from exports.rules import tokenizing
from exports.rules.leakage import Ground
from exports.writers import parquet
from exports.writers.jsonl import line
from people.access import system
from people.record.members import ensure_project
from tests.awmenv.conftest import ROOT, start_server
from tests.exports.records import FAILED, STEPS, record, task_record, walk
from tests.tiny_model import write_tiny_model

pytestmark = pytest.mark.train
NEVER = ("Into 7.", "no such id", "Finish if you are through.", "Merge the duplicates.", "You act in", '"open"', '"ok"')
"""Advice, an error, a nudge, the task, the system prompt, results."""
ASK = '{"name": "ask_expert", "arguments": {"question": "Into which?"}}'
TURNS = [
    'I look first.\n<tool_call>\n{"name": "get_ticket", "arguments": {"id": 7}}\n</tool_call>\n'
    '<tool_call>\n{"name": "get_ticket", "arguments": {"id": "8"}}\n</tool_call>',
    f"<tool_call>\n{ASK}\n</tool_call>",
    '<tool_call>\n{"name": "merge", "arguments": {"into": 7}}\n</tool_call>',
    "Merged into 7.",
]


def written(turn):
    """A turn as the training template of Qwen 3 writes what the model learns."""
    return f"<think>\n\n</think>\n\n{turn}<|im_end|>\n"


@pytest.fixture(autouse=True)
def offline(monkeypatch, tmp_path):
    for name, value in (("HF_HUB_OFFLINE", "1"), ("HF_HOME", str(tmp_path / "hf")), ("TRL_EXPERIMENTAL_SILENCE", "1")):
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    texts = [json.dumps(row) for row in walk("sft")[0]]
    return write_tiny_model(tmp_path_factory.mktemp("base"), texts)


def loaded(shape, rows, folder, *, as_parquet=False):
    """The rows as `datasets` reads them from a file, by the features that the manifest would hold."""
    from datasets import Features, load_dataset

    features = FORMATS[shape].features
    if as_parquet:
        file, writer = folder / "rows.parquet", None
        writer = parquet.Writer(file, features)
        for row in rows:
            writer.write(row)
        writer.close()
        return load_dataset("parquet", data_files=str(file), split="train", cache_dir=str(folder / "p"))
    file = folder / "rows.jsonl"
    file.write_bytes(b"".join(line(row) for row in rows))
    types = Features.from_dict(json.loads(json.dumps(features)))
    return load_dataset("json", data_files=str(file), features=types, split="train", cache_dir=str(folder / "j"))


def options(folder, **more):
    """What every trainer here is told."""
    small = {"per_device_train_batch_size": 1, "max_steps": 2, "logging_steps": 1, "learning_rate": 1e-3}
    plain = {"use_cpu": True, "bf16": False, "gradient_checkpointing": False, "report_to": [], "save_strategy": "no"}
    return {"output_dir": str(folder / "out"), "max_length": None, **small, **plain, **more}


def learned(trainer, ids_of, batch):
    """The text of all tokens of a batch that carry loss, row by row."""
    return [trainer.processing_class.decode(ids) for ids in ids_of(batch)]


def by_labels(batch):
    return [ids[labels != -100] for ids, labels in zip(batch["input_ids"], batch["labels"], strict=True)]


def by_mask(batch):
    return [ids[mask == 1] for ids, mask in zip(batch["input_ids"], batch["completion_mask"], strict=True)]


def train(trainer):
    """Two steps that change the model; the loss is a number."""
    before = [parameter.detach().clone() for parameter in trainer.model.parameters()]
    result = trainer.train()
    assert result.global_step == 2 and math.isfinite(result.training_loss)
    assert any(not one.equal(other) for one, other in zip(before, trainer.model.parameters(), strict=True))


def failed_sibling():
    steps = [{**step, "arguments": {"into": 8}} if step["seq"] == 8 else step for step in STEPS]
    return record(id="e2", results=FAILED, steps=steps)


def other_shapes():
    """An episode whose arguments have the same names and other types."""
    steps = [
        {**step, "arguments": {"id": {"nested": [1, "two", None]}}} if step["seq"] == 4 else step for step in STEPS
    ]
    return record(id="e3", steps=steps)


def tokens_of(base, folder, *records, **more):
    """Rows of `tokens` by the model's own tokenizer with the training template."""
    import trl

    shutil.copytree(base, folder / "tokenizers" / "base", dirs_exist_ok=True)
    templates = Path(trl.__file__).parent / "chat_templates"
    shutil.copy(templates / "qwen3_training.jinja", folder / "tokenizers" / "base" / "chat_template.jinja")
    recipe = Recipe.read({"format": "tokens", "tokenizer": "base", **more})
    ground = Ground(recipe, tokenizer=tokenizing.load(folder / "tokenizers", "base"))
    return [row.value for row in Walk(FORMATS["tokens"], ground).rows(records)]


@pytest.mark.parametrize("shape", [name for name, one in FORMATS.items() if one.features is not None])
def test_datasets_reads_equal_rows_from_lines_and_parquet(shape, tmp_path, base):
    records = [record(), failed_sibling(), other_shapes()]
    records = [task_record()] if shape == "curriculum" else records
    rows = tokens_of(base, tmp_path, *records) if shape == "tokens" else walk(shape, *records)[0]
    lines, table = loaded(shape, rows, tmp_path), loaded(shape, rows, tmp_path, as_parquet=True)
    assert len(rows) == len(lines) and lines.to_list() == table.to_list() and lines.features == table.features
    for row, back in zip(rows, lines, strict=True):
        assert back.get("tools") == row.get("tools") and back.get("labels") == row.get("labels")
        for part in {"messages", "prompt", "completion", "chosen", "rejected"} & set(row):
            calls = [message.get("tool_calls") for message in row[part]]
            assert [message["tool_calls"] for message in back[part]] == calls, "no argument is filled with nulls"


@pytest.mark.parametrize("as_parquet", [False, True])
def test_sft_trains_on_what_the_agent_wrote_and_on_nothing_else(base, tmp_path, as_parquet):
    from trl import SFTConfig, SFTTrainer

    rows, _ = walk("sft")
    args = SFTConfig(**options(tmp_path, assistant_only_loss=True))
    dataset = loaded("sft", rows, tmp_path, as_parquet=as_parquet)
    trainer = SFTTrainer(model=str(base), args=args, train_dataset=dataset)
    (text,) = learned(trainer, by_labels, next(iter(trainer.get_train_dataloader())))
    assert text == "".join(written(turn) for turn in TURNS)
    assert not [one for one in NEVER if one in text]
    train(trainer)


@pytest.mark.parametrize(("advice", "left_out"), [("keep", set()), ("keep_masked", {TURNS[1]})])
def test_tokens_equal_trl_with_loss_per_message(base, tmp_path, advice, left_out):
    from trl import SFTConfig, SFTTrainer

    told = loaded("sft", walk("sft")[0], tmp_path)
    by_trl = SFTTrainer(
        model=str(base), args=SFTConfig(**options(tmp_path, assistant_only_loss=True)), train_dataset=told
    )
    (row,) = tokens_of(base, tmp_path, record(), advice=advice)
    trainer = SFTTrainer(
        model=str(base), args=SFTConfig(**options(tmp_path)), train_dataset=loaded("tokens", [row], tmp_path)
    )
    batch = next(iter(trainer.get_train_dataloader()))
    theirs = next(iter(by_trl.get_train_dataloader()))
    assert batch["input_ids"].tolist() == theirs["input_ids"].tolist()
    assert (batch["labels"].tolist() == theirs["labels"].tolist()) == (advice == "keep")
    assert learned(trainer, by_labels, batch) == ["".join(written(turn) for turn in TURNS if turn not in left_out)]
    train(trainer)


@pytest.mark.parametrize(("advice", "left_out"), [("keep", set()), ("keep_masked", {TURNS[1]})])
def test_steps_train_on_one_turn_each_and_masked_asks_on_none(base, tmp_path, advice, left_out):
    from trl import SFTConfig, SFTTrainer

    rows, _ = walk("steps", advice=advice)
    trainer = SFTTrainer(
        model=str(base), args=SFTConfig(**options(tmp_path)), train_dataset=loaded("steps", rows, tmp_path)
    )
    texts = [learned(trainer, by_labels, batch)[0] for batch in trainer.get_train_dataloader()]
    assert sorted(texts) == sorted(written(turn) for turn in TURNS if turn not in left_out)
    train(trainer)


def test_dpo_compares_two_actions_and_no_result(base, tmp_path):
    from trl import DPOConfig, DPOTrainer

    rows, _ = walk("dpo", record(), failed_sibling())
    trainer = DPOTrainer(
        model=str(base), args=DPOConfig(**options(tmp_path)), train_dataset=loaded("dpo", rows, tmp_path)
    )
    texts = learned(trainer, by_mask, next(iter(trainer.get_train_dataloader())))
    rejected = TURNS[2].replace('"into": 7', '"into": 8')
    assert texts == [written(TURNS[2]), written(rejected)]
    train(trainer)


def test_kto_rows_are_single_actions_with_episode_labels(base, tmp_path):
    from trl import KTOConfig, KTOTrainer

    rows, _ = walk("kto", record(), failed_sibling())
    assert {row["label"] for row in rows} == {True, False}
    args = KTOConfig(**options(tmp_path, per_device_train_batch_size=2))
    trainer = KTOTrainer(model=str(base), args=args, train_dataset=loaded("kto", rows, tmp_path))
    texts = [text for batch in trainer.get_train_dataloader() for text in learned(trainer, by_mask, batch)]
    wrong = TURNS[2].replace('"into": 7', '"into": 8')
    assert set(texts) == {written(turn) for turn in (*TURNS, wrong)} and len(texts) == len(rows)
    train(trainer)


def test_trl_reads_records_of_openenv_as_conversations(base, tmp_path):
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

    rows, _ = walk("openenv")
    told = Dataset.from_list(
        [{"messages": row["messages"], "tools": json.dumps(row["extra"]["tools"])} for row in rows],
        on_mixed_types="use_json",
    )
    trainer = SFTTrainer(
        model=str(base), args=SFTConfig(**options(tmp_path, assistant_only_loss=True)), train_dataset=told
    )
    (text,) = learned(trainer, by_labels, next(iter(trainer.get_train_dataloader())))
    assert text == "".join(written(turn) for turn in TURNS)


async def played():
    """The steps of a task of the demo's pack, as the loop recorded them against a real environment server."""
    script = load_pack(ROOT / "packs" / "starter").scripts("helpdesk_1", 0)["oracle"]
    with tempfile.TemporaryDirectory() as folder:
        server = start_server(Path(folder), ROOT / "packs" / "starter")
        try:
            async with EnvironmentClient(server.url) as environment:
                place = {"scenario": "helpdesk_1", "task_idx": 0}
                done = await rollout(ScriptedPolicy(script), environment, MemoryDashboard(), task="t", **place)
        finally:
            server.stop()
    return [{**step, "seq": seq} for seq, step in enumerate(done.steps, 1)]


def test_lines_of_the_readme_train_on_an_export_of_the_demo_run(base, db, settings, tmp_path, monkeypatch):
    """The very command and the very lines; the model that they name stands below the working folder."""
    page = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Train on it")[2].partition("\n## ")[0]
    command = re.search(r"manage\.py (export .*)", page)[1].split()
    (lines,) = re.findall(r"```python\n(.*?)```", page, re.S)
    settings.VAR = tmp_path / "var"
    actor = system(ensure_project("demo"))
    run, _ = recording.start_run(actor, RunStart(name="demo"))
    start = EpisodeStart(key="one", task="t", run=run.pk, tools=[ToolSpec(name="search_tickets", input_schema={})])
    episode, _ = recording.start_episode(actor, start)
    recording.append_steps(actor, episode.pk, StepBatch.model_validate({"steps": asyncio.run(played())}).steps)
    ending.finish(actor, episode.pk, Finish(stop_reason="done"))
    ending.record_outcome(actor, episode.pk, Outcome(reward_type="complete", reward=1.0))
    monkeypatch.chdir(tmp_path)
    call_command(*command)
    shutil.copytree(base, tmp_path / "Qwen" / "Qwen3-0.6B")
    exec(compile(lines, "README.md", "exec"), {})
    assert list((tmp_path / "trained").rglob("*.safetensors"))

"""GRPO with TRL on awmweb: trainer, reports, evaluation without an expert, and a merged checkpoint."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from datasets import Dataset
from peft import LoraConfig, PeftModel
from transformers import TrainerCallback
from trl import GRPOConfig, GRPOTrainer
from trl.models import unwrap_model_for_generation

from awmclient.client import SyncHttpDashboard
from examples.batches import Batches, Continued, Generate
from examples.grpo.recipe import Recipe
from examples.grpo.rollouts import Place, Rollouts, apart, connected, lead, play
from examples.grpo.turns import Chat, Drawn


def from_model(trainer: Any) -> Generate:
    """Draw with the model that is trained, in this process."""

    most = trainer.args.max_completion_length

    def generate(contexts: Sequence[list[int]]) -> list[Continued]:
        with torch.no_grad(), unwrap_model_for_generation(trainer.model_wrapped, trainer.accelerator) as model:
            return drawn_by(model, trainer.processing_class, contexts, trainer.args.temperature, most)

    return generate


def from_vllm(trainer: Any) -> Generate:
    """Draw with vLLM, colocated or as a server (`--vllm`). For one training process: with several, each of them would
    have to ask equally often."""

    def generate(contexts: Sequence[list[int]]) -> list[Continued]:
        _, drawn, logps, _ = trainer.vllm_generation.generate(list(contexts), None, 1)
        return [(list(ids), [one[0] for one in each]) for ids, each in zip(drawn, logps, strict=True)]

    return generate


def drawn_by(
    model: Any, tokenizer: Any, contexts: Sequence[list[int]], temperature: float, most: int
) -> list[Continued]:
    """Return up to `most` tokens after each context, its end included; greedy at a temperature of 0."""
    width, end, empty = max(map(len, contexts)), tokenizer.eos_token_id, tokenizer.pad_token_id
    ids = torch.tensor([[empty] * (width - len(one)) + one for one in contexts], device=model.device)
    mask = torch.tensor([[0] * (width - len(one)) + [1] * len(one) for one in contexts], device=model.device)
    chance = {"do_sample": True, "temperature": temperature} if temperature else {"do_sample": False}
    options = {"max_new_tokens": most, "eos_token_id": end, "pad_token_id": empty, **chance}
    found = model.generate(input_ids=ids, attention_mask=mask, **options)[:, width:].tolist()
    return [(one[: one.index(end) + 1] if end in one else one, []) for one in found]


class Reports(TrainerCallback):
    """Reports each step with its losses and checkpoint before the next one begins, as the curriculum counts by it."""

    def __init__(self, place: Place, run: str, rollouts: Rollouts) -> None:
        self._place, self._run, self._rollouts = place, run, rollouts
        self._losses: dict[str, float] = {}
        self._saved: str | None = None
        self._reported = 0

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        told = {name: logs[name] for name in ("loss", "grad_norm", "entropy", "kl") if name in logs}
        self._losses |= {name: float(value) for name, value in told.items()}

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._saved = str(Path(args.output_dir) / f"checkpoint-{state.global_step}")

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._report(state.global_step)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._report(state.global_step)

    def _report(self, step: int) -> None:
        if step == self._reported:
            return
        with SyncHttpDashboard(self._place.url, self._place.token) as dash:
            said = {"losses": self._losses, "components": {"primary": self._rollouts.mean}, "checkpoint": self._saved}
            dash.report_step(self._run, step, **said)
        self._losses, self._saved, self._reported = {}, None, step


def dtype_of(recipe: Recipe) -> str:
    """Return the type to load weights in: as saved if only adapters are trained. Else 32 bits: in 16 small steps are
    rounded away."""
    return "auto" if recipe.lora else "float32"


def trainer_of(
    model: Any,
    tokenizer: Any,
    place: Place,
    *,
    run: str,
    folder: Path,
    steps: int,
    recipe: Recipe,
    generate_with: Callable[[Any], Generate] | None = None,
    **more: Any,
) -> GRPOTrainer:
    """Return TRL's trainer of a recipe; `more` is for its config."""
    draws = generate_with or (from_vllm if recipe.vllm else from_model)
    rollouts = Rollouts(place, run, recipe.arm, Chat(tokenizer, place.thinking), draws)
    drawn = {
        "use_vllm": True, "vllm_mode": recipe.vllm, "vllm_gpu_memory_utilization": recipe.vllm_memory,
        "vllm_max_model_length": place.longest + place.new_tokens,
    } if recipe.vllm else {}  # fmt: skip
    machine = {} if torch.accelerator.is_available() else {"use_cpu": True, "bf16": False}
    size = recipe.groups * recipe.group
    config = GRPOConfig(
        output_dir=str(folder), max_steps=steps, num_generations=recipe.group, learning_rate=recipe.learning_rate,
        beta=recipe.beta, temperature=recipe.temperature, max_completion_length=place.new_tokens,
        per_device_train_batch_size=recipe.at_once, gradient_accumulation_steps=size // recipe.at_once,
        logging_steps=1, report_to=[], **{**machine, **drawn, **more},
    )  # fmt: skip
    return GRPOTrainer(
        model=model, args=config, processing_class=tokenizer, reward_funcs=lead, rollout_func=rollouts,
        train_dataset=Dataset.from_dict({"prompt": [f"group {at}" for at in range(recipe.groups)]}),
        peft_config=LoraConfig(r=16, lora_alpha=32, target_modules="all-linear") if recipe.lora else None,
        callbacks=[Reports(place, run, rollouts)],
    )  # fmt: skip


def save_merged(model: Any, tokenizer: Any, folder: Path) -> None:
    """Write the whole model, with adapters merged into its weights, as a folder that any server of models loads."""
    whole = model.merge_and_unload() if isinstance(model, PeftModel) else model
    whole.save_pretrained(folder, safe_serialization=True)
    tokenizer.save_pretrained(folder)


def evaluate(
    model: Any, tokenizer: Any, place: Place, tasks: Sequence[tuple[str, int]], *, run: str, arm: str
) -> float:
    """Play held-out tasks without an expert, greedily, and return the share that the verifier found complete. The
    run must be an evaluation (`metadata={"evaluation": True}`), so that no export trains on it."""
    model.eval()

    def generate(contexts: Sequence[list[int]]) -> list[Continued]:
        with torch.no_grad():
            return drawn_by(model, tokenizer, contexts, 0.0, place.new_tokens)

    async def played() -> list[Drawn]:
        draw, chat = Batches(generate), Chat(tokenizer, place.thinking)
        about = {"run": run, "arm": arm, "split": "validation"}
        async with connected(place) as connections:
            some = (play(connections, chat, draw, scenario=name, task_idx=at, **about) for name, at in tasks)
            return list(await asyncio.gather(*some))

    return fmean(one.complete for one in apart(played()))

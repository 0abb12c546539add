"""Learning from rows of the product's exports, in a process of its own: `python -m examples.train_real.learner`.

Owns how rows become tokens with labels, adapters on the upper layers, and the losses of SFT and DPO. Rows are rendered
with the very template that the checkpoint is served with, so that a trained model reads what it has learned on.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from torch.nn import functional
from transformers import AutoModelForCausalLM, AutoTokenizer

from awmweb.embedded.processes import end_with
from awmweb.weights.serving import CHATML, packaged

OPEN, CLOSE = "<|im_start|>assistant\n", "<|im_end|>"
PARTS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
UPPER = list(range(16, 30))
"""Layers with adapters. Nothing flows back below them, which halves the time of a step."""
RATES = {"sft": 1e-3, "dpo": 1e-4, "grpo": 1e-4}
"""The learning rate of the first step. It falls to nothing by the last one."""
BETA = 0.1
KEPT_EVERY = 10
"""Steps after which a training is kept: no more than these are done again."""
Spans = list[tuple[list[int], list[int]]]
"""Token IDs, and for each whether it is learned."""


def unpacked(folder: Path) -> None:
    """Write the packaged model as transformers keeps it, with the template that it is served with."""
    file = packaged()
    model = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
    # unpacked, it is no longer quantized, and transformers saves only what is not
    model.hf_quantizer, model.is_quantized = None, False
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    tokenizer.chat_template = CHATML.read_text()
    _save(model, tokenizer, folder)


def _save(model: Any, tokenizer: Any, folder: Path, **about: Any) -> None:
    """Write a checkpoint with what it took. The folder has its name only when all of it is there."""
    unfinished = folder.with_name(f"{folder.name}.part")
    model.save_pretrained(unfinished)
    tokenizer.save_pretrained(unfinished)
    (unfinished / "took.json").write_text(json.dumps(about))
    unfinished.rename(folder)


def labelled(tokenizer: Any, messages: Sequence[Any], tools: Sequence[Any], loss: Sequence[float]) -> Any:
    """Return the IDs of a conversation, and for each whether it is learned: what the agent wrote in messages with
    loss, and the end of its turn."""
    text = tokenizer.apply_chat_template([_plain(one) for one in messages], tools=list(tools), tokenize=False)
    weights = [weight for message, weight in zip(messages, loss, strict=True) if message["role"] == "assistant"]
    first, *turns = text.split(OPEN)
    if len(turns) != len(weights):
        raise ValueError(f"The template wrote {len(turns)} turns of {len(weights)}.")
    ids, learned = _encoded(tokenizer, first), []
    learned = [0] * len(ids)
    for turn, weight in zip(turns, weights, strict=True):
        words, end, rest = turn.partition(CLOSE)
        for part, is_learned in ((OPEN, False), (words + end, weight > 0), (rest, False)):
            new = _encoded(tokenizer, part)
            ids, learned = ids + new, learned + [int(is_learned)] * len(new)
    return ids, learned


def _plain(message: Any) -> dict[str, Any]:
    """Return a message without the columns that a row leaves empty."""
    return {name: value for name, value in message.items() if value is not None}


def _encoded(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def conversations(tokenizer: Any, rows: Sequence[Any]) -> list[Spans]:
    return [[labelled(tokenizer, row["messages"], row["tools"], row["loss"])] for row in rows]


def pairs(tokenizer: Any, rows: Sequence[Any]) -> list[Spans]:
    """Return the chosen and the rejected side of each pair: each is one action behind the same prompt."""
    sides: list[Spans] = []
    for row in rows:
        both: Spans = []
        for side in (row["chosen"], row["rejected"]):
            messages = [*row["prompt"], *side]
            both.append(labelled(tokenizer, messages, row["tools"], [0] * len(row["prompt"]) + [1] * len(side)))
        sides.append(both)
    return sides


def logps(model: Any, ids: Sequence[int], learned: Sequence[int]) -> torch.Tensor:
    """Return the log probabilities of the learned tokens. Logits are made for these alone: there are 49,152 of each."""
    tensor, at = torch.tensor([ids]), torch.tensor(learned[1:]).nonzero()[:, 0]
    hidden = model.base_model.model.model(tensor).last_hidden_state[0, at]
    logits = model.base_model.model.lm_head(hidden).float()
    return -functional.cross_entropy(logits, tensor[0, at + 1], reduction="none")


def sft_loss(model: Any, spans: Spans) -> torch.Tensor:
    return -logps(model, *spans[0]).mean()


def dpo_loss(model: Any, spans: Spans) -> torch.Tensor:
    """Return the loss of one pair (Rafailov et al. 2023); without its adapters the model is the reference."""
    with torch.no_grad(), model.disable_adapter():
        before = [logps(model, *side).sum() for side in spans]
    now = [logps(model, *side).sum() for side in spans]
    return -functional.logsigmoid(BETA * ((now[0] - before[0]) - (now[1] - before[1])))


def rollouts(_tokenizer: Any, rows: Sequence[Any]) -> list[Any]:
    return [[(row["ids"], row["mask"], row["lead"], row["logps"])] for row in rows]


def grpo_loss(model: Any, spans: Any) -> torch.Tensor:
    """Return the clipped loss of one rollout. Its old log-probabilities are those of the server that drew it."""
    ids, mask, lead, old = spans[0]
    ratio = torch.exp(logps(model, ids, mask) - torch.tensor(old))
    return -torch.minimum(ratio * lead, ratio.clamp(0.8, 1.28) * lead).mean()


KINDS: dict[str, tuple[Callable[[Any, Sequence[Any]], list[Spans]], Callable[[Any, Spans], torch.Tensor]]] = {
    "sft": (conversations, sft_loss),
    "dpo": (pairs, dpo_loss),
    "grpo": (rollouts, grpo_loss),
}


@dataclass
class Progress:
    """The steps of a training, kept in a file every few steps: one that was killed goes on from there."""

    file: Path
    losses: list[float] = field(default_factory=list)
    seconds: float = 0.0
    cpu_seconds: float = 0.0

    def __post_init__(self) -> None:
        self._began, self._cpu = time.monotonic(), time.process_time()

    def restore(self, weights: dict[str, Any], optimizer: Any) -> None:
        """Put back what an earlier process kept, if one did."""
        if not self.file.exists():
            return
        kept = torch.load(self.file, weights_only=True)
        for name, weight in weights.items():
            weight.data.copy_(kept["weights"][name])
        optimizer.load_state_dict(kept["optimizer"])
        self.losses, self.seconds, self.cpu_seconds = kept["losses"], kept["seconds"], kept["cpu_seconds"]

    def keep(self, weights: dict[str, Any], optimizer: Any) -> None:
        """Write all of it to the file, or leave the file as it was."""
        kept = {"weights": {name: weight.data for name, weight in weights.items()}, "losses": self.losses}
        unfinished = self.file.with_name(f"{self.file.name}.part")
        torch.save({**kept, "optimizer": optimizer.state_dict(), **self.took()}, unfinished)
        unfinished.replace(self.file)

    def took(self) -> dict[str, float]:
        """Return the seconds of all processes that trained it."""
        return {
            "seconds": self.seconds + time.monotonic() - self._began,
            "cpu_seconds": self.cpu_seconds + time.process_time() - self._cpu,
        }

    def words(self, steps: int) -> str:
        """Return what a step prints: how far it is, its loss, and how long the rest takes at this pace."""
        done, seconds = len(self.losses), self.took()["seconds"]
        left = seconds / done * (steps - done)
        return f"{done}/{steps}: loss {self.losses[-1]:.3f}, {seconds:.0f} s, about {left:.0f} s left"


def short_numbers() -> torch.autocast:
    """Return the context in which matrices are multiplied in bfloat16, where the cores have an instruction for it."""
    can = torch.cpu.get_capabilities()
    return torch.autocast("cpu", torch.bfloat16, enabled=bool(can.get("avx512_bf16") or can.get("amx_bf16")))


def turn(step: int, count: int, seed: int) -> int:
    """Return the row of a step: all rows in an order of chance, then all again in another."""
    again, at = divmod(step - 1, count)
    return random.Random(f"{seed} {again}").sample(range(count), count)[at]  # noqa: S311


def trained(kind: str, begin: Path, rows: Sequence[Any], out: Path, steps: int, seed: int) -> None:
    """Train adapters on these rows, a row a step, and write the merged model with what it took."""
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    torch.manual_seed(seed)
    read, loss_of = KINDS[kind]
    tokenizer = AutoTokenizer.from_pretrained(begin)
    model = AutoModelForCausalLM.from_pretrained(begin, dtype=torch.float32)
    shape = LoraConfig(r=32, lora_alpha=64, target_modules=PARTS, layers_to_transform=UPPER, task_type="CAUSAL_LM")
    model = get_peft_model(model, shape)
    weights = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
    optimizer = torch.optim.AdamW(weights.values(), lr=RATES[kind])
    data = read(tokenizer, rows)
    progress = Progress(out.with_name(f"{out.name}.steps"))
    progress.restore(weights, optimizer)
    for step in range(len(progress.losses) + 1, steps + 1):
        for group in optimizer.param_groups:
            group["lr"] = RATES[kind] * (1 - (step - 1) / steps)
        with short_numbers():
            loss = loss_of(model, data[turn(step, len(data), seed)])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        progress.losses.append(float(loss.detach()))
        print(f"  {kind} {progress.words(steps)}", flush=True)
        if step % KEPT_EVERY == 0:
            progress.keep(weights, optimizer)
    last = progress.losses[-5:]
    lengths = [sum(len(side[0]) for side in spans) for spans in data]
    about = {"steps": steps, "loss": sum(last) / len(last), "tokens": round(sum(lengths) / len(lengths))}
    took = {name: round(seconds) for name, seconds in progress.took().items()}
    _save(model.merge_and_unload(), tokenizer, out, **took, **about)
    progress.file.unlink(missing_ok=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=["base", *KINDS])
    parser.add_argument("--begin", type=Path)
    parser.add_argument("--rows", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--parent", type=int, help="the process that it ends with")
    options = parser.parse_args()
    # a later call trains the same checkpoint, and two would write over each other
    if options.parent is not None:
        end_with(options.parent, signal.SIGTERM)
    if options.kind == "base":
        unpacked(options.out)
        return
    rows = [json.loads(line) for line in options.rows.read_text().splitlines()]
    trained(options.kind, options.begin, rows, options.out, options.steps, options.seed)


if __name__ == "__main__":
    main()

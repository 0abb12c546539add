"""Supervised learning on export rows, and GRPO on rollouts."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional

from examples.train_demo.model import Tiny, optimizers
from examples.train_demo.words import Segment, encoded, redrawn, told

LR, TOKENS_A_STEP, WARM_UP = 4e-3, 800, 20
Say = Callable[[str], None]


@dataclass
class Played:
    """One rollout: its tokens, which of them the model drew, with what log probability, and how it ended."""

    ids: list[int]
    drawn: list[int]
    logps: list[float]
    reward: float = 0.0
    counts: bool = True
    """False where something other than the policy failed."""
    complete: bool = False
    helped: bool = False
    """Whether an expert could be asked."""
    asks: int = 0
    executed: bool = True
    """Whether any of its calls could be executed."""


@dataclass(frozen=True)
class Until:
    """When supervised learning is over: at the first of these that is given. The learning rate falls until then."""

    updates: int | None = None
    rows: int | None = None
    seconds: float | None = None

    def gone(self, updates: int, rows: int, seconds: float) -> float:
        pairs = ((updates, self.updates), (rows, self.rows), (seconds, self.seconds))
        return max(done / whole for done, whole in pairs if whole)


@dataclass(frozen=True)
class Learned:
    """What supervised learning took."""

    updates: int
    rows: int
    seconds: float


def padded(rows: Sequence[Sequence[float]], kind: torch.dtype) -> Tensor:
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows], dtype=kind)


def logps_of(model: Tiny, ids: Tensor) -> Tensor:
    """Log probability of each token after the first, (rows, length - 1); token 0 is never drawn."""
    logits = model(ids)[:, :-1]
    logits[..., 0] = -1e9
    return torch.gather(functional.log_softmax(logits, -1), 2, ids[:, 1:, None])[..., 0]


def sft(
    model: Tiny, tokenizer: Tokenizer, rows: Sequence[Mapping[str, Any]], *, seed: int, until: Until, say: Say
) -> Learned:
    """Train on what the agent wrote in these rows of an `sft` export. Without a limit in seconds the same rows and seed
    give the same weights."""
    chance, began = random.Random(seed), time.monotonic()  # noqa: S311
    both, updates, read = optimizers(model, LR), 0, 0
    conversations = [told(row["messages"], row["tools"]) for row in rows]
    batches = _batches(conversations, tokenizer, chance)
    losses: list[float] = []
    while (gone := until.gone(updates, read, time.monotonic() - began)) < 1:
        ids, mask = next(batches)
        loss = -(logps_of(model, ids) * mask[:, 1:]).sum() / mask[:, 1:].sum()
        step(model, both, loss, min(1.0, (updates + 1) / WARM_UP) * (1 - 0.95 * gone))
        updates, read = updates + 1, read + len(ids)
        losses.append(float(loss.detach()))
        if updates % 100 == 0:
            say(f"  {updates} updates, loss {fmean(losses[-100:]):.3f}, {time.monotonic() - began:.0f} s")
    return Learned(updates, read, time.monotonic() - began)


def _batches(
    conversations: Sequence[Sequence[Segment]], tokenizer: Tokenizer, chance: random.Random
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield IDs and masks of random rows, each with other names and numbers at every turn."""
    while True:
        chosen: list[tuple[list[int], list[int]]] = []
        while sum(len(ids) for ids, _ in chosen) < TOKENS_A_STEP:
            chosen.append(encoded(tokenizer, redrawn(chance.choice(conversations), chance)))
        yield padded([ids for ids, _ in chosen], torch.long), padded([mask for _, mask in chosen], torch.float)


def grpo_update(
    model: Tiny,
    both: list[torch.optim.Optimizer],
    groups: Sequence[Sequence[Played]],
    share: float,
    *,
    passes: int = 1,
    parts: int = 1,
) -> dict[str, float]:
    """Learn by advantages within each group; rollouts of groups without a difference teach nothing.

    The rollouts of a group are of one task and had the same offer of help, since the offer is no action of theirs. All
    are read `passes` times in `parts`, an update each; the clipped ratio keeps the model near what it drew
    from. `share` is the part of the learning rate that is used. Returns what to report as losses, of the first update.
    """
    kept: list[tuple[Played, float]] = []
    for group in groups:
        kept += advantages_of([one for one in group if one.counts])
    if not kept:
        return {"policy": 0.0, "learned_from": 0.0}
    found: dict[str, float] = {}
    for _ in range(passes):
        order = [kept[at] for at in torch.randperm(len(kept)).tolist()]
        for part in filter(None, (order[at::parts] for at in range(parts))):
            losses = _update(model, both, part, share)
            found = found or {**losses, "learned_from": float(len(kept))}
    return found


def advantages_of(group: Sequence[Played]) -> list[tuple[Played, float]]:
    """Return each rollout of a group with how much better than their mean it was; nothing if all are alike.

    Rewards are scaled by the spread of the outcomes alone. Where those are alike, a price counts as what it is: scaled
    to one, the smallest price would be as strong as an outcome, and no ask would be left.
    """
    rewards, outcomes = [one.reward for one in group], [float(one.complete) for one in group]
    if len(set(rewards)) < 2:
        return []
    spread = pstdev(outcomes) + 1e-4 if len(set(outcomes)) > 1 else 1.0
    return [(one, (one.reward - fmean(rewards)) / spread) for one in group]


def _update(
    model: Tiny, both: list[torch.optim.Optimizer], kept: Sequence[tuple[Played, float]], share: float
) -> dict[str, float]:
    ids = padded([one.ids for one, _ in kept], torch.long)
    mask = padded([one.drawn for one, _ in kept], torch.float)[:, 1:]
    old = padded([one.logps for one, _ in kept], torch.float)[:, 1:]
    advantage = torch.tensor([[value] for _, value in kept])
    ratio = torch.exp((logps_of(model, ids) - old) * mask)
    gain = torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.28) * advantage)
    loss = -(gain * mask).sum() / mask.sum()
    step(model, both, loss, share)
    off = float(((ratio.detach() - 1).abs() * mask).max())
    return {"policy": float(loss.detach()), "ratio_off": off}


def step(model: Tiny, both: list[torch.optim.Optimizer], loss: Tensor, share: float) -> None:
    for one in both:
        one.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for one in both:
        for group in one.param_groups:
            group.setdefault("full", group["lr"])
            group["lr"] = group["full"] * share
        one.step()

"""A causal transformer of some 0.2 million parameters, its optimizer, and batched sampling with a key-value cache."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

Cache = list[tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Size:
    vocabulary: int
    width: int = 64
    layers: int = 3
    heads: int = 4


class Layer(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.heads, width = size.heads, size.width
        self.before, self.between = nn.RMSNorm(width), nn.RMSNorm(width)
        self.mix, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def forward(self, x: Tensor, at: Tensor, mask: Tensor, past: tuple[Tensor, Tensor] | None) -> tuple[Tensor, tuple]:
        rows, length, width = x.shape
        shape = (rows, length, 3, self.heads, width // self.heads)
        q, k, v = self.mix(self.before(x)).view(shape).permute(2, 0, 3, 1, 4)
        q, k = turned(q, at), turned(k, at)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        seen = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.out(seen.transpose(1, 2).reshape(rows, length, width))
        return x + self.down(functional.gelu(self.up(self.between(x)))), (k, v)


def turned(x: Tensor, at: Tensor) -> Tensor:
    """Turn `x` (rows, heads, length, width of a head) by its positions `at` (length,)."""
    half = x.shape[-1] // 2
    angles = at[:, None] * torch.exp(torch.arange(half) * (-math.log(10000.0) / half))
    cos, sin = angles.cos(), angles.sin()
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)


class Tiny(nn.Module):
    """`forward` takes IDs (rows, length) with padding of 0 on either side, and returns logits of the same places."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.words = nn.Embedding(size.vocabulary, size.width)
        self.layers = nn.ModuleList(Layer(size) for _ in range(size.layers))
        self.last = nn.RMSNorm(size.width)
        nn.init.normal_(self.words.weight, std=0.05)
        for layer in self.layers:
            nn.init.zeros_(layer.out.weight)
            nn.init.zeros_(layer.down.weight)

    def forward(self, ids: Tensor) -> Tensor:
        return functional.linear(self._hidden(ids, ids != 0, None)[0], self.words.weight)

    def _hidden(self, ids: Tensor, real: Tensor, past: Cache | None) -> tuple[Tensor, Cache]:
        """`real` marks which places up to the last of `ids` are no padding: (rows, past and present length)."""
        length, total = ids.shape[1], real.shape[1]
        at = torch.arange(total - length, total)
        mask = (torch.arange(total)[None] <= at[:, None])[None] & real[:, None]
        mask = mask | torch.eye(total, dtype=torch.bool)[None, total - length :]  # padding sees itself, never nothing
        x, cache = self.words(ids), []
        for place, layer in enumerate(self.layers):
            x, kept = layer(x, at, mask[:, None], None if past is None else past[place])
            cache.append(kept)
        return self.last(x), cache

    @torch.no_grad()
    def sampled(
        self, contexts: Sequence[Sequence[int]], *, end: int, most: int = 24, temperature: float = 0.0
    ) -> list[tuple[list[int], list[float]]]:
        """Continue each context up to and with `end`; temperature 0 takes the likeliest. Returns IDs and their log
        probabilities."""
        longest = max(map(len, contexts))
        ids = torch.tensor([[0] * (longest - len(context)) + list(context) for context in contexts])
        real, past = ids != 0, None
        found: list[tuple[list[int], list[float]]] = [([], []) for _ in contexts]
        done = torch.zeros(len(contexts), dtype=torch.bool)
        for _ in range(most):
            hidden, past = self._hidden(ids, real, past)
            logits = functional.linear(hidden[:, -1], self.words.weight)
            logits[:, 0] = -math.inf
            chances = functional.log_softmax(logits, -1)
            drawn = torch.multinomial(chances.exp(), 1) if temperature else chances.argmax(-1, keepdim=True)
            for row in (~done).nonzero()[:, 0].tolist():
                found[row][0].append(int(drawn[row, 0]))
                found[row][1].append(float(chances[row, drawn[row, 0]]))
            done |= drawn[:, 0] == end
            if bool(done.all()):
                break
            ids, real = drawn, torch.cat([real, torch.ones(len(contexts), 1, dtype=torch.bool)], 1)
        return found


class Muon(torch.optim.Optimizer):
    """Momentum whose matrices are made orthogonal by Newton-Schulz steps (Jordan 2024); for matrices alone."""

    def __init__(self, parameters: Sequence[nn.Parameter], lr: float) -> None:
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                moved = self.state[weight].setdefault("moved", torch.zeros_like(weight))
                moved.mul_(0.95).add_(weight.grad)
                weight.add_(orthogonal(weight.grad + 0.95 * moved), alpha=-group["lr"])


def orthogonal(matrix: Tensor) -> Tensor:
    x = matrix.T if matrix.shape[0] > matrix.shape[1] else matrix
    x = x / (x.norm() + 1e-7)
    for _ in range(5):
        square = x @ x.T
        x = 3.4445 * x + (-4.7750 * square + 2.0315 * square @ square) @ x
    return (x.T if matrix.shape[0] > matrix.shape[1] else x) * max(1, matrix.shape[0] / matrix.shape[1]) ** 0.5


def optimizers(model: Tiny, lr: float) -> list[torch.optim.Optimizer]:
    """Muon for the matrices of the layers, AdamW for embeddings and norms."""
    matrices = [weight for weight in model.layers.parameters() if weight.ndim == 2]
    others = [model.words.weight, *(weight for weight in model.parameters() if weight.ndim == 1)]
    return [Muon(matrices, 5 * lr), torch.optim.AdamW(others, lr=lr, weight_decay=0.0)]

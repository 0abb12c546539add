"""Rollouts whose tokens llama.cpp draws, as rows for GRPO: what was read and drawn, and by how much it is ahead."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import httpx
from transformers import AutoTokenizer

from examples.batches import Continued
from examples.grpo.rollouts import Place, connected, play, settled
from examples.grpo.turns import Chat, Drawn


class Drawing:
    """Continues token IDs on a server of llama.cpp, and returns what it drew with its log-probabilities."""

    def __init__(self, http: httpx.AsyncClient, new_tokens: int) -> None:
        self._http, self._new_tokens = http, new_tokens

    async def __call__(self, ids: list[int]) -> Continued:
        body = {
            "prompt": ids,
            "n_predict": self._new_tokens,
            "temperature": 1.0,
            "top_k": 0,
            "top_p": 1.0,
            "min_p": 0.0,
        }
        body |= {"n_probs": 1, "return_tokens": True, "cache_prompt": True}
        answer = (await self._http.post("/completion", json=body)).raise_for_status().json()
        drawn = answer["completion_probabilities"]
        return [one["id"] for one in drawn], [one["logprob"] for one in drawn]


async def rows(
    place: Place,
    model: str,
    template: Path,
    tasks: Sequence[tuple[str, int]],
    group: int,
    run: dict[str, Any],
    say: Callable[[str], None],
) -> list[dict[str, Any]]:
    """Play each task `group` times, half of them with an expert; rows of rollouts that are ahead or behind."""
    chat = Chat(AutoTokenizer.from_pretrained(template))
    async with (
        httpx.AsyncClient(base_url=model.removesuffix("/v1"), timeout=1200) as http,
        connected(place) as connections,
    ):
        draw = Drawing(http, place.new_tokens)
        groups, began = list[list[Drawn]](), time.monotonic()
        for number, (scenario, idx) in enumerate(tasks, 1):
            offers = ["plain"] * (group // 2) + ["off"] * (group - group // 2)
            where = {"scenario": scenario, "task_idx": idx, **run}
            groups.append(await asyncio.gather(*(play(connections, chat, draw, expert=one, **where) for one in offers)))
            left = (time.monotonic() - began) / number * (len(tasks) - number)
            complete = sum(one.complete for one in groups[-1])
            say(f"  group {number} of {len(tasks)}: {complete} of {group} complete, about {left / 60:.0f} minutes left")
    played = [one for each in groups for one in settled(each) if one.lead and any(one.mask)]
    return [
        {"ids": one.prompt + one.ids, "mask": [0] * len(one.prompt) + one.mask, "lead": one.lead,
         "logps": [logp for logp, drawn in zip(one.logps, one.mask, strict=True) if drawn]}
        for one in played
    ]  # fmt: skip

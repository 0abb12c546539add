"""Train a model with GRPO on awmweb's environment server, with experts as a recipe says.

    AWMWEB_URL=http://127.0.0.1:8000 AWMWEB_TOKEN=<scope agent> AWMENV_URL=http://127.0.0.1:8100 PYTHONPATH=. \
    .venv-train/bin/python -m examples.grpo --model Qwen/Qwen3-0.6B --recipe examples/grpo/recipes/mixed.yaml \
    --steps 100 --held-out helpdesk_1/0 helpdesk_1/1
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from transformers import AutoModelForCausalLM, AutoTokenizer

from awmclient.client import SyncHttpDashboard
from examples.grpo.recipe import RECIPES, Recipe
from examples.grpo.training import dtype_of, evaluate, save_merged, trainer_of


def options() -> argparse.Namespace:
    """Read what to train and how."""
    read = argparse.ArgumentParser(prog="python -m examples.grpo")
    read.add_argument("--model", required=True, help="a folder, or a name at the Hub")
    read.add_argument("--recipe", type=Path, default=RECIPES / "adaptive_errors.yaml", metavar="FILE")
    read.add_argument("--steps", type=int, default=100)
    read.add_argument("--groups", type=int, help="tasks of a step, instead of the recipe's")
    read.add_argument("--group", type=int, help="rollouts of a task, instead of the recipe's")
    read.add_argument("--lora", action=argparse.BooleanOptionalAction, help="train adapters instead of all weights")
    read.add_argument("--vllm", choices=["colocate", "server"], help="draw with vLLM")
    read.add_argument("--held-out", nargs="*", default=[], metavar="SCENARIO/N", help="tasks of the evaluation")
    read.add_argument("--output", type=Path, default=Path("grpo"))
    return read.parse_args()


def main() -> None:
    said = options()
    recipe = Recipe.read(said.recipe, groups=said.groups, group=said.group, lora=said.lora, vllm=said.vllm)
    place = recipe.place(os.environ["AWMWEB_URL"], os.environ["AWMWEB_TOKEN"], os.environ["AWMENV_URL"])
    tokenizer = AutoTokenizer.from_pretrained(said.model)
    model = AutoModelForCausalLM.from_pretrained(said.model, dtype=dtype_of(recipe))
    held_out = [(name, int(number)) for name, _, number in (one.rpartition("/") for one in said.held_out)]
    with SyncHttpDashboard(place.url, place.token) as dash:
        run = dash.start_run(f"grpo {said.model} {recipe.help}", metadata=recipe.metadata())
        check = dash.start_run(f"grpo {said.model} {recipe.help}, held out", metadata={"evaluation": True})
    trainer = trainer_of(model, tokenizer, place, run=run, folder=said.output, steps=said.steps, recipe=recipe)
    shares = {}
    if held_out:
        shares["before"] = evaluate(trainer.model, tokenizer, place, held_out, run=check, arm="before")
    trainer.train()
    save_merged(trainer.model, tokenizer, said.output / "merged")
    if held_out:
        merged = AutoModelForCausalLM.from_pretrained(said.output / "merged")
        shares["after"] = evaluate(merged, tokenizer, place, held_out, run=check, arm="after")
    for name, share in shares.items():
        print(f"{name}: {share:.0%} of {len(held_out)} held-out tasks complete")


if __name__ == "__main__":
    main()

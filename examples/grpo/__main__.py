"""Train a model with GRPO on awmweb's environment server, with experts as the curriculum says.

    AWMWEB_URL=http://127.0.0.1:8000 AWMWEB_TOKEN=<scope agent> AWMENV_URL=http://127.0.0.1:8100 PYTHONPATH=. \
    .venv-train/bin/python -m examples.grpo --model Qwen/Qwen3-0.6B --steps 100 --held-out helpdesk_1/0 helpdesk_1/1
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from transformers import AutoModelForCausalLM, AutoTokenizer

from awmclient.client import SyncHttpDashboard
from examples.grpo.rollouts import Place
from examples.grpo.training import evaluate, save_merged, trainer_of


def options() -> argparse.Namespace:
    """Read what to train and how."""
    read = argparse.ArgumentParser(prog="python -m examples.grpo")
    read.add_argument("--model", required=True, help="a folder, or a name at the Hub")
    read.add_argument("--steps", type=int, default=100)
    read.add_argument("--groups", type=int, default=2, help="tasks of a step")
    read.add_argument("--group", type=int, default=8, help="rollouts of a task")
    read.add_argument("--lora", action="store_true", help="train adapters instead of all weights")
    read.add_argument("--vllm", choices=["colocate", "server"], default="", help="draw with vLLM")
    read.add_argument("--held-out", nargs="*", default=[], metavar="SCENARIO/N", help="tasks of the evaluation")
    read.add_argument("--output", type=Path, default=Path("grpo"))
    return read.parse_args()


def main() -> None:
    said = options()
    place = Place(os.environ["AWMWEB_URL"], os.environ["AWMWEB_TOKEN"], os.environ["AWMENV_URL"])
    tokenizer, model = AutoTokenizer.from_pretrained(said.model), AutoModelForCausalLM.from_pretrained(said.model)
    held_out = [(name, int(number)) for name, _, number in (one.rpartition("/") for one in said.held_out)]
    with SyncHttpDashboard(place.url, place.token) as dash:
        run = dash.start_run(f"grpo {said.model}", metadata={"curriculum": {"group_size": said.group}})
        check = dash.start_run(f"grpo {said.model}, held out", metadata={"evaluation": True})
    about = {"groups": said.groups, "group": said.group, "lora": said.lora, "vllm": said.vllm}
    trainer = trainer_of(model, tokenizer, place, run=run, folder=said.output, steps=said.steps, **about)
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

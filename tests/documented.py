"""Fenced blocks of README.md and docs/: what each holds, and which test proves it.

A block belongs to a test that asks for it with `proves`, which gives the test its text. `tests/test_documents.py`
refuses a block without one.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import shlex
import textwrap
from dataclasses import dataclass
from typing import Any

import pytest

from tests.commands import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
MANAGE = re.compile(r"(?:\$ )?(?:\.venv/bin/)?python manage\.py (.*)")


@dataclass
class Request:
    method: str
    path: str
    body: Any
    status: int = 0
    told: str = ""

    def names_told(self) -> set[str]:
        """Names in the documented answer."""
        return set(re.findall(r'"(\w+)":', self.told))


@dataclass(frozen=True)
class Block:
    page: str
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}: {self.text.splitlines()[0][:60]}"

    def commands(self) -> list[list[str]]:
        """Arguments of each line that is a command of `manage.py`, without its remark."""
        found = [MANAGE.match(line) for line in self.text.splitlines()]
        return [shlex.split(one[1], comments=True) for one in found if one]

    def shell(self) -> list[str]:
        """Lines that are for a shell: all of `bash`, and those after a prompt of `console`."""
        joined = self.text.replace("\\\n", "")
        if self.language == "bash":
            return [line for line in joined.splitlines() if line and not line.startswith("#")]
        return [line[2:] for line in joined.splitlines() if line.startswith("$ ")]

    def requests(self) -> list[Request]:
        """What an `http` block writes; a status that stands on the next line belongs to the request before it."""
        found: list[Request] = []
        for line in self.text.replace(", …}", "}").splitlines():
            body, rest = None, line
            if head := re.match(r"(GET|POST) +/api/v1(\S+) *", line):
                rest = line[head.end() :]
                if rest.startswith("{"):
                    body, end = json.JSONDecoder().raw_decode(rest)
                    rest = rest[end:]
                found.append(Request(head[1], head[2], body))
            if told := re.match(r" *(\d{3})(?: +(\{.*\}))?", rest):
                found[-1].status, found[-1].told = int(told[1]), told[2] or ""
        return found


def _blocks() -> list[Block]:
    found = []
    for page in PAGES:
        for one in re.finditer(r"(?ms)^( *)```(\w*)\n(.*?)^ *```$", page.read_text(encoding="utf-8")):
            found.append(Block(str(page.relative_to(ROOT)), one[2], textwrap.dedent(one[3])))
    return found


BLOCKS = _blocks()
README = "tests/exports/test_trainers.py::test_lines_of_the_readme_train_on_an_export_of_the_demo_run"
ROWS = "tests/exports/formats/test_documented_rows.py::test_documented_row_is_a_row_of_its_format"
COMPARED = {  # name of a test that reads these blocks of a page by itself
    (
        "README.md",
        "bash",
    ): README,
    (
        "README.md",
        "python",
    ): README,
    (
        "docs/exports.md",
        "json",
    ): ROWS,
    ("docs/frameworks.md", "python"): "tests/frameworks/test_documented.py::test_documented_lines_record_an_episode",
}
ONLY_READ = {  # first words of a block that no test can run, and why
    "make run     # installs": "starting the product is what `tests/running.py` does; `make test` is this",
    ".venv/bin/python manage.py benchmark": "takes 30 s; tests/product/test_benchmark.py runs it on four tasks",
    "helm install": "needs a cluster; tests/awmweb/test_chart.py renders and checks what it would apply",
    "kubectl -n desk create job": "needs a cluster; tests/awmweb/test_daily.py runs the command of the job",
    "kubectl -n desk scale": "needs a cluster; tests/awmweb/test_commands.py restores over a database",
    "$ .venv/bin/python manage.py model serve": "serves until stopped; tests/weights runs it",
    "$ AWMWEB_AGENTS=local": "needs the model of the block above; tests/weights runs both commands",
    "make train-demo": "trains for ten minutes; `make test-train` walks the same program",
    "make train-real": "trains for hours; tests/examples/test_train_real.py reads its parts",
    ".venv/bin/python manage.py export --format sft --filter run=demonst": "trains; `make train-real` does the same",
    "make install-llm install-train": "installs for minutes; `make test-train` and `make test-llm` begin with it",
    ".venv-train/bin/python -m examples.train_real.desks": "needs a product; tests/examples/test_real_lab.py has it",
    "AWMWEB_AGENTS=local,after": "needs a trained model; `make train-real` does the same",
    "pip install harbor": "needs a container and a model; tests/harbor runs this job with a folder and a script",
    "python -m awmclient.adapters.openenv_harbor": "needs a sandbox at a provider and OpenEnv with Python 3.12",
    "$ awmclient hook status": "reads a home; tests/awmclient/test_hooks.py runs it in one of its own",
    "make strategies": "trains for hours; tests/examples/test_strategies.py walks the same program",
    "AWMWEB_URL=http://127.0.0.1:8000 AWMWEB_TOKEN=<scope agent>": "trains a model of 0.6 billion parameters on a GPU",
    "AWMWEB_ENVIRONMENTS=lab": "needs a server of others; its plan is proven beside it",
    "AWMWEB_EXPORTS_S3": "needs a bucket at a provider; tests/exports/assembly/test_store.py has one of its own",
    "AWMWEB_EXPERT_BASE_URL": "needs a model of others; tests/product/test_models.py sets these",
    "$ export AWMWEB_HUB_TOKEN": "needs an account at the Hub; tests/exports/hub_server.py stands in for it",
}


def starting(page: str, start: str) -> list[Block]:
    """Blocks of a page that begin with these words."""
    return [one for one in BLOCKS if one.page == page and one.text.startswith(start)]


def proves(page: str, *starts: str) -> pytest.MarkDecorator:
    """Give a test the block of a page that begins so, or each of them."""
    chosen = []
    for start in starts:
        [block] = starting(page, start)
        chosen.append(block)
    return pytest.mark.parametrize("block", chosen, ids=str)


def proven_by(text: str) -> list[tuple[str, str]]:
    """Page and first words of the blocks that the tests of a file ask for."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "proves":
            page, *starts = [ast.literal_eval(one) for one in node.args]
            found += [(page, start) for start in starts]
    return found


async def run(block: Block, names: dict[str, Any], **replaced: str) -> dict[str, Any]:
    """Run the lines of a block as they stand, but for addresses; return the names that it has made."""
    text = block.text
    for old, new in replaced.items():
        assert old in text, old
        text = text.replace(old, new)
    code = compile(text, str(block), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    given = {"__name__": "documented", **names}
    made = eval(code, given)  # noqa: S307
    if inspect.isawaitable(made):
        await made
    return given

"""Kernels without Landlock and containers without namespaces, made for real by a filter that refuses their system
calls: what runs, what does not.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from awmenv.client import EnvironmentClient
from awmenv.errors import ResetFailed
from awmenv.health import Health
from awmenv.server.sandbox.syscalls import number
from tests.awmenv.conftest import Server
from tests.awmenv.hostile_packs import pack

# seccomp, in the assembler of the kernel: load the number of the call; those from the first to the last fail.
WITHOUT = """#!{python}
import ctypes, os, struct, sys
rows = [(0x20, 0, 0, 0), (0x35, 0, 2, {first}), (0x25, 1, 0, {last}), (6, 0, 0, 0x50000 | 38), (6, 0, 0, 0x7FFF0000)]
code = b"".join(struct.pack("HBBI", *row) for row in rows)
buffer = ctypes.create_string_buffer(code, len(code))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(rows), ctypes.addressof(buffer)), 16)
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0
os.execv({python!r}, [{python!r}, *sys.argv[1:]])
"""


def without(folder: Path, first: str, last: str) -> str:
    """An interpreter whose system calls from the first to the last are not there."""
    if not sys.platform.startswith("linux"):
        pytest.skip("the filter is Linux's")
    python = folder / "python"
    python.write_text(WITHOUT.format(python=sys.executable, first=number(first), last=number(last)))
    python.chmod(0o755)
    return str(python)


@pytest.fixture
def weak(make_server: Callable[..., Server], tmp_path: Path) -> Callable[..., Server]:
    """A server that finds no Landlock."""
    python = without(tmp_path, "landlock_create_ruleset", "landlock_restrict_self")
    return lambda **settings: make_server(python=python, **settings)


async def test_without_namespaces_paths_are_seen_and_the_tier_stays(
    make_server: Callable[..., Server], tmp_path: Path
) -> None:
    code = "def verify_task_completion(a, b):\n    import os\n    return {'seen': os.path.isdir('/etc')}\n"
    server = make_server(pack(tmp_path / "pack"), python=without(tmp_path, "unshare", "unshare"))
    stats = json.loads(server.get("/stats"))
    assert (stats["tier"], stats["probes"].pop("no_looking")) == ("strict", False) and all(stats["probes"].values())
    async with EnvironmentClient(server.url) as env:
        await env.reset(scenario="open_1")
        assert json.loads(str((await env.call_tool("run_code", {"code": code})).tool_result)) == {"seen": True}


def tier(server: Server) -> tuple[str, str]:
    stats = json.loads(server.get("/stats"))
    assert stats["probes"]["landlock"] is False and json.loads(server.get("/health"))["tier"] == stats["tier"]
    return stats["tier"], stats["min_tier"]


@pytest.mark.parametrize(
    ("settings", "reached"),
    [
        ({}, ("none", "strict")),
        ({"AWMENV_DECLARED_TIER": "degraded", "AWMENV_MIN_TIER": "container"}, ("degraded", "container")),
    ],
)
async def test_below_the_minimum_the_server_answers_and_runs_no_code(
    weak: Callable[..., Server], settings: dict[str, str], reached: tuple[str, str]
) -> None:
    server = weak(**settings)
    assert tier(server) == reached
    async with EnvironmentClient(server.url) as env:
        with pytest.raises(
            ResetFailed, match=f"sandbox level '{reached[0]}' is below AWMENV_MIN_TIER '{reached[1]}'"
        ) as caught:
            await env.reset(scenario="notes_1", task_idx=0)
        assert caught.value.code == "sandbox_missing"
        assert len(await env.list_scenarios()) == 2


async def test_declared_sandbox_level_is_on_every_outcome(weak: Callable[..., Server]) -> None:
    declared = "container"
    server = weak(AWMENV_DECLARED_TIER=declared, AWMENV_MIN_TIER=declared)
    assert tier(server) == (declared, declared)
    async with EnvironmentClient(server.url) as env:
        assert (await env.reset(scenario="notes_1", task_idx=0, state_diff=True)).metadata["tier"] == declared
        await env.call_tool("create_note", {"title": "Milk"})
        outcome = await env.verify()
        assert (outcome.reward_type, outcome.metadata["tier"]) == ("complete", declared)
        health = Health.from_wire(outcome.metadata["health"])
        assert health is not None and health.code.says == "others"


async def test_declaring_less_than_the_kernel_gives_takes_nothing_away(make_server: Callable[..., Server]) -> None:
    server = make_server(AWMENV_DECLARED_TIER="degraded", AWMENV_MIN_TIER="degraded")
    assert json.loads(server.get("/health"))["tier"] == "strict"

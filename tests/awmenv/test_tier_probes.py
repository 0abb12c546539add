"""A kernel without Landlock, made for real by a filter that refuses its system calls: what runs, what does not."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from awmenv.client import EnvironmentClient
from awmenv.errors import ResetFailed
from awmenv.health import Health
from tests.awmenv.conftest import Server

# seccomp, in the assembler of the kernel: load the number of the call; 444 to 446 (Landlock's three) fail with ENOSYS.
WITHOUT_LANDLOCK = """#!{python}
import ctypes, os, struct, sys
rows = [(0x20, 0, 0, 0), (0x35, 0, 2, 444), (0x25, 1, 0, 446), (0x06, 0, 0, 0x00050000 | 38), (0x06, 0, 0, 0x7FFF0000)]
code = b"".join(struct.pack("HBBI", *row) for row in rows)
buffer = ctypes.create_string_buffer(code, len(code))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(rows), ctypes.addressof(buffer)), 16)
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0
os.execv({python!r}, [{python!r}, *sys.argv[1:]])
"""


@pytest.fixture
def weak(make_server: Callable[..., Server], tmp_path: Path) -> Callable[..., Server]:
    """A server that finds no Landlock."""
    if not sys.platform.startswith("linux"):
        pytest.skip("the filter is Linux's")
    python = tmp_path / "python"
    python.write_text(WITHOUT_LANDLOCK.format(python=sys.executable))
    python.chmod(0o755)
    return lambda **settings: make_server(python=str(python), **settings)


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
            ResetFailed, match=f"reached here is '{reached[0]}', the minimum is '{reached[1]}'"
        ) as caught:
            await env.reset(scenario="notes_1", task_idx=0)
        assert caught.value.code == "sandbox_missing"
        assert len(await env.list_scenarios()) == 2


async def test_what_the_operator_declared_runs_and_is_told_with_every_outcome(weak: Callable[..., Server]) -> None:
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

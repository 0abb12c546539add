"""What is done before a fork: memory is laid out so that forks share it, and nothing behaves otherwise for it."""

import json
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator

import psutil
import pytest

from awmenv.client import EnvironmentClient
from awmenv.server.sandbox.sharing import lay_together
from awmenv.server.world.tools import operations, samples
from tests.awmenv.conftest import ROOT, OpenFolders, Server, start_server
from tests.awmenv.hostile_packs import RUN_CODE, pack

GAPS = """
import sys
sys.path.insert(0, {root!r})
from awmenv.server.sandbox import sharing
old = [(str(number) * 9, [number]) for number in range(12_000)]
del old[::2]
if {settled}:
    sharing.fill_gaps()
pages = {{id(part) >> 12 for pair in old for part in pair}}
new = [(str(number) * 9, [number]) for number in range(5_000)]
print(sum(id(part) >> 12 in pages for pair in new for part in pair) / 10_000)
"""


def share_on_old_pages(settled: bool) -> float:
    code = GAPS.format(root=str(ROOT), settled=settled)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)


def test_memory_after_freeze_shares_no_page() -> None:
    assert share_on_old_pages(settled=False) > 0.5
    assert share_on_old_pages(settled=True) < 0.05


def test_functions_that_were_laid_together_do_what_they_did() -> None:
    def outer(number: int, *, step: int = 2) -> Iterator[int]:
        def inner(value: int) -> int:
            return value + step + sum(part for part in range(number))

        yield from (inner(value) for value in [number, number + 1])

    before, code = list(outer(3)), outer.__code__
    lay_together(lambda: list(outer(3)))
    assert outer.__code__ is not code and outer.__code__ == code
    assert list(outer(3)) == before == [8, 9]


def test_made_up_arguments_fit_their_schemas() -> None:
    kinds = [{"type": "integer", "minimum": 7}, {"enum": ["b"]}, {"anyOf": [{"type": "boolean"}]}, {"default": 3}, None]
    parameters = [
        {"name": str(place), "in": "query", "required": place < 2, "schema": kind} for place, kind in enumerate(kinds)
    ]
    (operation,) = operations({"paths": {"/x": {"get": {"operationId": "x", "parameters": parameters}}}})
    found = samples(operation)
    assert found[0] == {"0": 7, "1": "b"}
    assert found[-1] == {"0": 7, "1": "b", "2": True, "3": 3, "4": "a"}
    assert [len(one) for one in found] == [2, 3, 3, 3, 5]


STATE = """
state = {"broken": False}

@app.get("/state", operation_id="show_state")
def show_state() -> dict:
    return state

@app.get("/odd", operation_id="odd_read")
def odd_read() -> int:
"""
ODD_READS = {
    "hangs": "    while True: pass",
    "leaves": "    os._exit(3)",
    "breaks": "    state['broken'] = True; raise RuntimeError",
    "writes": "    return add_row()",
}
STARTING = RUN_CODE.replace("app = FastAPI(debug=True)", "{made}")
BY_EVENT = 'app = FastAPI()\napp.router.on_startup.append(lambda: open("started", "a").write("x"))'
BY_LIFESPAN = """
import contextlib
@contextlib.asynccontextmanager
async def living(app):
    open("started", "a").write("x")
    yield
app = FastAPI(lifespan=living)
"""
STARTED = (
    '\n@app.get("/started", operation_id="how_often")\ndef how_often() -> str:\n    return open("started").read()\n'
)


@pytest.fixture(scope="module")
def odd(tmp_path_factory: OpenFolders) -> Iterator[Server]:
    """Apps whose reads or start-up are not what one would like, each as a scenario."""
    folder = tmp_path_factory.mktemp("odd")
    for name, body in ODD_READS.items():
        pack(folder / "pack", RUN_CODE + STATE + body, name)
    pack(folder / "pack", STARTING.replace("{made}", BY_EVENT) + STARTED, "by_event")
    pack(folder / "pack", STARTING.replace("{made}", BY_LIFESPAN) + STARTED, "by_lifespan")
    running = start_server(folder, folder / "pack")
    yield running
    running.stop()


@pytest.mark.parametrize("scenario", ODD_READS)
async def test_read_effects_before_a_session_do_not_reach_it(odd: Server, scenario: str) -> None:
    async with EnvironmentClient(odd.url) as env:
        assert (await env.reset(scenario=scenario)).reward_type == "reset_ok"
        assert json.loads((await env.call_tool("show_state")).tool_result) == {"broken": False}
        assert json.loads((await env.call_tool("add_row")).tool_result) == 1


@pytest.mark.parametrize("scenario", ["by_event", "by_lifespan"])
async def test_an_apps_start_up_runs_in_every_session_and_once(odd: Server, scenario: str) -> None:
    for _time in range(2):
        async with EnvironmentClient(odd.url) as env:
            await env.reset(scenario=scenario)
            assert json.loads((await env.call_tool("how_often")).tool_result) == "x"


def test_the_soft_limit_of_open_files_is_raised_for_the_sessions(make_server: Callable[..., Server]) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 3200:
        pytest.skip("the hard limit is too low here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
    try:
        server = make_server()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert psutil.Process(server.process.pid).rlimit(resource.RLIMIT_NOFILE)[0] >= 3200

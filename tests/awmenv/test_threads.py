"""Apps that use threads: what they give to one runs in place, and none is ever started."""

import json
from collections.abc import Iterator

import pytest

from awmenv.client import EnvironmentClient
from tests.awmenv.conftest import OpenFolders, Server, start_server
from tests.awmenv.hostile_packs import RUN_CODE, pack

pytestmark = pytest.mark.attack("apps")

THREADED = (
    RUN_CODE
    + """
import asyncio, contextvars, threading, time
from concurrent.futures import ThreadPoolExecutor, as_completed, wait
from fastapi import BackgroundTasks, Depends
from fastapi.concurrency import run_in_threadpool
from sqlalchemy.orm import Session

pool, lock = ThreadPoolExecutor(max_workers=4), threading.Lock()
seen = []

def add(x):
    with lock, engine.begin() as connection:
        connection.execute(text("INSERT INTO t (x) VALUES (:x)"), {"x": x})
        return x

def session():
    with Session(engine) as opened:
        yield opened

@app.post("/sync", operation_id="sync_endpoint")
def sync_endpoint(tasks: BackgroundTasks, opened: Session = Depends(session)) -> int:
    tasks.add_task(add, 10)
    tasks.add_task(add, 11)
    return opened.execute(text("SELECT count(*) FROM t")).scalar()

@app.post("/pool", operation_id="thread_pool")
async def thread_pool() -> list:
    loop = asyncio.get_running_loop()
    found = [
        await run_in_threadpool(add, 1), await asyncio.to_thread(add, 2), await loop.run_in_executor(None, add, 3),
        await loop.run_in_executor(pool, add, 4), *pool.map(add, [5, 6]), pool.submit(add, 7).result(),
        *sorted(done.result() for done in as_completed([pool.submit(add, 8), pool.submit(add, 9)])),
    ]
    with ThreadPoolExecutor() as own:
        failed = own.submit(add, 1)
    assert len(wait([failed]).done) == 1 and "UNIQUE" in str(failed.exception())
    return [*found, *(await asyncio.gather(*(asyncio.to_thread(str, n) for n in range(2))))]

@app.get("/thread", operation_id="own_thread")
def own_thread() -> str:
    try:
        threading.Thread(target=print).start()
    except RuntimeError as error:
        return str(error)
    return "started"
"""
)


@pytest.fixture(scope="module")
def threaded(tmp_path_factory: OpenFolders) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("threaded")
    running = start_server(folder, pack(folder / "pack", THREADED))
    yield running
    running.stop()


async def test_app_with_thread_pools_and_background_tasks_works(threaded: Server) -> None:
    async with EnvironmentClient(threaded.url) as env:
        await env.reset(scenario="open_1")
        assert json.loads(str((await env.call_tool("thread_pool")).tool_result)) == [*range(1, 10), "0", "1"]
        assert json.loads(str((await env.call_tool("sync_endpoint")).tool_result)) == 9
        assert json.loads(str((await env.call_tool("add_row")).tool_result)) == 12, "its background tasks were done"


async def test_app_thread_is_refused_with_runtime_error(threaded: Server) -> None:
    async with EnvironmentClient(threaded.url) as env:
        await env.reset(scenario="open_1")
        assert (await env.call_tool("own_thread")).tool_result == '"can\'t start new thread"'

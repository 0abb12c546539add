"""The contract suite over the memory dashboard and over HTTP."""

import asyncio

import pytest

from awmclient.client import HttpDashboard
from awmclient.client.memory_store import MemoryStore
from awmclient.schema import Advice
from awmclient.testing import MemoryDashboard
from tests.awmclient.contract import DashboardContract
from tests.awmclient.http_dashboard import TOKEN, FakeHttpDashboard


class BookWorld:
    """The people behind a `MemoryStore`."""

    def __init__(self, dash, book: MemoryStore) -> None:
        self.dash, self.book = dash, book

    async def steps(self, episode):
        return self.book.entry(episode).steps

    async def answer(self, episode, text, tool_calls=None):
        while not self.book.open_asks(episode):
            await asyncio.sleep(0.01)
        self.book.close(
            self.book.open_asks(episode)[0], "answered", Advice(text=text, source="human", tool_calls=tool_calls)
        )

    async def stop(self, episode):
        self.book.stop(episode)

    async def ended(self, episode):
        entry = self.book.entry(episode)
        return entry.state, entry.stop_reason


class TestMemoryDashboard(DashboardContract):
    @pytest.fixture
    async def world(self):
        dash = MemoryDashboard()
        return BookWorld(dash, dash.book)


class TestHttpDashboard(DashboardContract):
    @pytest.fixture
    async def world(self):
        server = FakeHttpDashboard()
        await server.start()
        async with HttpDashboard(server.url, TOKEN) as dash:
            yield BookWorld(dash, server.book)
        await server.kill()

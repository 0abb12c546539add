"""The in-process dashboard of our own worker owes a loop what every dashboard owes it."""

from __future__ import annotations

import asyncio
import threading

import pytest
from asgiref.sync import async_to_sync
from channels.db import database_sync_to_async
from django.db import connection

from episodes.models import Episode
from episodes.record import ending
from episodes.visible.trajectory import steps_of
from experts.models import Ask
from experts.record import advising, queue
from people import access
from people.errors import NotFound
from people.models import Project
from people.record import members
from runs.play import database, local
from runs.play.local import LocalDashboard
from tests.awmclient.contract import DashboardContract
from tests.people_by_name import person


class LocalWorld:
    def __init__(self, project, expert):
        self.project, self.expert = project, expert
        self.dash = LocalDashboard(access.system(project))

    @database_sync_to_async
    def steps(self, episode):
        return [step for step in steps_of(Episode.objects.get(pk=episode)) if step["kind"] != "verification"]

    async def answer(self, episode, text, tool_calls=None):
        while not await self._answered(episode, text, tool_calls):
            await asyncio.sleep(0.02)

    @database_sync_to_async
    def _answered(self, episode, text, tool_calls):
        from awmclient.schema import ToolCall

        ask = Ask.objects.filter(episode=episode, status="open").first()
        if ask is None:
            return False
        lease = queue.claim(self.expert, ask.pk)
        calls = [ToolCall.model_validate(call) for call in tool_calls or []]
        advising.answer(self.expert, lease.assignment_id, lease.lease_token, text, "n", calls)
        return True

    @database_sync_to_async
    def stop(self, episode):
        ending.cancel(access.system(self.project), episode, "a person said so")

    @database_sync_to_async
    def ended(self, episode):
        row = Episode.objects.get(pk=episode)
        return row.state, row.stop_reason or None


@pytest.mark.django_db(transaction=True)
class TestLocalDashboard(DashboardContract):
    @pytest.fixture
    def world(self, transactional_db):
        project = members.ensure_project("lab", "Lab")
        assert Project.objects.count() == 1
        return LocalWorld(project, person(project, "edo", "expert"))


def by_another_thread(coroutine):
    async def awaited():
        return await coroutine

    return async_to_sync(awaited)()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("run", [database.run, by_another_thread], ids=["own loop", "any loop"])
def test_an_attempt_keeps_one_connection_and_survives_its_end(monkeypatch, run):
    monkeypatch.setattr(local, "FIRST_PAUSE_S", 0.01)

    def session():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            return connection.connection, cursor.fetchone()[0]

    def end():
        connection.connection.close()  # as a restart of the database leaves it

    async def attempt():
        first, again = await local.patiently(session), await local.patiently(session)
        await local.patiently(end)
        return first, again, await local.patiently(session)

    with database.one_connection():
        first, again, other = run(attempt())
    assert first == again and other[1] != first[1]
    assert connection.connection is None


@pytest.mark.django_db(transaction=True)
def test_an_attempt_never_leaves_its_thread():
    """A write is made while nothing else of the loop runs, and the loop goes on after one that fails."""

    def where():
        assert Project.objects.count() == 0
        return threading.get_ident()

    def fails():
        raise NotFound

    async def attempt():
        with pytest.raises(NotFound):
            await database.in_database(fails)()
        return await database.in_database(where)(), asyncio.get_running_loop().is_running()

    assert database.run(attempt()) == (threading.get_ident(), True)

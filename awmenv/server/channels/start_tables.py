"""The start tables of a scenario, for a dashboard that shares the server's key: a page of rows at a time.

1. The question must be signed and fresh. 2. The database must be the one of the episode's record. 3. It is read in a
sandboxed child (`listing`). Agents cannot reach this: neither channel has it, and it requires the key. Called by `app`.
"""

import asyncio
import json
import secrets
import time
from functools import partial
from typing import Any

from awmenv.attesting import NotAttested, asked
from awmenv.errors import AwmenvError, UnknownScenario
from awmenv.server import database
from awmenv.server.session.marks import MAX_CLOCK
from awmenv.server.session.shared import World

CONCURRENT = 2
FRESH_S = 120
MAX_OFFSET = 10_000_000
MAX_NAME = 200


class Unanswered(Exception):
    """A refused question: an HTTP status, and the reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class StartTables:
    """The responder to questions, a few at a time: an idle scenario has to be loaded for one."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._room = asyncio.Semaphore(CONCURRENT)

    async def answer(self, body: bytes) -> dict[str, Any]:
        """Return the tables that a signed question asks for. Raises `Unanswered`."""
        question = self._question(body)
        try:
            async with self._room:
                return await self._read(**question)
        except UnknownScenario as error:
            raise Unanswered(404, "This server has no such scenario.") from error
        except AwmenvError as error:
            raise Unanswered(503, f"The start tables cannot be read now: {error.code}") from error

    def _question(self, body: bytes) -> dict[str, Any]:
        """Return the contents of a question, which only a holder of the key can have signed."""
        key = self._world.settings.attest_key
        if not key:
            raise Unanswered(403, "This server shares no key with a dashboard (AWMENV_ATTEST_KEY_FILE).")
        try:
            question = asked(key, json.loads(body))
        except (NotAttested, ValueError) as error:
            raise Unanswered(403, "The question is not signed with this server's key.") from error
        if abs(time.time() - question.pop("at")) > FRESH_S:
            raise Unanswered(403, "The question is too old, or the clocks of server and dashboard differ.")
        if not _is_sound(question):
            raise Unanswered(422, "The question names a scenario, its clock and digest, a table and an offset.")
        return question

    async def _read(self, scenario: str, clock: int, digest: str, table: str, offset: int) -> dict[str, Any]:
        pack = await self._world.library.find_new(scenario)
        template = await self._world.scenarios.template(pack, pack.scenario(scenario).name, clock)
        if template.digest != digest:
            raise Unanswered(409, "The start database is not the one of the episode: the scenario has changed since.")
        copy = self._world.workplace.path / f"tables-{secrets.token_hex(8)}.db"
        copy.hardlink_to(template.snapshot)  # it outlives the template's retirement
        try:
            request = json.dumps({"table": table, "offset": offset})
            read = partial(self._world.verifiers.run, private=True)
            run = await self._world.in_worker(scenario, read, "tables", [str(copy)], "", request)
        finally:
            database.remove(copy)
        if not isinstance(run.value, dict):
            raise Unanswered(503, "The start tables cannot be read now: unexpected response")
        return run.value


def _is_sound(question: dict[str, Any]) -> bool:
    kinds = {"scenario": str, "clock": int, "digest": str, "table": str, "offset": int}
    if set(question) != set(kinds) or any(type(question[name]) is not kind for name, kind in kinds.items()):
        return False
    names_fit = all(len(question[name]) <= MAX_NAME for name in ("scenario", "digest", "table"))
    return names_fit and 0 <= question["clock"] < MAX_CLOCK and 0 <= question["offset"] <= MAX_OFFSET

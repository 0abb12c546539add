"""Checks of a pack before anyone runs it: whether its rows build a database, and the health of its verifiers.

Both forms of each verifier run on that database, in the sandbox. Owns what is tried, once per content, and where the
records outlive the process. Leaves building and running to `scenario` and `verifier`, texts to `awmenv.health`. Called
by `sessions` for the task of an episode that people watch, and as a separate process for whole packs (`checkpack`).
"""

import asyncio
import contextlib
import hashlib
import json
import logging
import sqlite3
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from awmenv.errors import AwmenvError, DatabaseBroken
from awmenv.health import MAX_ERROR, Form, Health
from awmenv.models import BuildReport
from awmenv.packs import Mode, Pack, Verifier
from awmenv.server import database
from awmenv.server.session.scenario import ScenarioPool
from awmenv.server.session.turns import CoreTurns
from awmenv.server.settings import Judge
from awmenv.server.verifier import RunFailed, VerifierPool, verdict
from awmenv.server.verify import judge

log = logging.getLogger("awmenv.checkup")

VERSION = 2  # of the checks; records of another version are replaced
PATIENCE_S = 2.0  # a scenario that takes longer stops blocking others
NO_CHANGE = "passes_untouched"
CALL_IN_WORDS = '```json\n{"name": "list_items", "arguments": {"id": 1}}\n```'
GUESSES = {"digits": "0 1 2 3 4 5 6 7 8 9", "a call in words": CALL_IN_WORDS, "one word": "Done.", "the task": ""}
"""Answers that show no work, by name. The task's own words stand in for the empty one."""
OWN_WORDS = {"complete": "complete", "others": "others", "incomplete": "others"}
OWN_FLAGS = ("complete", "completed", "task_complete", "task_completed")
OWN_ERRORS = ("error", "exception", "traceback")


class Checkup:
    """A runner of verifiers on unmodified databases, `at_a_time` scenarios together, and as many more that take long.

    With a judge, evidence without a verdict is ruled on; otherwise such a form says nothing. With `guesses`, answers
    without work are tried on each code form.
    """

    def __init__(
        self,
        scenarios: ScenarioPool,
        verifiers: VerifierPool,
        cache: Path | None,
        *,
        workers: Executor,
        at_a_time: int = 2,
        judge: Judge | None = None,
        guesses: bool = False,
    ) -> None:
        self.scenarios = scenarios
        self.verifiers = verifiers
        self.records = Records(cache)
        self.judge = judge
        self.guesses = guesses
        self._workers = workers
        self._room = CoreTurns(at_a_time, PATIENCE_S, each=1, late=at_a_time)
        self._asked: dict[tuple[str, str, int], asyncio.Task[Health]] = {}

    def ask(self, pack: Pack, scenario: str, task_idx: int) -> asyncio.Task[Health]:
        """Return the known or running check of one task; concurrent callers share it. Never fails."""
        key = (pack.digests[scenario], scenario, task_idx)
        if key not in self._asked:
            self._asked[key] = asyncio.ensure_future(self._health_of(pack, scenario, task_idx))
            self._asked[key].add_done_callback(lambda task: self._forget_unchecked(key, task))
        return self._asked[key]

    async def _health_of(self, pack: Pack, scenario: str, task_idx: int) -> Health:
        try:
            return (await self.of(pack, scenario, [task_idx]))[task_idx]
        except (AwmenvError, OSError) as error:
            return Health(unchecked=str(error))

    def _forget_unchecked(self, key: tuple[str, str, int], task: asyncio.Task[Health]) -> None:
        """Forget a failed check, so that it can be repeated later."""
        if task.cancelled() or task.exception() or task.result().unchecked:
            self._asked.pop(key, None)

    async def of(self, pack: Pack, scenario: str, tasks: Iterable[int]) -> dict[int, Health]:
        """Return the health of each task, from the records or checked now on one database of the scenario.

        Raises an EnvironmentFault if nothing can be tried; then nothing is recorded.
        """
        async with self._room.hold((pack.digests[scenario], scenario)):
            subjects = await asyncio.to_thread(lambda: [TaskUnderTest(pack, scenario, task_idx) for task_idx in tasks])
            recorded = await asyncio.to_thread(lambda: {one.task_idx: self._recorded(one.digest) for one in subjects})
            checks = {
                task_idx: health for task_idx, health in recorded.items() if health and not self._could_say_more(health)
            }
            for subject, health in await self._tried(pack, scenario, [s for s in subjects if s.task_idx not in checks]):
                before = recorded[subject.task_idx]
                if before is not None and health.guessed is None:
                    health = replace(health, guessed=before.guessed)
                await asyncio.to_thread(self.records.write, subject.digest, health.wire())
                checks[subject.task_idx] = health
            return checks

    def _recorded(self, digest: str) -> Health | None:
        return Health.from_wire(self.records.read(digest))

    async def database(self, pack: Pack, scenario: str) -> BuildReport:
        """Return the build result of the scenario's database, from the records or built now and discarded.

        Raises an EnvironmentFault if nothing can be built here; then nothing is recorded.
        """
        async with self._room.hold((pack.digests[scenario], scenario)):
            digest = await asyncio.to_thread(lambda: _digest(["database", VERSION, pack.statements(scenario)]))
            recorded = BuildReport.from_wire(await asyncio.to_thread(self.records.read, digest))
            if recorded is not None:
                return recorded
            try:
                file, report = await self.scenarios.build_database(pack, scenario)
                file.unlink(missing_ok=True)
            except DatabaseBroken as error:
                if error.report is None:  # its process exceeded a limit, which another run may not
                    return BuildReport(failures=1, failed=[str(error)])
                report = error.report
            await asyncio.to_thread(self.records.write, digest, report.wire())
            return report

    def _could_say_more(self, health: Health) -> bool:
        if health.unchecked:
            return False
        unruled = self.judge is not None and health.sql.state == "runs" and not health.sql.says
        return unruled or (self.guesses and health.guessed is None)

    async def _tried(
        self, pack: Pack, scenario: str, subjects: "Sequence[TaskUnderTest]"
    ) -> "list[tuple[TaskUnderTest, Health]]":
        if not subjects:
            return []
        try:
            built, _report = await self.scenarios.build_database(pack, scenario)
        except DatabaseBroken as error:
            return [(subject, Health(unchecked=str(error))) for subject in subjects]
        try:
            return [(subject, await self._try(subject, str(built))) for subject in subjects]
        finally:
            database.remove(built)

    async def _try(self, subject: "TaskUnderTest", built: str) -> Health:
        code = await self._form(subject, "code", built)
        guessed = await self._guessed(subject, code, built) if self.guesses else None
        return Health(code, await self._form(subject, "sql", built), subject.expects_no_change, guessed=guessed)

    async def _guessed(self, subject: "TaskUnderTest", code: Form, built: str) -> tuple[str, ...]:
        """Return which answers without work the code form accepts, where it does not accept nothing at all."""
        verifier = subject.forms["code"]
        if verifier is None or code.state != "runs" or code.says == "complete":
            return ()
        accepted = []
        for name, words in GUESSES.items():
            answer = words or subject.task
            run = partial(verdict, self.verifiers, verifier.code, "code", built, built, answer, private=True)
            outcome = await asyncio.get_running_loop().run_in_executor(self._workers, run)
            if outcome["execution_status"] == "success" and own_word(outcome["raw_result"]) == "complete":
                accepted.append(name)
        return tuple(accepted)

    async def _form(self, subject: "TaskUnderTest", mode: Mode, built: str) -> Form:
        verifier = subject.forms[mode]
        if verifier is None:
            return Form()
        run = partial(verdict, self.verifiers, verifier.code, mode, built, built, None, private=True)
        outcome = await asyncio.get_running_loop().run_in_executor(self._workers, run)
        if outcome.get("error_code") not in (None, RunFailed.code):
            raise AwmenvError(str(outcome["error_message"]))
        form = form_of(outcome)
        if mode == "code" or self.judge is None or form.state != "runs" or form.says:
            return form
        about = {"task": subject.task, "steps": [], "evidence": outcome["raw_result"], "about": verifier.raw_response}
        ruling, details = await judge.rule(self.judge, about)
        if ruling == "judge_error":
            log.warning("no ruling on the unmodified database of task %d: %s", subject.task_idx, details)
            return form
        return replace(form, says="complete" if ruling == "complete" else "others", judged=True)


class TaskUnderTest:
    """One task with both forms of its verifier, and the digest of all inputs of its check."""

    def __init__(self, pack: Pack, scenario: str, task_idx: int) -> None:
        self.task_idx = task_idx
        self.task = pack.tasks(scenario)[task_idx]
        self.forms: dict[Mode, Verifier | None] = {
            "code": pack.verifier(scenario, task_idx, "code"),
            "sql": pack.verifier(scenario, task_idx, "sql"),
        }
        self.expects_no_change = pack.about(scenario, task_idx).get("kind") == NO_CHANGE
        texts = [form.code if form else None for form in self.forms.values()]
        self.digest = _digest([VERSION, pack.statements(scenario), texts, self.expects_no_change])


def _digest(content: list[Any]) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:40]


def form_of(outcome: dict[str, Any]) -> Form:
    """Return the form of a verifier that one run of `run_verifier` shows."""
    if outcome["execution_status"] != "success":
        error = str(outcome["error_message"])
        reason = error.removeprefix("DoesNotCompile: ")
        return Form("fails" if reason == error else "broken", "", reason[:MAX_ERROR])
    value = outcome["raw_result"]
    hidden = next((value[name] for name in OWN_ERRORS if isinstance(value.get(name), str) and value[name]), "")
    return Form("runs", own_word(value), hidden[:MAX_ERROR])


def own_word(value: dict[str, Any]) -> str:
    """Return the verdict that a result states itself; empty if it is evidence for a judge.

    Only unambiguous names count: `status` or `success` may be part of the evidence.
    """
    word = value.get("result")
    if isinstance(word, str) and word.strip().lower() in OWN_WORDS:
        return OWN_WORDS[word.strip().lower()]
    flag = next((value[name] for name in OWN_FLAGS if type(value.get(name)) is bool), None)
    return "" if flag is None else "complete" if flag else "others"


class Records:
    """The results by digest, in a small database of our own; without one, everything is checked again each time.

    The server opens it, so nothing of a pack is ever part of a statement: a result is JSON text in one column.
    """

    def __init__(self, cache: Path | None) -> None:
        self.file = cache / "verifiers.db" if cache else None

    def read(self, digest: str) -> Any:
        rows = self._run("SELECT found FROM health WHERE digest = ?", [digest])
        return json.loads(rows[0][0]) if rows else None

    def write(self, digest: str, record: dict[str, Any]) -> None:
        self._run("INSERT OR REPLACE INTO health VALUES (?, ?)", [digest, json.dumps(record)])

    def _run(self, statement: str, values: list[str]) -> list[tuple[Any, ...]]:
        if self.file is None:
            return []
        try:
            self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with contextlib.closing(sqlite3.connect(self.file, timeout=5, isolation_level=None)) as connection:
                connection.execute("PRAGMA synchronous=OFF")  # a lost record is only checked again
                connection.execute("CREATE TABLE IF NOT EXISTS health (digest TEXT PRIMARY KEY, found TEXT NOT NULL)")
                return connection.execute(statement, values).fetchall()
        except (sqlite3.Error, OSError) as error:
            log.info("records of verifiers are not kept: %s", error)
            return []

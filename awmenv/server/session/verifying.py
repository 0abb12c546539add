"""What the verifiers of one session are shown, and what they said: each once, repeated on request.

Leaves when a session is sealed to `sessions`, the verifiers' processes to `verifier`, rulings to `judge`.
"""

import asyncio
import contextlib
import json
import logging
import time
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from awmenv.attesting import sha256_of
from awmenv.errors import AwmenvError
from awmenv.health import Health
from awmenv.packs import Mode, Pack
from awmenv.server import database
from awmenv.server.session.shared import World
from awmenv.server.strict import clean
from awmenv.server.verifier import verdict
from awmenv.server.verify import judge

log = logging.getLogger("awmenv.session")

MAX_TRAIL = 200  # calls kept for the judge
MAX_NOTED = 2000  # characters of a call's arguments, and of its result
CHECKUP_WAIT_S = 2.0


@dataclass(frozen=True)
class VerifierResult:
    """What one verifier said, stored and repeated on request."""

    reward_type: str
    result: dict[str, Any]
    diff: dict[str, Any] | None = None
    health: Health | None = None
    verifier_sha256: str = ""
    final_answer: str | None = None


@dataclass(frozen=True)
class _Compared:
    """The last comparison of two copies. What one write changed is what an episode of one write changed."""

    before: Path | None
    after: Path
    diff: dict[str, Any] | None


@dataclass
class Case:
    """What one session is judged by: its task, its first and its final database, and the agent's calls.

    `task` is the text that the session's client named, `own_task` the pack's: the judge rules on the latter.
    """

    world: World
    scenario: str = ""
    pack: Pack | None = None
    """The version of the scenario's pack at the reset. A replacement does not change a session."""
    task: str | None = None
    own_task: str | None = None
    task_idx: int | None = None
    has_verifier: dict[str, bool] | None = None
    wants_diff: bool = False
    initial: Path | None = None
    final: Path | None = None
    no_final: str = ""
    final_digest: str = ""
    database_sha256: str = ""
    diff: dict[str, Any] | None = None
    missed_calls: bool = False
    _calls: list[dict[str, Any]] = field(default_factory=list)
    _verified: dict[Mode, VerifierResult] = field(default_factory=dict)
    _compared: _Compared | None = None

    def note(self, name: str, arguments: dict[str, Any], status: str | int, text: str) -> None:
        """Keep the call for the judge, large arguments as the beginning of their JSON: a session holds many calls."""
        if not (self.has_verifier or {}).get("sql"):
            return
        written = json.dumps(arguments, ensure_ascii=False)
        step = {
            "tool": name,
            "arguments": arguments if len(written) <= MAX_NOTED else written[:MAX_NOTED],
            "status": status,
            "result": text[:MAX_NOTED],
        }
        self._calls = [*self._calls[-MAX_TRAIL + 1 :], step]

    async def compare(self, before: Path | None, after: Path) -> dict[str, Any] | None:
        """Return what changed between two copies; None if they cannot be compared.

        The same bytes are not read as databases again: a process for it costs as much as two tool calls.
        """
        if await _same(before, after):
            return {}
        if self._compared is not None and self._compared.before == before and await _same(self._compared.after, after):
            return self._compared.diff
        diff = await self._compare(before, after)
        self._compared = _Compared(before, after, diff)
        return diff

    async def _compare(self, before: Path | None, after: Path) -> dict[str, Any] | None:
        try:
            run = await self.world.in_worker(
                self.scenario, partial(self.world.verifiers.run, private=True), "diff", [str(before), str(after)]
            )
        except AwmenvError as error:
            log.warning("no state diff for %s: %s", self.scenario, error)
            return None
        return run.value if isinstance(run.value, dict) else None

    def check_up(self) -> "asyncio.Task[Health] | None":
        """Have the verifier's health checked, if it is not yet."""
        if self.task_idx is None:
            return None
        return self.world.checkup.ask(self.held_pack(), self.scenario, self.task_idx)

    def held_pack(self) -> Pack:
        """Return the pack that the session began with."""
        return self.pack if self.pack is not None else self.world.library.find(self.scenario)

    async def verify(self, mode: Mode, final_answer: str | None) -> VerifierResult:
        """Run one verifier; a second request for the same mode gets the stored result."""
        if mode not in self._verified:
            began = time.monotonic()
            outcome = await self._run_verifier(mode, final_answer)
            took = time.monotonic() - began
            self._verified[mode] = replace(outcome, health=await self._health(), final_answer=final_answer)
            self.world.counts.verified(took)
        return self._verified[mode]

    async def judge(self, code: str, final_answer: str | None) -> VerifierResult:
        """Run a verifier that is not the pack's. Its result is not kept, has no check, and is never attested."""
        return await self._run_code(code, final_answer)

    async def _health(self) -> Health | None:
        """Return the check of the verifier that has just run; the outcome waits for it only briefly."""
        asked = self.check_up() if self.wants_diff else None
        if asked is None:
            return None
        # `wait` does not cancel the check at its limit, which other callers share.
        done, _ = await asyncio.wait({asked}, timeout=CHECKUP_WAIT_S)
        return asked.result() if done else Health(unchecked="the verifier ran before the check ended")

    def _missing(self) -> str:
        """Return why no verifier can judge the databases; "" if one can."""
        if self.missed_calls:
            return "the environment was lost before the agent finished"
        return f"no final database: {self.no_final}" if self.final is None else ""

    async def _run_code(self, code: str, final_answer: str | None, mode: Mode = "code") -> VerifierResult:
        """Run code on the session's databases. In mode sql this brings the evidence alone, and no verdict."""
        if missing := self._missing():
            return _no_verdict(missing)
        paths = str(self.initial), str(self.final)
        result = await self.world.in_worker(
            self.scenario, verdict, self.world.verifiers, code, mode, *paths, final_answer, True
        )
        if result["execution_status"] != "success":
            return VerifierResult("judge_error", result, self.diff)
        return VerifierResult(result["result"], result, self.diff, verifier_sha256=sha256_of(code))

    async def _run_verifier(self, mode: Mode, final_answer: str | None) -> VerifierResult:
        task_idx = self.task_idx if self.task_idx is not None else -1
        verifier = await asyncio.to_thread(self.held_pack().verifier, self.scenario, task_idx, mode)
        if verifier is None:
            return _no_verdict(self._missing() or "no verifier")
        outcome = await self._run_code(verifier.code, final_answer, mode)
        if mode == "code" or outcome.reward_type == "judge_error":
            return outcome
        evidence = {
            "task": self.task if self.own_task is None else clean(self.own_task),
            "steps": self._calls,
            "evidence": outcome.result["raw_result"],
            "about": verifier.raw_response,
        }
        ruling, details = await judge.rule(self.world.settings.judge, evidence)
        ruled = {**outcome.result, **_ruled(ruling, details)}
        return replace(outcome, reward_type=ruling, result=ruled)


def _no_verdict(why: str) -> VerifierResult:
    return VerifierResult("judge_error", {"result": "others", "execution_status": "error", "error_message": why})


async def _same(first: Path | None, other: Path) -> bool:
    """Return whether two copies hold the same bytes; one may have been removed since."""
    with contextlib.suppress(OSError):
        return first is not None and await database.same_aside(first, other)
    return False


def _ruled(ruling: str, details: dict[str, Any]) -> dict[str, Any]:
    """Return what a ruling makes of the verifier's result: a judge that failed is an error, and never a verdict."""
    if ruling == "judge_error":
        reason = f"the judge gave no ruling: {details.get('error', 'no reason')}"
        return {"llm_judge": details, "execution_status": "error", "error_message": reason}
    return {"llm_judge": details, "result": "complete" if ruling == "complete" else "others"}

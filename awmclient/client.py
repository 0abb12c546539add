"""The dashboard over HTTP: `HttpDashboard` for async loops and `SyncHttpDashboard` for all others.

Owns the public face and how long a question waits. Leaves requests to `wire.py` and order to `outbox.py`. The sync
face runs the async one on a thread of its own, so there is one set of rules; make it in the process that uses it (a
thread does not survive a fork).

    async with HttpDashboard("http://127.0.0.1:8000", token) as dash:
        episode = await dash.start_episode("Cancel order 7", expert="plain")
        await episode.append({"kind": "tool_call", "name": "get_order", "arguments": {"id": 7}, "result": {"state":
        "open"}}) advice = await episode.ask("May I refund the fee?", deadline_s=120) await episode.finish("done",
        final_answer="Cancelled.")
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack
from urllib.parse import quote, urlencode
from uuid import uuid4

from awmclient.bodies import (
    AskFields,
    EpisodeFields,
    StepLike,
    ask_body,
    episode_body,
    failing,
    finish_body,
    unanswered,
)
from awmclient.errors import ClientError, Parked, Refused, Unreachable, refusal
from awmclient.interrupts import InterruptsView, RunInterrupts
from awmclient.outbox import Outbox, Question
from awmclient.schema import (
    Advice,
    AskView,
    AttachedFile,
    AttachedFiles,
    CurriculumNext,
    EpisodeView,
    Fault,
    Heard,
    OwnFault,
    ReportedOutcome,
    StopReason,
    TrainingStepView,
    WheelView,
    WholeResult,
)
from awmclient.typed import typed_of
from awmclient.wire import Wire

log = logging.getLogger(__name__)
T = TypeVar("T")
POLL_S = 25
GRACE_S = 1.5
"""Seconds after the deadline in which the dashboard can report the result; then the loop continues alone."""
# The agent waits meanwhile: a receipt that takes longer goes with the next call.
_RECEIPT_S = 1.0
_PAUSE_S = 0.5


class HttpEpisode:
    """One episode at the dashboard. Tasks can share it; steps keep the order of the calls."""

    def __init__(
        self, wire: Wire, episode: str, url: str, last_seq: int = 0, park_after_s: float | None = None
    ) -> None:
        self.id, self.url = episode, url
        self._wire, self._park_after_s = wire, park_after_s
        self._outbox = Outbox(wire, episode, last_seq)
        self.steered = False
        """Whether a person has something for the loop, as far as the last heartbeat said."""

    def __repr__(self) -> str:
        return f"HttpEpisode({self.id!r}, last_seq={self.last_seq})"

    @property
    def last_seq(self) -> int:
        """The last step number given out; the next step gets the one after it."""
        return self._outbox.last_seq

    async def append(self, steps: StepLike | Sequence[StepLike]) -> int:
        """Record one step or many; returns the last number that is durable.

        A step without `seq` gets the next number. If the dashboard stays away, `Unreachable` is raised and the steps
        are kept: they go first in the next call, and `append([])` only tries again.

            await episode.append({"kind": "message", "role": "assistant", "content": "Let me look."})
        """
        batch = self._outbox.put_steps(steps)
        # Only this batch's own refusal: the error of an earlier entry is raised by its own caller.
        await self._outbox.flush()
        if batch.error is not None:
            raise batch.error
        return self._outbox.acknowledged

    async def heartbeat(self) -> None:
        """Send a heartbeat during long turns; every other call about the episode counts as one too."""
        # Not worth a retry, as the next heartbeat comes soon.
        reply = await self._wire.send("POST", f"/episodes/{self.id}/heartbeat", {}, retry_s=0, read_s=10)
        self.steered = reply.body.get("steered") is True

    async def look(self) -> bool:
        """Return whether a person has the wheel. Asks only after a heartbeat that said so."""
        return self.steered and (await self._read_wheel(0)).held

    async def wheel(self, acted: int) -> WheelView:
        """Return what people at the wheel want after order number `acted`: hold, make calls, other limits.

        while (found := await episode.wheel(acted)).held or found.orders:
            ...  # make each order's call, and append its step with `acted_by` of the order
        """
        found = await self._read_wheel(acted)
        if found.held and not found.orders:
            await asyncio.sleep(_PAUSE_S)
            found = await self._read_wheel(acted)
        self.steered = found.held or bool(found.orders)
        return found

    async def _read_wheel(self, acted: int) -> WheelView:
        return WheelView.read((await self._wire.send("GET", f"/episodes/{self.id}/wheel?acted={acted}")).body)

    async def view(self) -> EpisodeView:
        """Return the episode's state at the dashboard."""
        return EpisodeView.read((await self._wire.send("GET", f"/episodes/{self.id}")).body)

    async def steps(self, since: int = 0) -> list[dict[str, Any]]:
        """Return the recorded steps with `seq` above `since`, as they were stored, in order: a loop that starts
        again after a crash continues from them.

            done = await episode.steps()
        """
        found: list[dict[str, Any]] = []
        while True:
            page = (await self._wire.send("GET", f"/episodes/{self.id}/steps?since={since}")).body
            found += page["steps"]
            if not page.get("more"):
                return found
            since = int(found[-1]["seq"])

    async def ask(
        self, question: str, *, files: Sequence[tuple[str, bytes]] = (), **fields: Unpack[AskFields]
    ) -> Advice:
        """Ask the experts and wait. Takes one step number, which the dashboard records. `files` are names and bytes,
        attached once the question is open.

        Returns at the latest 2 s after the deadline, whatever happens to the dashboard; without advice that is a
        fallback, `local` if the loop had to decide it alone. Raises `Refused` (such as `EpisodeEnded`) if the dashboard
        says that the question may not be asked, and `Parked` after `park_after_s` of the dashboard.

            advice = await episode.ask("Which status means draft?", context="create failed twice", deadline_s=120)
            observation = advice.observation()  # what the agent may see

        With `kind` *approval*, *choice* or *form* the answer is typed: `advice.decision`, checked by the dashboard
        against `calls`, `options` or `response_schema`. `on_timeout` says what silence means; it never approves.

            advice = await episode.ask("May I?", kind="approval", on_timeout="reject", calls=[{"id": "1", "name":
            "refund", "arguments": {"order": 7}, "schema": schema, "reason": "Paid twice."}])
            verdicts = {call.id: call for call in advice.decision.calls}
        """
        loop = asyncio.get_running_loop()
        body = ask_body(question, fields)
        # Counted from now by this process: the clocks of the two machines can differ.
        cutoff = loop.time() + float(body["deadline_s"]) + GRACE_S
        asked = self._outbox.put_question(body)
        reason = "no answer from the dashboard"
        try:
            async with asyncio.timeout_at(cutoff):
                return await self._wait(asked, cutoff, files)
        except TimeoutError:
            # Without an ID the question may never have reached the dashboard.
            reason = "deadline" if asked.id else reason
        except Unreachable as error:
            reason = error.message
        # Before the clause below: the question of a parked episode stays open for its experts.
        except Parked:
            raise
        except BaseException:  # also a cancelled wait: without this, people would answer no one
            self._outbox.give_up(asked, "the loop stopped waiting")
            raise
        # Its number stays taken: the record gets the ask, or a note in its place.
        heard: Heard = "deadline" if asked.id else "unreachable"
        self._outbox.give_up(asked, reason, heard)
        return unanswered(heard, typed_of(body))

    async def _wait(self, asked: Question, cutoff: float, files: Sequence[tuple[str, bytes]]) -> Advice:
        loop = asyncio.get_running_loop()
        while not asked.id and asked.error is None:
            try:
                await self._outbox.flush()
            except Unreachable:
                if loop.time() + _PAUSE_S >= cutoff:
                    raise
                await asyncio.sleep(_PAUSE_S)
        if asked.error is not None:
            raise asked.error
        for name, data in files:
            await _attach(self._wire, asked.id, name, data)
        return await self._last_word(asked.id, asked.view, cutoff, self._park_at())

    async def park(self) -> EpisodeView:
        """Let the episode wait for its answer without this process; silence does not fail it from now on.

        Raises `Refused` with code `not_waiting` if none of its asks is open. To continue, start the episode again with
        the same key and wait for the ask of its last step.
        """
        return EpisodeView.read((await self._wire.send("POST", f"/episodes/{self.id}/park", {})).body)

    def _park_at(self) -> float | None:
        return None if self._park_after_s is None else asyncio.get_running_loop().time() + self._park_after_s

    async def wait_for_advice(self, ask: str, deadline_s: int, typed: Mapping[str, Any] | None = None) -> Advice:
        """Wait for an ask that this episode opened before a crash, by its id; as `ask` otherwise. `typed` is that of
        its step."""
        cutoff = asyncio.get_running_loop().time() + deadline_s + GRACE_S
        try:
            async with asyncio.timeout_at(cutoff):
                return await self._last_word(ask, {"status": "open"}, cutoff, self._park_at())
        except TimeoutError:
            return unanswered("deadline", typed)

    async def _last_word(self, ask: str, view: dict[str, Any], cutoff: float, park_at: float | None) -> Advice:
        clock = asyncio.get_running_loop().time
        while True:
            while view.get("status") == "open":
                if park_at is not None and clock() >= park_at and await self._is_parked():
                    raise Parked("The episode is parked until its ask is closed.")
                # At least a second, so that an episode that cannot be parked does not poll in a busy loop.
                view = await self._poll(ask, cutoff if park_at is None else min(cutoff, max(park_at, clock() + 1)))
            last_word = await self._receipt(ask)
            if last_word.get("status") != "open":
                # The receipt has the answer as it was last edited; without one, that of the poll counts.
                return _advice(last_word if last_word.get("advice") else view)
            view = last_word  # the expert withdrew the answer before it was read; continue to wait

    async def _is_parked(self) -> bool:
        """Park; False if the ask was closed just now, or the dashboard cannot park now."""
        try:
            await self.park()
        except (Refused, Unreachable) as error:
            log.info("episode %s is not parked: %s", self.id, error)
            return False
        return True

    async def _poll(self, ask: str, cutoff: float) -> dict[str, Any]:
        """Make one long poll. A refusal while waiting (a restored database, a withdrawn token) leaves the agent without
        advice.
        """
        loop = asyncio.get_running_loop()
        start = loop.time()
        wait = max(1, min(POLL_S, int(cutoff - start)))
        try:
            # Until the cutoff: a dashboard that restarts meanwhile costs no answer.
            reply = await self._wire.send("GET", f"/asks/{ask}?wait={wait}", retry_s=cutoff - start, read_s=wait + 10)
        except Refused as error:
            log.warning("waiting for ask %s was refused: %s", ask, error)
            return {"status": "cancelled", "reason": error.code}
        if reply.body.get("status") == "open" and loop.time() - start < _PAUSE_S:
            await asyncio.sleep(_PAUSE_S)  # do not flood a dashboard that returns polls immediately
        return reply.body

    async def _receipt(self, ask: str) -> dict[str, Any]:
        """Confirm that the agent reads the advice now, which makes it final.

        Returns the ask with its final answer, which an expert may have edited; empty if the dashboard does not respond
        soon.
        """
        try:
            async with asyncio.timeout(_RECEIPT_S):
                # Once, because it goes again with the next call.
                return (await self._wire.send("POST", f"/asks/{ask}/consumed", {}, retry_s=0)).body
        except Refused as error:
            log.info("receipt for ask %s was refused: %s", ask, error)
            return {"status": "open"} if error.code == "still_open" else {}
        except (TimeoutError, ClientError):
            self._outbox.owe_receipt(ask)
            return {}

    async def finish(
        self,
        stop_reason: StopReason,
        *,
        final_answer: str | None = None,
        outcome: ReportedOutcome | Mapping[str, Any] | None = None,
        fault: OwnFault | None = None,
        detail: str = "",
    ) -> None:
        """Say why the loop ended. An `outcome` is your own judgement and is kept as *reported*. With `error`, a `fault`
        and its `detail` say which boundary failed. The same again changes nothing.

        await episode.finish("done", final_answer="42", outcome={"reward_type": "exact_match", "reward": 1.0})
        """
        # Before the end, after which the dashboard refuses steps.
        await self._outbox.flush()
        body = finish_body(stop_reason, final_answer, outcome, fault, detail)
        await self._wire.send("POST", f"/episodes/{self.id}/finish", body)

    async def fail(self, fault: Fault, detail: str) -> None:
        """End because a boundary failed: a note that names it, then `error`. Never counted as a failed task."""
        note, end = failing(fault, detail)
        await self.append(note)
        await self.finish(**end)


def _advice(view: Mapping[str, Any]) -> Advice:
    """Return the advice of a closed ask; a cancelled one gives a fallback that says so."""
    reason = view.get("reason")
    found = view.get("advice")
    if view.get("status") == "cancelled" or not isinstance(found, Mapping):
        return Advice(text="", source="fallback", reason=str(reason or view.get("status") or "cancelled"))
    return Advice.read({**found, "reason": found.get("reason") or reason, "local": False})


async def _attach(wire: Wire, ask: str, name: str, data: bytes) -> AttachedFile:
    # the dashboard knows a file that comes twice, so the call can be repeated
    place = f"/asks/{quote(ask, safe='')}/attachments?{urlencode({'name': name})}"
    return AttachedFile.read((await wire.send("POST", place, data)).body)


class HttpDashboard:
    """The dashboard at `url`, for the project of `token` (scope *agent*).

        async with HttpDashboard(url, token) as dash:
            episode = await dash.start_episode("Cancel order 7")

    Calls are repeated with growing pauses for `retry_s` seconds when the connection fails or the dashboard is busy.
    Each has a key, or changes nothing twice.

    An episode that has waited `park_after_s` seconds for advice is parked, and `ask` raises `Parked`: the process can
    end. Start the rollout again with the same key to go on. None waits in this process until the deadline.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        retry_s: float = 60.0,
        verify: bool | str = True,
        park_after_s: float | None = None,
    ) -> None:
        self._wire = Wire(url, token, retry_s=retry_s, verify=verify)
        self._park_after_s = park_after_s

    def __repr__(self) -> str:
        return f"HttpDashboard({self._wire.root.removesuffix('/api/v1')!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._wire.close()

    async def start_run(
        self,
        name: str,
        *,
        key: str | None = None,
        arm: str | None = None,
        policy: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
        expert: str | None = None,
    ) -> str:
        """Start a run, under which episodes can be started together; returns its id. With a `key` of yours the call
        can be repeated after a crash: the same key and body give the same run. `expert` is the most that its
        episodes may be given, *plain* if it is not said; *informed* wants a token of scope launch.

            run = await dash.start_run("nightly", key="nightly-7", policy={"model": "my-model"})
        """
        # without it a repeat after a lost answer would start another run
        key = key or uuid4().hex
        given = {"name": name, "key": key, "arm": arm, "policy": policy, "metadata": metadata, "expert": expert}
        body = {key: value for key, value in given.items() if value is not None}
        return str((await self._wire.send("POST", "/runs", body)).body["id"])

    async def start_episode(self, task: str, **fields: Unpack[EpisodeFields]) -> HttpEpisode:
        """Open an episode. With a `key` of yours the call can be repeated after a crash: the same key and body give
        the same episode, and its numbers go on where the dashboard's record ends.

            episode = await dash.start_episode("Cancel order 7", scenario="shop", expert="plain", key="shop-7-seed-1")
        """
        reply = await self._wire.send("POST", "/episodes", episode_body(task, fields))
        pk, url = str(reply.body["id"]), str(reply.body.get("url", ""))
        episode = HttpEpisode(self._wire, pk, url, park_after_s=self._park_after_s)
        # 201 is a new episode. Any other success is one of this key, whose numbers continue.
        if reply.status == 201:
            return episode
        return HttpEpisode(self._wire, pk, url, (await episode.view()).last_seq, self._park_after_s)

    async def record_whole(self, episodes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any] | Refused]:
        """Record finished episodes in one request, at most 64 and 8 MB, each as `schema.WholeEpisode`.

        Returns for each, in order, its id, url and whether it was `known`, or why it was refused. The call can be
        repeated: an episode of the same key and content is known.

            found = await dash.record_whole([{"episode": {"key": "a", "task": "t"}, "steps": [], "finish":
            {"stop_reason": "done"}}])
        """
        reply = await self._wire.send("POST", "/episodes/whole", {"episodes": [dict(one) for one in episodes]})
        found = [WholeResult.read(one) for one in reply.body["results"]]
        return [
            one.model_dump(exclude={"error"}) if one.error is None else refusal(422, one.error.code, one.error.message)
            for one in found
        ]

    async def report_step(
        self,
        run: str,
        training_step: int,
        *,
        losses: Mapping[str, float] | None = None,
        components: Mapping[str, float] | None = None,
        checkpoint: str | None = None,
    ) -> TrainingStepView:
        """Report a training step of a run once its rollouts have finished; returns what the dashboard counted, and how
        much help the next step gives. The same report can be repeated.

            step = await dash.report_step(run, 7, losses={"policy": 0.12}, components={"primary": 0.4})
        """
        given = {"losses": losses, "components": components, "checkpoint": checkpoint}
        said = {name: value for name, value in given.items() if value is not None}
        body = {"training_step": training_step, **said}
        return TrainingStepView.read((await self._wire.send("POST", f"/runs/{run}/steps", body)).body)

    async def next_tasks(
        self, count: int, *, run: str | None = None, seed: int = 0, snapshot: str | None = None
    ) -> CurriculumNext:
        """Ask what to play next and with how much help; without `run`, for the run that trained last.

        coming = await dash.next_tasks(16, run=run, seed=step)
        for task in coming.tasks:
            helped = ["plain"] * coming.ratio.expert + ["off"] * coming.ratio.solo
        """
        given = {"n": count, "run": run, "seed": seed, "snapshot": snapshot}
        query = urlencode({name: value for name, value in given.items() if value is not None})
        return CurriculumNext.read((await self._wire.send("GET", f"/curriculum/next?{query}")).body)

    async def interrupts(self, run: str, paused: RunInterrupts) -> InterruptsView:
        """Ask what an agent's run waits for, or read what was decided. The same call again opens nothing twice.

        outcome = {"type": "interrupt", "interrupts": [{"id": "1", "reason": "confirmation", "message": "May I?"}]}
        view = await dash.interrupts(run, RunInterrupts(thread_id="order-7", run_id="1", outcome=outcome))
        """
        body = paused.model_dump(mode="json", by_alias=True, exclude_none=True)
        reply = await self._wire.send("POST", f"/runs/{quote(run, safe='')}/interrupts", body)
        return InterruptsView.read(reply.body)

    async def view_ask(self, ask: str, wait_s: int = 0) -> AskView:
        """Return an ask; with `wait_s`, at most 25, wait so long for its end.

        view = await dash.view_ask(ask, wait_s=25)
        """
        path = f"/asks/{quote(ask, safe='')}?wait={min(wait_s, POLL_S)}"
        return AskView.read((await self._wire.send("GET", path, read_s=wait_s + 10)).body)

    async def attach(self, ask: str, name: str, data: bytes) -> AttachedFile:
        """Attach a file to an open ask; with an expert's token, to the answer of an ask that it has claimed.

        At most 5 files of 5 MB: PNG, JPEG, GIF, WebP, PDF or text in UTF-8.

            shot = await dash.attach(ask, "error.png", picture)
        """
        return await _attach(self._wire, ask, name, data)

    async def attachments(self, ask: str) -> list[AttachedFile]:
        """Return the files of an ask, and of its answer once it is answered.

        files = await dash.attachments(ask)
        """
        found = (await self._wire.send("GET", f"/asks/{quote(ask, safe='')}/attachments")).body
        return AttachedFiles.read(found).files

    async def download(self, attachment: str) -> bytes:
        """Return the bytes of a file by its ID, such as one of `advice.files`.

        picture = await dash.download(advice.files[0].id)
        """
        place = f"/attachments/{quote(attachment, safe='')}"
        return (await self._wire.send("GET", place, wants_bytes=True)).content


class _Portal:
    """An event loop on a thread of its own, started by the first call."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._start = threading.Lock()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine on this thread, from any thread or loop, in the order of these calls."""
        return asyncio.run_coroutine_threadsafe(work, self._running())

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        future = self.submit(work)
        try:
            return future.result()
        except BaseException:  # Ctrl-C while waiting: the work ends too
            future.cancel()
            raise

    def _running(self) -> asyncio.AbstractEventLoop:
        # Two threads that call first must not start two loops.
        with self._start:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                # A daemon, so that a program that never calls `close` can end.
                self._thread = threading.Thread(target=self._loop.run_forever, name="awmclient", daemon=True)
                self._thread.start()
            return self._loop

    def close(self) -> None:
        with self._start:
            if self._loop is not None and self._thread is not None:
                # `stop` from another thread does not wake a loop that sleeps.
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._thread.join()
                self._loop.close()
            self._loop = self._thread = None


class SyncEpisode:
    """The sync face of `HttpEpisode`: the same calls, without `await`."""

    def __init__(self, portal: _Portal, episode: HttpEpisode) -> None:
        self._portal, self._episode = portal, episode
        self.id, self.url = episode.id, episode.url

    @property
    def alone(self) -> HttpEpisode:
        """The async episode; its calls work on the dashboard's thread, by `portal`."""
        return self._episode

    @property
    def portal(self) -> _Portal:
        """The dashboard's thread."""
        return self._portal

    def __repr__(self) -> str:
        return f"SyncEpisode({self.id!r}, last_seq={self.last_seq})"

    @property
    def last_seq(self) -> int:
        """The last step number given out; the next step gets the one after it."""
        return self._episode.last_seq

    def append(self, steps: StepLike | Sequence[StepLike]) -> int:
        return self._portal.call(self._episode.append(steps))

    def heartbeat(self) -> None:
        self._portal.call(self._episode.heartbeat())

    def look(self) -> bool:
        return self._portal.call(self._episode.look())

    def wheel(self, acted: int) -> WheelView:
        return self._portal.call(self._episode.wheel(acted))

    def view(self) -> EpisodeView:
        return self._portal.call(self._episode.view())

    def steps(self, since: int = 0) -> list[dict[str, Any]]:
        return self._portal.call(self._episode.steps(since))

    def ask(self, question: str, *, files: Sequence[tuple[str, bytes]] = (), **fields: Unpack[AskFields]) -> Advice:
        return self._portal.call(self._episode.ask(question, files=files, **fields))

    def park(self) -> EpisodeView:
        return self._portal.call(self._episode.park())

    def wait_for_advice(self, ask: str, deadline_s: int, typed: Mapping[str, Any] | None = None) -> Advice:
        return self._portal.call(self._episode.wait_for_advice(ask, deadline_s, typed))

    def finish(
        self,
        stop_reason: StopReason,
        *,
        final_answer: str | None = None,
        outcome: ReportedOutcome | Mapping[str, Any] | None = None,
        fault: OwnFault | None = None,
        detail: str = "",
    ) -> None:
        end = self._episode.finish(stop_reason, final_answer=final_answer, outcome=outcome, fault=fault, detail=detail)
        self._portal.call(end)

    def fail(self, fault: Fault, detail: str) -> None:
        self._portal.call(self._episode.fail(fault, detail))


class SyncHttpDashboard:
    """The sync face of `HttpDashboard`.

    with SyncHttpDashboard(url, token) as dash:
        episode = dash.start_episode("Cancel order 7")
        episode.append({"kind": "note", "content": "started"})
        episode.finish("done")
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        retry_s: float = 60.0,
        verify: bool | str = True,
        park_after_s: float | None = None,
    ) -> None:
        self._portal = _Portal()
        self._dash = HttpDashboard(url, token, retry_s=retry_s, verify=verify, park_after_s=park_after_s)

    def __repr__(self) -> str:
        return f"Sync{self._dash!r}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def alone(self) -> HttpDashboard:
        """The async dashboard; its calls work on this dashboard's thread, by `portal`."""
        return self._dash

    @property
    def portal(self) -> _Portal:
        """The dashboard's thread."""
        return self._portal

    def close(self) -> None:
        self._portal.call(self._dash.close())
        self._portal.close()

    def start_run(
        self,
        name: str,
        *,
        key: str | None = None,
        arm: str | None = None,
        policy: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
        expert: str | None = None,
    ) -> str:
        made = self._dash.start_run(name, key=key, arm=arm, policy=policy, metadata=metadata, expert=expert)
        return self._portal.call(made)

    def start_episode(self, task: str, **fields: Unpack[EpisodeFields]) -> SyncEpisode:
        return SyncEpisode(self._portal, self._portal.call(self._dash.start_episode(task, **fields)))

    def record_whole(self, episodes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any] | Refused]:
        return self._portal.call(self._dash.record_whole(episodes))

    def report_step(
        self,
        run: str,
        training_step: int,
        *,
        losses: Mapping[str, float] | None = None,
        components: Mapping[str, float] | None = None,
        checkpoint: str | None = None,
    ) -> TrainingStepView:
        said = self._dash.report_step(run, training_step, losses=losses, components=components, checkpoint=checkpoint)
        return self._portal.call(said)

    def next_tasks(
        self, count: int, *, run: str | None = None, seed: int = 0, snapshot: str | None = None
    ) -> CurriculumNext:
        return self._portal.call(self._dash.next_tasks(count, run=run, seed=seed, snapshot=snapshot))

    def interrupts(self, run: str, paused: RunInterrupts) -> InterruptsView:
        return self._portal.call(self._dash.interrupts(run, paused))

    def view_ask(self, ask: str, wait_s: int = 0) -> AskView:
        return self._portal.call(self._dash.view_ask(ask, wait_s))

    def attach(self, ask: str, name: str, data: bytes) -> AttachedFile:
        return self._portal.call(self._dash.attach(ask, name, data))

    def attachments(self, ask: str) -> list[AttachedFile]:
        return self._portal.call(self._dash.attachments(ask))

    def download(self, attachment: str) -> bytes:
        return self._portal.call(self._dash.download(attachment))

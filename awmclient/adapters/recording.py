"""One episode of a framework's agent: its input, its output, its questions and its end.

Owns heartbeats, the rules for questions and the end. Leaves the order of steps to `transcript.py`. Base of the class
that each adapter offers. An episode of `HttpDashboard` is used on its own loop, one of `SyncHttpDashboard` from
anywhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, ClassVar, Self, TypeVar

from awmclient.adapters.transcript import Step, Transcript
from awmclient.client.bodies import NO_QUESTIONS_LEFT, context_text, question_problem
from awmclient.client.sync import SyncEpisode
from awmclient.errors import BoundaryFault, ClientError, DashboardError, EpisodeEnded, Parked, Unreachable
from awmclient.loop.ports import EpisodePort
from awmclient.nouns.values import ASK_TOOL, StopReason
from awmclient.record.observations import bounded
from awmclient.words.faults import fault_of
from awmclient.words.toolcalls import Call

log = logging.getLogger(__name__)
T = TypeVar("T")


class Recording:
    """A recorder of an episode until the `with` block ends, which finishes it.

    The block's normal end is `done`, with the agent's last message as the final answer. A limit of the framework is
    `max_steps`; any other exception is a fault of the worker and propagates. `ask_expert` waits at most `deadline_s`,
    and after `max_asks` questions it refuses more.
    """

    limits: ClassVar[tuple[type[Exception], ...]] = ()
    """Exceptions of the framework for an agent that used up its turns."""

    def __init__(
        self,
        episode: EpisodePort | SyncEpisode,
        *,
        deadline_s: int = 300,
        max_asks: int = 5,
        heartbeat_s: float = 20.0,
    ) -> None:
        self._sync = episode if isinstance(episode, SyncEpisode) else None
        self._episode: EpisodePort = episode.alone if isinstance(episode, SyncEpisode) else episode
        self._deadline_s, self._max_asks, self._heartbeat_s = deadline_s, max_asks, heartbeat_s
        self._transcript = Transcript()
        self._beating: asyncio.Task[None] | None = None
        self._home: asyncio.AbstractEventLoop | None = None
        self.stop_reason: StopReason = "done"
        self.final_answer: str | None = None
        self.outcome: Mapping[str, Any] | None = None
        self.left = False
        """True once a person ended the episode, or it was parked: nothing more is recorded."""

    async def here(self, work: Coroutine[Any, Any, T]) -> T:
        """Await a call on the episode's own loop; a framework can call from any other, in any thread."""
        return await work if self._is_at_home() else await asyncio.wrap_future(self._submit(work))

    def now(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for a call from sync code. The loop of an `HttpDashboard` must run in another thread."""
        if self._is_at_home():
            # A coroutine that no one awaits would warn.
            work.close()
            raise TypeError("An agent that is not async needs an episode of SyncHttpDashboard.")
        future = self._submit(work)
        try:
            return future.result()
        except BaseException:  # Ctrl-C while an agent waits for advice: the question ends too
            future.cancel()
            raise

    def _is_at_home(self) -> bool:
        if self._sync is not None:
            return False
        return self._home is None or self._home is _running_loop()

    def _submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        if self._sync is not None:
            return self._sync.portal.submit(work)
        assert self._home is not None
        return asyncio.run_coroutine_threadsafe(work, self._home)

    async def heard(self, system: str | None, users: Sequence[str]) -> None:
        await self._append(self._transcript.heard(system, users))

    async def said(
        self,
        content: str,
        calls: Sequence[Call] = (),
        usage: Mapping[str, Any] | None = None,
        meta: Mapping[str, Any] | None = None,
        reasoning: Mapping[str, Any] | None = None,
        finish_reason: Any = None,
    ) -> None:
        await self._append(self._transcript.said(content, calls, usage, meta, reasoning, finish_reason))

    async def came(
        self,
        call: Call,
        *,
        result: Any = None,
        error: str | None = None,
        traceback: str = "",
        signals: Mapping[str, Any] | None = None,
    ) -> None:
        """Record a call's result; `signals` are what the environment reported beside it (reward, `state_diff`)."""
        came = self._transcript.came(call, result=result, error=error, traceback=traceback, signals=signals)
        await self._append(came)

    async def noted(self, words: str, meta: Mapping[str, Any]) -> None:
        """Record a note for people."""
        await self._append([bounded({"kind": "note", "content": words, "meta": dict(meta)})])

    async def ask(self, question: Any, context: Any = None, call_id: str | None = None) -> dict[str, Any]:
        """Ask the experts. Return what the agent sees: an advice, `no_advice`, or the problem with the question.

        Raises what `HttpEpisode.ask` raises.
        """
        arguments = {"question": question} | ({"context": context} if context is not None else {})
        call = Call(ASK_TOOL, arguments, call_id)
        place = self._transcript.place(call)
        refused = {"kind": "tool_call", "name": ASK_TOOL, "arguments": arguments, **place}
        ready = self._transcript.asks_now(call)
        if problem := question_problem(question):
            await self._append([*ready, bounded({**refused, "error": problem})])
            return {"status": "error", "error": problem}
        if self._transcript.asks >= self._max_asks:
            await self._append([*ready, bounded({**refused, "result": NO_QUESTIONS_LEFT})])
            return dict(NO_QUESTIONS_LEFT)
        # Before the wait, so that concurrent questions share the limit.
        self._transcript.asks += 1
        await self._append(ready)
        with self._noticing():
            words = context_text(context)
            advice = await self._episode.ask(question, context=words, deadline_s=self._deadline_s, **place)
        return advice.observation()

    async def _append(self, steps: list[Step]) -> None:
        if steps:
            with self._noticing():
                await self._episode.append(steps)

    @contextlib.contextmanager
    def _noticing(self) -> Iterator[None]:
        """Note the end of the episode even if a framework turns the exception into a message for its model."""
        if self.left:
            raise EpisodeEnded
        try:
            yield
        except (EpisodeEnded, Parked):
            self.left = True
            raise

    async def open(self) -> None:
        # The connections and locks of the episode belong to this loop.
        self._home = asyncio.get_running_loop()
        self._beating = asyncio.create_task(self._beat())

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._heartbeat_s)
            try:
                await self._episode.heartbeat()
            except ClientError as error:
                log.info("a heartbeat was refused: %s", error)

    async def close(self, error: BaseException | None = None) -> None:
        """Finish the episode with the way the block ended."""
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.gather(self._beating, return_exceptions=True)
        # Cancelled: nothing is finished, so the episode can be resumed.
        if self.left or (error is not None and not isinstance(error, Exception)):
            return
        if error is None or isinstance(error, self.limits):
            await self._finish(self.stop_reason if error is None else "max_steps")
        elif not isinstance(error, Unreachable):
            await self._fail(error)

    async def _finish(self, reason: StopReason) -> None:
        words = self._transcript.last_words if self.final_answer is None else self.final_answer
        try:
            # Results that wait for an earlier call are part of the record, too.
            await self._append(self._transcript.rest())
            answer = words if reason == "done" else None
            await self._episode.finish(reason, final_answer=answer, outcome=self.outcome)
        except EpisodeEnded:  # a person stopped it in the last moment; the agent has finished either way
            self.left = True

    async def _fail(self, error: Exception) -> None:
        words = error.message if isinstance(error, ClientError) else f"{type(error).__name__}: {error}"
        fault = fault_of(words, "worker")
        if isinstance(error, BoundaryFault | DashboardError):
            fault = error.fault if isinstance(error, BoundaryFault) else "dashboard"
        try:
            await self._append(self._transcript.rest())
            await self._episode.fail(fault, words)
        except ClientError as refusal:
            log.warning("the fault %r of episode %s is not recorded: %s", error, self._episode.id, refusal)

    async def __aenter__(self) -> Self:
        await self.here(self.open())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.here(self.close(error))

    def __enter__(self) -> Self:
        self.now(self.open())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.now(self.close(error))


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None

"""The sync faces of dashboard and episode: the async ones on a thread of their own, so there is one set of rules.

Make one in the process that uses it: a thread does not survive a fork.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from awmclient.client.bodies import (
    AskFields,
    EpisodeFields,
    StepLike,
)
from awmclient.client.dashboard import HttpDashboard
from awmclient.client.episode import HttpEpisode
from awmclient.errors import Refused
from awmclient.nouns.asks import Advice, AskView, AttachedFile
from awmclient.nouns.episodes import EpisodeView, ReportedOutcome
from awmclient.nouns.interrupts import InterruptsView, RunInterrupts
from awmclient.nouns.pictures import ImagePart
from awmclient.nouns.runs import CurriculumNext, TrainingStepView
from awmclient.nouns.typed import CallDecision
from awmclient.nouns.values import Fault, OwnFault, StopReason
from awmclient.nouns.wheel import WheelView

T = TypeVar("T")


class Portal:
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

    def __init__(self, portal: Portal, episode: HttpEpisode) -> None:
        self._portal, self._episode = portal, episode
        self.id, self.url = episode.id, episode.url

    @property
    def alone(self) -> HttpEpisode:
        """The async episode; its calls work on the dashboard's thread, by `portal`."""
        return self._episode

    @property
    def portal(self) -> Portal:
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

    def token(self) -> str:
        return self._portal.call(self._episode.token())

    def steps(self, since: int = 0) -> list[dict[str, Any]]:
        return self._portal.call(self._episode.steps(since))

    def upload(self, picture: bytes, alt: str | None = None) -> ImagePart:
        return self._portal.call(self._episode.upload(picture, alt))

    def ask(
        self,
        question: str | Sequence[Mapping[str, Any]],
        *,
        files: Sequence[tuple[str, bytes]] = (),
        **fields: Unpack[AskFields],
    ) -> Advice:
        return self._portal.call(self._episode.ask(question, files=files, **fields))

    def approve(
        self, proposed: Sequence[Mapping[str, Any]], question: str = "", **fields: Unpack[AskFields]
    ) -> list[CallDecision]:
        return self._portal.call(self._episode.approve(proposed, question, **fields))

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
        self._portal = Portal()
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
    def portal(self) -> Portal:
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
        coroutine = self._dash.report_step(
            run, training_step, losses=losses, components=components, checkpoint=checkpoint
        )
        return self._portal.call(coroutine)

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

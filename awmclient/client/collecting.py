"""A dashboard that records finished episodes many in one request, for trainers that play faster than people watch.

Owns when an episode is sent and when it becomes live. Leaves requests to `dashboard.py`. Called by loops as any other
`Dashboard`.

    async with HttpDashboard(url, token) as http:
        dash = CollectingDashboard(http)
        await asyncio.gather(*(rollout(policy, env, dash, task=task) for env, task in plan))
"""

from __future__ import annotations

import asyncio
import random
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

from awmclient.client.bodies import AskFields, EpisodeFields, StepLike, episode_body, failing, finish_body, numbered
from awmclient.client.dashboard import HttpDashboard
from awmclient.client.episode import HttpEpisode
from awmclient.errors import ClientError, EpisodeEnded, ExpertOff, Refused, SeqGap, StepConflict
from awmclient.nouns.asks import Advice
from awmclient.nouns.episodes import ReportedOutcome
from awmclient.nouns.values import MAX_BATCH_BYTES, MAX_WHOLE_BYTES, MAX_WHOLE_EPISODES, Fault, StopReason
from awmclient.words.encoding import encode

_ROOM = 1024
"""Bytes of a request beside its episodes."""


@dataclass(eq=False)
class _Finished:
    """An episode that waits for the next request, and what waits for its result."""

    body: dict[str, Any]
    size: int
    done: asyncio.Future[dict[str, Any]]


class CollectedEpisode:
    """One episode, kept in this process until its end. It goes live with its first question, or if it grows large.

    `id` and `url` are empty until then. A process that ends before leaves no record: start such an episode again.
    """

    def __init__(self, dash: CollectingDashboard, task: str, fields: EpisodeFields) -> None:
        self.id = self.url = ""
        self._dash, self._task, self._fields = dash, task, fields
        self._body = episode_body(task, fields)
        self._steps: list[dict[str, Any]] = []
        self._bytes = len(encode(self._body))
        self._live: HttpEpisode | None = None
        self._end: dict[str, Any] | None = None
        self._turn = asyncio.Lock()

    def __repr__(self) -> str:
        return f"CollectedEpisode({self.id or self._body['key']!r}, last_seq={self.last_seq})"

    @property
    def last_seq(self) -> int:
        return self._live.last_seq if self._live is not None else len(self._steps)

    async def append(self, steps: StepLike | Sequence[StepLike]) -> int:
        """Keep steps, or record them if the episode is live; returns the last number."""
        async with self._turn:
            if self._live is None:
                plain = self._next(numbered(steps, len(self._steps)))
                self._bytes += len(encode(plain))
                self._steps += plain
                # A long episode must not keep its steps in memory until its end.
                if self._bytes > MAX_BATCH_BYTES:
                    await self._go_live()
                return len(self._steps)
        return await self._live.append(steps)

    def _next(self, plain: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the steps that are new, by the rules of the dashboard."""
        if self._end is not None and plain:
            raise EpisodeEnded
        expected = len(self._steps) + 1
        for step in plain:
            if step["seq"] < expected:
                if self._steps[step["seq"] - 1] != step:
                    raise StepConflict(f"Step {step['seq']} already exists with different content.")
            elif step["seq"] > expected:
                raise SeqGap(f"Expected step {expected}, got {step['seq']}. Steps are numbered without gaps.")
            expected = max(expected, step["seq"] + 1)
        return [step for step in plain if step["seq"] > len(self._steps)]

    async def _go_live(self) -> HttpEpisode:
        """Record what there is, and everything from now on as it happens. Caller holds the turn."""
        if self._live is None:
            if self._end is not None:
                raise EpisodeEnded
            # The same key, so that a repeat after a failure finds the episode.
            fields: EpisodeFields = {**self._fields, "key": self._body["key"]}
            live = await self._dash.http.start_episode(self._task, **fields)
            await live.append(self._steps)
            # Only once the dashboard has all of it: until then the episode counts as collected.
            self._live, self.id, self.url = live, live.id, live.url
            self._dash.left(self)
        return self._live

    async def ask(self, question: str, **fields: Unpack[AskFields]) -> Advice:
        """Ask as `HttpEpisode.ask`; from here on the episode is live."""
        if self._fields.get("expert", "off") == "off":
            raise ExpertOff
        # Two tasks that ask at the same time must not open the episode twice.
        async with self._turn:
            live = await self._go_live()
        return await live.ask(question, **fields)

    async def wait_for_advice(self, ask: str, deadline_s: int, typed: Mapping[str, Any] | None = None) -> Advice:
        async with self._turn:
            live = await self._go_live()
        return await live.wait_for_advice(ask, deadline_s, typed)

    async def steps(self, since: int = 0) -> list[dict[str, Any]]:
        return await self._live.steps(since) if self._live is not None else [dict(step) for step in self._steps[since:]]

    async def heartbeat(self) -> None:
        """Send a heartbeat if the episode is live."""
        if self._live is not None:
            await self._live.heartbeat()

    async def finish(
        self,
        stop_reason: StopReason,
        *,
        final_answer: str | None = None,
        outcome: ReportedOutcome | Mapping[str, Any] | None = None,
    ) -> None:
        """Record the episode with others that end at this time; returns once it is durable. The same again is known."""
        await self._finish(finish_body(stop_reason, final_answer, outcome))

    async def fail(self, fault: Fault, detail: str) -> None:
        """End because a boundary failed, as `HttpEpisode.fail`."""
        note, end = failing(fault, detail)
        await self.append(note)
        await self._finish(end)

    async def _finish(self, end: dict[str, Any]) -> None:
        async with self._turn:
            if self._live is not None:
                await self._live.finish(**end)
                return
            self._end = end
            recorded = await self._dash.record(self, {"episode": self._body, "steps": self._steps, "finish": end})
            self.id, self.url = str(recorded["id"]), str(recorded["url"])


class CollectingDashboard:
    """Episodes of an `HttpDashboard` that are recorded once they have ended, up to 64 in one request.

    A request leaves when `batch` episodes have ended, when no other episode is at work, or `wait_s` seconds after the
    first of them has ended. `live` is the share of episodes, drawn by `seed`, that are recorded live from their start,
    so that people can watch some. Every episode that asks is live from its first question on.
    """

    def __init__(
        self, http: HttpDashboard, *, batch: int = 32, wait_s: float = 0.5, live: float = 0.0, seed: int | None = None
    ) -> None:
        if not 1 <= batch <= MAX_WHOLE_EPISODES or not 0 <= live <= 1:
            raise ValueError(f"batch: 1 to {MAX_WHOLE_EPISODES}; live: 0 to 1")
        self.http, self._batch, self._wait_s, self._share = http, batch, wait_s, live
        self._chance = random.Random(seed)  # noqa: S311
        # weak: a loop that was cancelled finishes nothing, and no other episode may wait for it
        self._at_work: weakref.WeakSet[CollectedEpisode] = weakref.WeakSet()
        self._waiting: list[_Finished] = []
        self._timer: asyncio.TimerHandle | None = None
        self._sending: set[asyncio.Task[None]] = set()

    async def start_episode(self, task: str, **fields: Unpack[EpisodeFields]) -> CollectedEpisode | HttpEpisode:
        """Open an episode in this process, or at the dashboard if it was drawn to be live."""
        if self._chance.random() < self._share:
            return await self.http.start_episode(task, **fields)
        episode = CollectedEpisode(self, task, fields)
        self._at_work.add(episode)
        return episode

    def left(self, episode: CollectedEpisode) -> None:
        """Note that an episode will not be recorded whole: nothing waits for it any more."""
        self._at_work.discard(episode)
        self._send_if_due()

    async def record(self, episode: CollectedEpisode, body: dict[str, Any]) -> dict[str, Any]:
        """Send a finished episode with others and return its result. Raises `Refused` and `Unreachable`."""
        loop = asyncio.get_running_loop()
        finished = _Finished(body, len(encode(body)), loop.create_future())
        self._at_work.discard(episode)
        self._waiting.append(finished)
        if self._timer is None:
            self._timer = loop.call_later(self._wait_s, self._send)
        self._send_if_due()
        return await finished.done

    def _send_if_due(self) -> None:
        if self._waiting and (len(self._waiting) >= self._batch or not self._at_work):
            self._send()

    def _send(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, []
        for part in _parted(waiting):
            task = asyncio.create_task(self._send_part(part))
            # The event loop refers to tasks weakly: without the set one could be collected while it sends.
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    async def _send_part(self, part: list[_Finished]) -> None:
        try:
            results = await self.http.record_whole([one.body for one in part])
        except ClientError as error:
            for finished in part:
                if not finished.done.done():
                    finished.done.set_exception(error)
            return
        for finished, result in zip(part, results, strict=True):
            if finished.done.done():
                continue  # its loop was cancelled; the episode is recorded all the same
            if isinstance(result, Refused):
                finished.done.set_exception(result)
            else:
                finished.done.set_result(result)


def _parted(waiting: Sequence[_Finished]) -> list[list[_Finished]]:
    """Split finished episodes into requests within the dashboard's limits."""
    parts: list[list[_Finished]] = []
    size = 0
    for finished in waiting:
        size += finished.size + 1
        if not parts or len(parts[-1]) == MAX_WHOLE_EPISODES or size > MAX_WHOLE_BYTES - _ROOM:
            parts.append([])
            size = finished.size + 1
        parts[-1].append(finished)
    return parts

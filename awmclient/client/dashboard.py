"""The dashboard over HTTP: `HttpDashboard` for async loops; `sync.py` has it for all others.

async with HttpDashboard("http://127.0.0.1:8000", token) as dash:
    episode = await dash.start_episode("Cancel order 7", expert="plain")
    call = {"kind": "tool_call", "name": "get_order", "arguments": {"id": 7}, "result": {"state": "open"}}
    await episode.append(call)
    advice = await episode.ask("May I refund the fee?", deadline_s=120)
    await episode.finish("done", final_answer="Cancelled.")
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self, Unpack
from urllib.parse import quote, urlencode
from uuid import uuid4

from awmclient.client.bodies import (
    EpisodeFields,
    episode_body,
)
from awmclient.client.episode import POLL_S, HttpEpisode, attach
from awmclient.client.wire import Wire
from awmclient.errors import Refused, refusal
from awmclient.nouns.asks import AskView, AttachedFile, AttachedFiles
from awmclient.nouns.episodes import WholeResult
from awmclient.nouns.interrupts import InterruptsView, RunInterrupts
from awmclient.nouns.runs import CurriculumNext, TrainingStepView


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
        fields = {"name": name, "key": key, "arm": arm, "policy": policy, "metadata": metadata, "expert": expert}
        body = {key: value for key, value in fields.items() if value is not None}
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
        results = [WholeResult.read(one) for one in reply.body["results"]]
        return [
            whole_result.model_dump(exclude={"error"})
            if whole_result.error is None
            else refusal(422, whole_result.error.code, whole_result.error.message)
            for whole_result in results
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
        options = {"losses": losses, "components": components, "checkpoint": checkpoint}
        fields = {name: value for name, value in options.items() if value is not None}
        body = {"training_step": training_step, **fields}
        return TrainingStepView.read((await self._wire.send("POST", f"/runs/{run}/steps", body)).body)

    async def next_tasks(
        self, count: int, *, run: str | None = None, seed: int = 0, snapshot: str | None = None
    ) -> CurriculumNext:
        """Ask what to play next and with how much help; without `run`, for the run that trained last.

        coming = await dash.next_tasks(16, run=run, seed=step)
        for task in coming.tasks:
            helped = ["plain"] * coming.ratio.expert + ["off"] * coming.ratio.solo
        """
        options = {"n": count, "run": run, "seed": seed, "snapshot": snapshot}
        query = urlencode({name: value for name, value in options.items() if value is not None})
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
        return await attach(self._wire, ask, name, data)

    async def attachments(self, ask: str) -> list[AttachedFile]:
        """Return the files of an ask, and of its answer once it is answered.

        files = await dash.attachments(ask)
        """
        body = (await self._wire.send("GET", f"/asks/{quote(ask, safe='')}/attachments")).body
        return AttachedFiles.read(body).files

    async def download(self, attachment: str) -> bytes:
        """Return the bytes of a file by its ID, such as one of `advice.files`.

        picture = await dash.download(advice.files[0].id)
        """
        place = f"/attachments/{quote(attachment, safe='')}"
        return (await self._wire.send("GET", place, wants_bytes=True)).content

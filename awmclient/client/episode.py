"""One episode at the dashboard, over HTTP: its steps, its heartbeats, and how long a question waits."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Unpack
from urllib.parse import quote, urlencode

from awmclient.client import pictures
from awmclient.client.bodies import (
    AskFields,
    StepLike,
    ask_body,
    failing,
    finish_body,
    unanswered,
)
from awmclient.client.outbox import Outbox, Question
from awmclient.client.wire import Wire
from awmclient.errors import ClientError, Parked, Refused, Unreachable
from awmclient.nouns.asks import Advice, AttachedFile, Heard
from awmclient.nouns.episodes import EpisodeToken, EpisodeView, ReportedOutcome
from awmclient.nouns.pictures import ImagePart
from awmclient.nouns.typed import CallDecision, rejected, typed_of
from awmclient.nouns.values import Fault, OwnFault, StopReason
from awmclient.nouns.wheel import WheelView

log = logging.getLogger(__name__)
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

        Pictures in base64, as OpenAI, Anthropic and MCP write them in a message or a result, are uploaded before their
        step, and kept with it.
        """
        batch = self._outbox.put_steps(steps)
        # Only this batch's own refusal: the error of an earlier entry is raised by its own caller.
        await self._outbox.flush()
        if batch.error is not None:
            raise batch.error
        return self._outbox.acknowledged

    async def upload(self, picture: bytes, alt: str | None = None) -> ImagePart:
        """Upload a PNG, JPEG or WebP picture of at most 8 MB, and return the part that refers to it.

        shot = await episode.upload(png, alt="The form after the click")
        await episode.append({"kind": "message", "role": "user", "content": [shot.model_dump(exclude_none=True)]})
        """
        return (await pictures.upload(self._wire, self.id, picture)).model_copy(update={"alt": alt})

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
        view = await self._read_wheel(acted)
        if view.held and not view.orders:
            await asyncio.sleep(_PAUSE_S)
            view = await self._read_wheel(acted)
        self.steered = view.held or bool(view.orders)
        return view

    async def _read_wheel(self, acted: int) -> WheelView:
        return WheelView.read((await self._wire.send("GET", f"/episodes/{self.id}/wheel?acted={acted}")).body)

    async def view(self) -> EpisodeView:
        """Return the episode's state at the dashboard."""
        return EpisodeView.read((await self._wire.send("GET", f"/episodes/{self.id}")).body)

    async def token(self) -> str:
        """Return a token with which an agent asks at the desk's `/mcp` for this episode, while it is live, and nothing
        else: for a sandbox, which should not have yours.

            servers = {"awmweb": {"type": "http", "url": f"{url}/mcp?token={await episode.token()}"}}
        """
        return EpisodeToken.read((await self._wire.send("GET", f"/episodes/{self.id}/token")).body).token

    async def steps(self, since: int = 0) -> list[dict[str, Any]]:
        """Return the recorded steps with `seq` above `since`, as they were stored, in order: a loop that starts
        again after a crash continues from them.

            done = await episode.steps()
        """
        recorded: list[dict[str, Any]] = []
        while True:
            page = (await self._wire.send("GET", f"/episodes/{self.id}/steps?since={since}")).body
            recorded += page["steps"]
            if not page.get("more"):
                return recorded
            since = int(recorded[-1]["seq"])

    async def ask(
        self,
        question: str | Sequence[Mapping[str, Any]],
        *,
        files: Sequence[tuple[str, bytes]] = (),
        **fields: Unpack[AskFields],
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

        A `question` can be a list of parts, texts and pictures, as the content of a message.
        """
        loop = asyncio.get_running_loop()
        body = ask_body(question if isinstance(question, str) else list(question), fields)
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

    async def approve(
        self, proposed: Sequence[Mapping[str, Any]], question: str = "", **fields: Unpack[AskFields]
    ) -> list[CallDecision]:
        """Ask for an approval of calls and return what was decided on each, in their order; silence rejects them.

        With `quorum` several different people approve the same calls, perhaps all of one role.

            refund, = await episode.approve([{"name": "refund", "arguments": {"order": 7}}], quorum={"of": 2})
            may_run = refund.verdict != "reject"
        """
        calls = [{"id": str(number), **call} for number, call in enumerate(proposed, 1)]
        question = question or f"May the agent call {', '.join(str(call['name']) for call in calls)}?"
        body: AskFields = {"on_timeout": "reject", **fields, "kind": "approval", "calls": calls}
        advice = await self.ask(question, **body)
        decided = {one.id: one for one in (advice.decision.calls if advice.decision else None) or []}
        silence = advice.reason or "no decision"
        return [decided.get(call["id"]) or CallDecision(**rejected(call, silence)) for call in calls]

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
            await attach(self._wire, asked.id, name, data)
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
    advice = view.get("advice")
    if view.get("status") == "cancelled" or not isinstance(advice, Mapping):
        return Advice(text="", source="fallback", reason=str(reason or view.get("status") or "cancelled"))
    return Advice.read({**advice, "reason": advice.get("reason") or reason, "local": False})


async def attach(wire: Wire, ask: str, name: str, data: bytes) -> AttachedFile:
    # the dashboard knows a file that comes twice, so the call can be repeated
    place = f"/asks/{quote(ask, safe='')}/attachments?{urlencode({'name': name})}"
    return AttachedFile.read((await wire.send("POST", place, data)).body)

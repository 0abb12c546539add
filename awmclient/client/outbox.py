"""The order of one episode's calls: batches of steps and questions, each with its numbers, until the dashboard has
them.

Owns what is kept while the dashboard does not respond, and what happens to a question after its caller gave up. Leaves
single requests to `wire.py` and the public interface to `episode.py`, its only caller.

Numbers are assigned immediately and entries are sent in that order. An entry is removed only after the dashboard has
accepted it, so a cancelled or failed request loses nothing: the next call sends it again, and the dashboard accepts
repeats.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from awmclient.client.bodies import StepLike, as_list, numbered
from awmclient.client.pictures import in_words, upload, with_uploads
from awmclient.client.wire import Wire
from awmclient.errors import ClientError, Refused, StepConflict, Unreachable
from awmclient.nouns.asks import Heard
from awmclient.nouns.pictures import ImagePart, without_parts
from awmclient.nouns.sources import source_of
from awmclient.nouns.values import MAX_BATCH_BYTES
from awmclient.words.encoding import encode

log = logging.getLogger(__name__)
STEPS_PER_BATCH = 1000
_ROOM = 64  # bytes of the envelope around a batch


# Compared by identity: two equal batches are still two.
@dataclass(eq=False)
class Batch:
    """The steps of one append."""

    steps: list[dict[str, Any]]
    before: int
    last: int
    error: Refused | None = None
    instead_of: Question | None = None


@dataclass(eq=False)
class Question:
    """An unacknowledged ask. `body` is as it was asked; `shown`, the same in each attempt, has its pictures uploaded.
    `tried`: it may have reached the dashboard."""

    seq: int
    body: dict[str, Any]
    shown: dict[str, Any] | None = None
    tried: bool = False
    arrived: bool = False
    given_up: str = ""
    heard: Heard | None = None
    id: str = ""
    view: dict[str, Any] = field(default_factory=dict)
    error: Refused | None = None


class Outbox:
    """All calls of one episode that the dashboard has not acknowledged yet."""

    def __init__(self, wire: Wire, episode: str, last_seq: int) -> None:
        self._wire, self._episode = wire, episode
        self.last_seq = self.acknowledged = last_seq
        self._entries: deque[Batch | Question] = deque()
        self._withdrawals: deque[Question] = deque()
        self._receipts: deque[str] = deque()
        self._explicit = False
        self._by_key: dict[str, Question] = {}
        # One sender at a time: requests that overtake each other would leave a gap.
        self._turn = asyncio.Lock()

    def put_steps(self, steps: StepLike | Sequence[StepLike]) -> Batch:
        before = self.last_seq
        raw_steps = as_list(steps)
        plain = numbered(raw_steps, before)
        encode(plain)  # a value that is no JSON is refused before it takes a number
        self._explicit = self._explicit or any(step.get("seq") is not None for step in raw_steps)
        # A caller's own numbers can be anything; the dashboard refuses what is not one.
        self.last_seq = max([before, *(step["seq"] for step in plain if isinstance(step["seq"], int))])
        batch = Batch(plain, before, self.last_seq)
        if plain:
            self._entries.append(batch)
        return batch

    def put_question(self, body: dict[str, Any]) -> Question:
        """Return the question of this body; the one with its key if that was asked before."""
        encode(body)
        in_words(body)  # a list with anything but texts and pictures, likewise
        earlier = self._by_key.get(body["key"])
        # In place of one that never arrived, the record has a note.
        is_there = earlier is not None and (earlier.id or earlier in self._entries)
        if earlier is not None and is_there and not earlier.error and earlier.body == self._numbered(body, earlier.seq):
            earlier.given_up, earlier.heard = "", None  # its caller waits again
            return earlier
        self.last_seq += 1
        question = self._by_key[body["key"]] = Question(self.last_seq, self._numbered(body, self.last_seq))
        self._entries.append(question)
        return question

    def _numbered(self, body: dict[str, Any], seq: int) -> dict[str, Any]:
        return {**body, "episode": self._episode, "seq": seq}

    def give_up(self, question: Question, reason: str, heard: Heard | None = None) -> None:
        """Continue without this answer. Its state is resolved before the next call. `heard`: what the agent got."""
        question.given_up, question.heard = reason, heard
        if question.id:
            self._withdrawals.append(question)

    def owe_receipt(self, ask: str) -> None:
        """Note that `consumed` failed; it is sent again before the next call."""
        self._receipts.append(ask)

    async def flush(self) -> None:
        """Send in order until nothing is left. Raises `Unreachable`; the entry that caused a refusal raises it."""
        async with self._turn:
            while self._entries or self._withdrawals or self._receipts:
                await self._settle()
                if self._entries:
                    entry = self._entries[0]
                    await (self._send_question(entry) if isinstance(entry, Question) else self._send_batch(entry))

    async def _send_batch(self, batch: Batch) -> None:
        for place, step in enumerate(batch.steps):
            batch.steps[place] = await with_uploads(self._upload, step)
        try:
            while batch.steps:
                count = _fitting(batch.steps)
                reply = await self._wire.send(
                    "POST", f"/episodes/{self._episode}/steps", {"steps": batch.steps[:count]}
                )
                # A repeat can acknowledge less than is known already.
                self.acknowledged = max(self.acknowledged, int(reply.body.get("acknowledged", 0)))
                # Per part, so that a failure in the next one repeats only the rest.
                del batch.steps[:count]
        except Refused as error:
            if isinstance(error, StepConflict) and batch.instead_of is not None:
                batch.instead_of.arrived = True  # it was still being sent at the last check
                # Its step is there under this number, so the question itself goes on in place of the note.
                self._entries[0] = batch.instead_of
                return
            batch.error = error
            # No later number is in use, so the numbers of the refused steps are free again.
            if batch.last == self.last_seq:
                self.last_seq = max(batch.before, self.acknowledged)
        self._entries.popleft()

    async def _upload(self, picture: bytes) -> ImagePart:
        return await upload(self._wire, self._episode, picture)

    async def _send_question(self, question: Question) -> None:
        # Its number is taken in this process, so the record needs a step there in any case.
        if question.given_up and not await self._arrived(question) and question.given_up:
            self._entries[0] = self._stand_in(question)
            return
        if question.shown is None:
            question.shown = without_parts(await with_uploads(self._upload, question.body), "question")
        # Before the request: one that is cut off may have arrived.
        question.tried = True
        try:
            question.view = (await self._wire.send("POST", "/asks", question.shown)).body
        except Refused as error:
            self._refused(question, error)
            return
        question.id = str(question.view.get("id", ""))
        self.acknowledged = max(self.acknowledged, question.seq)
        self._entries.popleft()
        if question.given_up and question.id:
            self._withdrawals.append(question)

    async def _arrived(self, question: Question) -> bool:
        """Return whether a question that was given up while sending took its number. Only this loop writes steps."""
        if not question.tried or question.arrived:
            return question.arrived
        reply = await self._wire.send("GET", f"/episodes/{self._episode}")
        return int(reply.body.get("last_seq", 0)) >= question.seq

    def _stand_in(self, question: Question) -> Batch:
        """Return a note in place of a question that never arrived, so that the numbers have no gap."""
        body = in_words(question.body)
        asked = {key: body[key] for key in ("question", "context") if key in body}
        content = f"ask_expert did not reach the dashboard ({question.given_up}); the agent got no_advice."
        note = {"seq": question.seq, "kind": "note", "content": content, "meta": {"local_ask": asked}}
        return Batch(
            [note],
            question.seq - 1,
            question.seq,
            instead_of=question if question.tried and not question.error else None,
        )

    def _refused(self, question: Question, error: Refused) -> None:
        question.error = error
        if question.seq == self.last_seq:
            self.last_seq -= 1
            self._entries.popleft()
        else:  # later numbers are given out already
            question.given_up = error.code
            self._entries[0] = self._stand_in(question)

    async def _settle(self) -> None:
        while self._receipts:
            await self._quietly("POST", f"/asks/{self._receipts[0]}/consumed")
            self._receipts.popleft()
        while self._withdrawals:
            await self._withdraw(self._withdrawals[0])
            self._withdrawals.popleft()

    async def _withdraw(self, question: Question) -> None:
        """Cancel a question that no one waits for. If advice came, record that the agent never had it."""
        if not question.given_up:  # its caller asked again
            return
        heard = f"?heard={question.heard}" if question.heard else ""
        await self._quietly("POST", f"/asks/{question.id}/cancel{heard}")
        view = await self._quietly("GET", f"/asks/{question.id}?wait=0")
        # A caller that numbers its own steps leaves no number for a note.
        came = view.get("advice")
        # also the draft of a model, with which the dashboard closes an ask at its deadline
        is_answer = isinstance(came, dict) and source_of(came).is_answer
        if is_answer and not self._explicit:
            content = f"The advice in step {question.seq} came too late ({question.given_up}); the agent got no_advice."
            self.put_steps({"kind": "note", "content": content, "meta": {"unheard_ask": question.id}})

    async def _quietly(self, method: str, path: str) -> dict[str, Any]:
        try:
            return (await self._wire.send(method, path, {} if method == "POST" else None)).body
        except Unreachable:
            # The entry stays in its queue for the next call.
            raise
        except ClientError as error:
            log.info("%s %s was refused: %s", method, path, error)
            return {}


def _fitting(steps: list[dict[str, Any]]) -> int:
    """Return how many of these fit into one request. A step larger than a batch is sent alone."""
    room = MAX_BATCH_BYTES - _ROOM
    for count, step in enumerate(steps[:STEPS_PER_BATCH]):
        room -= len(encode(step)) + 1  # and a comma
        if room < 0:
            # At least one: the dashboard refuses a step that is too large by itself.
            return max(count, 1)
    return min(len(steps), STEPS_PER_BATCH)

"""Writes: the effects of an ask on its episode and on its step.

Owns the exceptions to *append*: the advice of an ask step is set when it closes, and replaced while its agent has not
read it; the asker's files are named while it is open. Leaves questions to `experts.record`, whose writes call
these inside their own transactions.
"""

from __future__ import annotations

import json
from typing import Any

from django.db import connection
from django.utils import timezone

from awmclient.schema import Advice, FileRef
from episodes.errors import StepConflict
from episodes.models import Episode, EpisodeState, Step
from episodes.record.appending import Append, append_alone
from episodes.record.recording import announce, tell_steps, unpark
from episodes.stored.entries import entry_of
from people.access import Actor

ASKED = "SELECT id, body, at FROM episodes_step WHERE episode_id = %s AND seq = %s FOR UPDATE"
# past `Step.save`, which refuses every change of a stored step; the episode finds the partition (`awmweb/partitions/`)
CLOSED = """
WITH said AS (
  UPDATE episodes_step SET body = %s, cut = %s WHERE id = %s AND episode_id = %s
)
UPDATE episodes_episode SET strip = %s, state = %s, heartbeat_at = %s WHERE id = %s
"""


def note_waiting(episode_id: str) -> None:
    """Record that a resumed attempt waits for an ask of the previous one, or any attempt for a person's turn. The
    caller must have seen in this transaction that there is something to wait for."""
    episode = Episode.every.select_for_update().get(pk=episode_id)
    if episode.state == EpisodeState.RUNNING:
        episode.state = EpisodeState.WAITING
        episode.save(update_fields=["state"])
        announce(episode)


def open_ask_step(actor: Actor, episode: Episode, body: dict[str, Any]) -> None:
    """Assign the step number of an ask and set the episode to waiting. The caller must hold the episode's lock."""
    entry = entry_of(body, timezone.now())
    if entry.seq <= episode.last_seq:
        raise StepConflict(f"Step {entry.seq} already exists with different content.")
    # the statement changed both in the database; the row in memory follows
    episode.last_seq = append_alone(Append(actor, episode.pk, [entry], waits=True))
    episode.state = EpisodeState.WAITING


def body_of(episode_id: str, seq: int) -> dict[str, Any]:
    """Return the stored step of an ask."""
    body: dict[str, Any] = json.loads(Step.objects.get(episode=episode_id, seq=seq).body)
    return body


def note_files(episode: Episode, seq: int, files: list[FileRef]) -> None:
    """Name the files of an open ask in its step, which is sent again. The caller must hold the episode's lock."""
    step = Step.objects.select_for_update().get(episode=episode, seq=seq)
    body = {**json.loads(step.body), "files": [one.model_dump() for one in files]}
    entry = entry_of(body, step.at)
    Step.objects.filter(pk=step.pk, episode=episode).update(body=entry.text, cut=entry.cut)
    tell_steps(episode, [entry])


def close_ask_step(
    episode: Episode, seq: int, advice: Advice | None, status: str, still_waiting: bool, by_script: bool = False
) -> None:
    """Set the advice of an ask step, once, in the transaction that closes the ask.

    This is an exception to *append*. Values without a field in the advice go to the step's `meta`. The step is sent
    again and readers replace it by seq; the episode continues unless another of its asks is open.

    """
    with connection.cursor() as cursor:
        cursor.execute(ASKED, [episode.pk, seq])
        step, text, at = cursor.fetchone()
    body = json.loads(text)
    if advice is not None and body.get("advice") is None:
        body["advice"] = advice.model_dump(exclude_none=True, exclude={"local"})
    beside = {"closed": status} if status == "cancelled" else {"answered_by": "script"} if by_script else {}
    if beside:
        body["meta"] = {**(body.get("meta") or {}), **beside}
    entry = entry_of(body, at)
    # the letter of step n is at place n - 1
    episode.strip = episode.strip[: seq - 1] + entry.code + episode.strip[seq:]
    if not still_waiting:
        go_on(episode, "its ask is closed")
    # the wait was the expert's: the loop gets its whole silence time from here
    episode.heartbeat_at = timezone.now()
    moved: list[Any] = [episode.strip, episode.state, episode.heartbeat_at, episode.pk]
    with connection.cursor() as cursor:
        cursor.execute(CLOSED, [entry.text, entry.cut, step, episode.pk, *moved])
    tell_steps(episode, [entry])


def go_on(episode: Episode, why: str) -> None:
    """Let an episode that waits run, and queue a parked one; `why` is for its history. The caller holds its lock and
    saves its state."""
    if episode.state == EpisodeState.WAITING:
        episode.state = EpisodeState.RUNNING
    elif episode.state == EpisodeState.PARKED:
        unpark(episode, why)


def reword_ask_step(episode: Episode, seq: int, advice: Advice | None) -> None:
    """Replace or remove the advice of an ask step that its agent has not read yet. The episode then waits again, parked
    if no worker has taken it up meanwhile; an interrupted one stays queued. The caller must hold the episode's lock."""
    step = Step.objects.select_for_update().get(episode=episode, seq=seq)
    body = {name: value for name, value in json.loads(step.body).items() if name != "advice"}
    if advice is None:
        body.pop("meta", None)  # it named the author of the answer
    else:
        body["advice"] = advice.model_dump(exclude_none=True, exclude={"local"})
    entry = entry_of(body, step.at)
    Step.objects.filter(pk=step.pk, episode=episode).update(body=entry.text, cut=entry.cut)
    if advice is None:
        # one that is parked for another ask stays parked: no process waits for it
        if episode.state == EpisodeState.RUNNING:
            episode.state = EpisodeState.WAITING
        elif episode.state == EpisodeState.QUEUED and episode.parked_at is not None:
            episode.state = EpisodeState.PARKED
        episode.strip = episode.strip[: seq - 1] + entry.code + episode.strip[seq:]
        episode.save(update_fields=["strip", "state"])
    tell_steps(episode, [entry])

"""Writes: what a call with a key has changed and what it answered, in one transaction with its effect.

The first of two equal calls takes the row of the key, and the second waits for its commit. A process that is killed
before that leaves neither row nor effect. Leaves which calls take a key to `keyed_calls.py`, which calls this.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone
from ninja import Status
from pydantic import BaseModel

from people.access import Actor
from people.errors import AppError, KeyConflict
from people.models import KeyedWrite, Project, digest_of, long_ago

KEPT = timedelta(days=1)
"""How long the answer to a key is kept. Rules of retention count in days, so it outlives none of them."""


def once(actor: Actor, key: str, call: str, act: Callable[[], Any]) -> Any:
    """Return what a call answers, and call `act` only for the first one of this key. `call` is a digest of the call.

    A refusal takes no key: it changed nothing, and the same call can succeed later. Raises `KeyConflict`.
    """
    # a person has one key by all of their tokens: an answer is for the rights with which it was given
    call = digest_of(f"{call} {actor.role} {actor.scope}")
    mine = {"project": actor.project, "sender": actor.key, "key_digest": digest_of(key)}
    with transaction.atomic():
        row, is_first = KeyedWrite.objects.get_or_create(**mine, defaults={"call": call})
        if not is_first:
            return _again(row, call)
        try:
            answer = act()
        except AppError as error:
            row.delete()
            refused = error  # raised after the commit: what a refusal keeps, such as a draft, stays as without a key
        else:
            row.status, value = (answer.status_code, answer.value) if isinstance(answer, Status) else (200, answer)
            row.answer = json.dumps(value, default=_plain)
            row.save(update_fields=["status", "answer"])
            return answer
    raise refused


def _again(row: KeyedWrite, call: str) -> Any:
    if row.call != call:
        raise KeyConflict("This key was already used for another call, or with another body.")
    if not row.answer:
        raise KeyConflict("This call was already made, and its answer was erased since.")
    return Status(row.status, json.loads(row.answer))


def _plain(value: Any) -> Any:
    return value.model_dump() if isinstance(value, BaseModel) else value.isoformat()


def erase_answers(project: Project) -> None:
    """Erase the answers of a project: they can quote what is erased now. Their calls stay made."""
    KeyedWrite.objects.filter(project=project).exclude(answer="").update(answer="")


def forget_old() -> None:
    KeyedWrite.objects.filter(long_ago("at", timezone.now() - KEPT)).delete()

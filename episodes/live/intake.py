"""The append of steps as plain ASGI: `POST /api/v1/episodes/{id}/steps` of a bearer, below Django's middleware.

Owns what such a request goes through. The rules are those of `people.http` and the types those of
`api.append_steps`, which documents this call; the writing is `committer.py`'s. A request that waits for its commit
holds no thread and no connection. Called by `awmweb/asgi.py`.
"""

from __future__ import annotations

import re
from typing import Any

from pydantic import ValidationError

from awmclient.schema import MAX_STEP_BYTES, StepBatch
from episodes.record.committer import committer
from episodes.stored.entries import StepEntry, entries_of_batch
from people.access import Actor
from people.http import misshapen, refuse, respond
from people.known_tokens import TOKENS
from people.requests.aside import read_aside
from people.requests.bodies import Body, HungUp, Receive, Send, bearer_secret
from people.text.json_text import read_object

PATH = re.compile(r"/api/v1/episodes/([^/]+)/steps")


def takes(scope: dict[str, Any]) -> bool:
    """Return whether a request is ours: an append that shows a token. Anything else is Django's."""
    return scope["method"] == "POST" and PATH.fullmatch(scope["path"]) is not None and bearer_secret(scope) is not None


async def append_steps(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """1. who is it, 2. room for the body, and the body, 3. its types, 4. the commit, 5. the answer."""
    try:
        actor = await TOKENS.actor(bearer_secret(scope) or "")
        with Body(scope, receive, MAX_STEP_BYTES, actor.key) as body:
            acknowledged = await _append(actor, scope["path"], await body.read())
        await respond(send, 200, {"acknowledged": acknowledged})
    # no one is left to answer
    except HungUp:
        return
    except Exception as error:
        await refuse(send, error)


async def _append(actor: Actor, path: str, raw: bytes) -> int:
    entries = await read_aside(raw, _entries, actor.key)
    found = PATH.fullmatch(path)
    return await committer.submit(actor, found[1] if found else "", entries)


def _entries(raw: bytes) -> list[StepEntry]:
    body = read_object(raw, MAX_STEP_BYTES)
    try:
        batch = StepBatch.model_validate(body)
    except ValidationError as error:
        raise misshapen(error.errors()) from error
    return entries_of_batch(body["steps"], batch.steps)

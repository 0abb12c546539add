"""The append of steps as plain ASGI: `POST /api/v1/episodes/{id}/steps` of a bearer, below Django's middleware.

Owns what such a request goes through. The rules are those of `people.http`; address, types and answer are those of
`api.append_steps`, which declares this call; the writing is `committer.py`'s. A request that waits for its commit
holds no thread and no connection. Called by `awmweb/asgi.py`.
"""

from __future__ import annotations

from typing import Any

from awmclient.schema import MAX_STEP_BYTES
from episodes import api
from episodes.record.committer import committer
from episodes.stored.entries import StepEntry, entries_of_batch
from people.access import Actor
from people.http import refuse
from people.known_tokens import TOKENS
from people.requests.aside import read_aside
from people.requests.bodies import Body, HungUp, Receive, Send, bearer_secret

APPEND = api.append_steps


def takes(scope: dict[str, Any]) -> bool:
    """Return whether a request is ours: an append that shows a token. Anything else is Django's."""
    return APPEND.key_in(scope["method"], scope["path"]) is not None and bearer_secret(scope) is not None


async def append_steps(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """1. who is it, 2. room for the body, and the body, 3. its types, 4. the commit, 5. the answer."""
    try:
        actor = await TOKENS.actor(bearer_secret(scope) or "")
        with Body(scope, receive, MAX_STEP_BYTES, actor.key) as body:
            acknowledged = await _append(actor, scope, await body.read())
        await APPEND.respond(send, acknowledged=acknowledged)
    # no one is left to answer
    except HungUp:
        return
    except Exception as error:
        await refuse(send, error)


async def _append(actor: Actor, scope: dict[str, Any], raw: bytes) -> int:
    entries = await read_aside(raw, _entries, actor.key)
    return await committer.submit(actor, APPEND.key_in(scope["method"], scope["path"]) or "", entries)


def _entries(raw: bytes) -> list[StepEntry]:
    body, batch = APPEND.read_body(raw)
    return entries_of_batch(body["steps"], batch.steps)

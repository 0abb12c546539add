"""Whose doing a failed turn is: the policy's own, or its model server's. Pure.

The table in docs/runs.md says what counts; each of its rows has a test.
"""

from __future__ import annotations

import re

from awmclient.nouns.values import Fault

READ = 4000
"""Characters of an error's words that are looked at."""
_OVERFLOW = re.compile(
    r"context[ _-]?(?:length|window|size)|maximum context|(?:prompt|input) is too long|"
    r"reduce the length of the (?:messages|prompt)|exceeds the maximum number of tokens",
    re.IGNORECASE,
)
_OUTAGE = re.compile(
    # the words of awmclient.chat
    r"\A(?:EndpointError: )?(?:the endpoint(?:'s)? answer|cannot reach |no answer within )|"
    # the classes of HTTP clients and of model vendors' clients, of which a message begins with the name
    r"\A(?:\w+\.)*(?:API\w*Error|Connect\w*|\w*Connection\w*|\w*Timeout\w*|\w*RateLimit\w*|\w*Unavailable\w*|"
    r"AuthenticationError|PermissionDeniedError|NotFoundError|InternalServerError|BadRequestError|"
    r"\w*HTTP\w*|RemoteProtocolError|ProtocolError|URLError|SSL\w*|gaierror|socket\.\w+)\b|"
    r"\b(?:HTTP|[Ss]tatus|[Ee]rror)(?: [Cc]ode)?:? ?(?:401|403|404|408|429|5\d\d)\b"
)


def is_own(fault: str) -> bool:
    """Return whether a fault is the policy's own doing, so that its episode counts as not complete."""
    return fault == "policy"


def was_cut(words: str) -> bool:
    """Return whether a server can have worked on a call of which nothing came back, so that its cost is unknown.

    >>> was_cut("no answer within 120 s"), was_cut("cannot reach http://a/v1: ConnectError: refused")
    (True, False)
    """
    reached = words.startswith("cannot reach ") and ": Connect" not in words[:READ]
    return reached or words.startswith("no answer within ")


def fault_of(words: str, otherwise: Fault = "policy") -> Fault:
    """Return the fault that an error of a policy's turn is, by the error's words.

    An overflow of the context is the policy's doing, whatever status the server gives it. A server that is unavailable,
    refuses or answers in another protocol is `model`.

    >>> fault_of("the endpoint answered 503: overloaded")
    'model'
    """
    read = words[:READ]
    if _OVERFLOW.search(read):
        return "policy"
    return "model" if _OUTAGE.search(read) else otherwise

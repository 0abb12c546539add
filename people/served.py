"""Calls of the API that are also served below Django: each is declared once, as the operation that documents it.

Owns what both have in common: the address, the types of body, query and answer, and how a body is refused. A handler
below Django asks its call for them, so that it cannot differ from the document. Leaves who calls and what happens to
the handlers. Called by `episodes/live/intake.py`, `experts/consumers.py` and `awmweb/asgi.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from inspect import signature
from typing import Any, get_type_hints
from urllib.parse import parse_qsl

from ninja import Router
from pydantic import BaseModel, ValidationError, create_model

from people.http import REFUSALS, misshapen, respond
from people.requests.bodies import Send
from people.text.json_text import read_object

NAMED = re.compile(r"\{(\w+)\}")
View = Callable[..., Any]


class ServedCall:
    """One call, as its operation declares it: what it takes besides `request`, and what it returns."""

    def __init__(self, method: str, path: str, view: View, most: int) -> None:
        hints, parameters = get_type_hints(view, include_extras=True), signature(view).parameters
        names = [name for name in parameters if name not in ("request", "payload", *NAMED.findall(path))]
        query: Any = {name: (hints[name], parameters[name].default) for name in names}
        self.route = "api/v1" + NAMED.sub(r"<\1>", path)
        self.answer: type[BaseModel] = hints["return"]
        self._method, self._most, self._body = method, most, hints.get("payload")
        self._query = create_model(view.__name__, **query)
        self._address = re.compile("/api/v1" + NAMED.sub("([^/]+)", path))

    def key_in(self, method: str, path: str) -> str | None:
        """Return whom a request of this call is about; None for another request."""
        match = self._address.fullmatch(path) if method == self._method else None
        return match[1] if match is not None else None

    def read_body(self, raw: bytes) -> tuple[dict[str, Any], Any]:
        """Return a body as it came, and as its shape. Raises as the operation does."""
        fields = read_object(raw, self._most)
        return fields, _checked(self._body, fields, "body")

    def read_query(self, query: bytes) -> Any:
        """Return the values of a query string by name. Raises as the operation does."""
        return _checked(self._query, dict(parse_qsl(query.decode("latin-1"), keep_blank_values=True)), "query")

    async def respond(self, send: Send, **fields: Any) -> None:
        await respond(send, 200, self.answer(**fields))


def _checked(shape: Any, fields: dict[str, Any], part: str) -> Any:
    try:
        return shape.model_validate(fields)
    except ValidationError as error:
        raise misshapen([{**wrong, "loc": (part, *wrong["loc"])} for wrong in error.errors()]) from error


def served(router: Router, method: str, path: str, most: int = 0) -> Callable[[View], ServedCall]:
    """Declare a call of the API whose body has at most this many bytes, and return it for its handler."""

    def wrap(view: View) -> ServedCall:
        call = ServedCall(method, path, view, most)
        router.api_operation([method], path, response={200: call.answer, **REFUSALS})(view)
        return call

    return wrap

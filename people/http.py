"""The JSON door of all apps: token or session -> actor, body -> schema type, error -> envelope.

Owns authentication and error translation of `/api/v1`. Leaves routes to each app's `api.py`. Built on django-ninja,
which keeps the OpenAPI document true to the types.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from functools import cache
from typing import Any, TypeVar

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth import get_user
from django.core.exceptions import ObjectDoesNotExist, RequestDataTooBig
from django.db import close_old_connections
from django.http import HttpRequest, HttpResponse
from django.http.cookie import parse_cookie
from django.http.response import JsonResponse
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, ValidationError
from ninja.openapi.schema import OpenAPISchema
from ninja.operation import Operation
from ninja.parser import Parser
from ninja.renderers import BaseRenderer
from ninja.security import APIKeyCookie, HttpBearer
from pydantic import BaseModel

from awmclient.schema import MAX_BATCH_BYTES, MAX_STEP_BYTES, ErrorEnvelope
from people import keyed_calls
from people.access import Actor, bearer, chosen_membership, person
from people.errors import (
    AWAY,
    AppError,
    Broken,
    Invalid,
    NotFound,
    TooLarge,
    Unauthenticated,
    away_of,
    is_of_full_disk,
    words_of,
)
from people.known_tokens import TOKENS
from people.record.members import token_of
from people.requests.bodies import Send, bearer_secret, header
from people.requests.sessions import SessionStore
from people.text.json_text import read_object

log = logging.getLogger(__name__)
S = TypeVar("S", bound=BaseModel)
REFUSALS = dict.fromkeys((400, 401, 403, 404, 408, 409, 413, 422, 429, 503), ErrorEnvelope)
"""Error responses that every call can return."""
AGAIN = (429, 503)
SLOW = 408
CSRF, HTTP = "csrf", "http"
OF_FRAMEWORK = {
    CSRF: (403, "The session's CSRF token is missing or wrong."),
    HTTP: (405, "The framework refused the request, such as a method that the address does not take."),
}
"""Codes of refusals by the framework, with a usual status and what they mean."""
IS_HEAD = "people.is_head"
"""In a request's META if it asks for a page's headers only. Its method is GET."""
RETRY_AFTER_S = "1"

_response_model = cache(Operation._create_response_model)
# ninja makes a model for each status of each call: hundreds, a third of the time that importing the calls takes
Operation._create_response_model = lambda _call, spec: _response_model(None, spec)  # type: ignore[method-assign, assignment]


class Api(NinjaAPI):
    """Refusals of the framework itself (unknown path of the API, wrong method) come in the envelope, too."""

    _schema: OpenAPISchema | None = None

    def get_openapi_schema(
        self, *, path_prefix: str | None = None, path_params: dict[str, Any] | None = None
    ) -> OpenAPISchema:
        """Return the schema, made once: making it takes a second of the processor, and anyone may ask for it."""
        if path_prefix or path_params:
            return super().get_openapi_schema(path_prefix=path_prefix, path_params=path_params)
        if self._schema is None:
            self._schema = super().get_openapi_schema()
            calls = [
                operation
                for _, router in self._routers
                for view in router.path_operations.values()
                for operation in view.operations
            ]
            keyed_calls.document_keys(self._schema, {self.get_openapi_operation_id(one): one for one in calls})
        return self._schema


class StrictParser(Parser):
    """Reads a body once, within its limit."""

    def parse_body(self, request: HttpRequest) -> Any:
        # One step of these can be 8 MB, such as a tool's result; all other bodies are small.
        large = request.path.endswith(("/steps", "/episodes/whole"))
        fields = read_object(request.body, MAX_STEP_BYTES if large else MAX_BATCH_BYTES)
        keyed_calls.take_key(request, fields)
        return fields


class AsciiJson(BaseRenderer):
    """ASCII escapes carry U+0000 and lone surrogates through unchanged; UTF-8 could not."""

    media_type = "application/json"

    def render(self, request: HttpRequest, data: Any, *, response_status: int) -> str:
        return json.dumps(data, default=_encode)


def _encode(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(exclude_none=True)
    if hasattr(value, "isoformat"):
        return value.isoformat().replace("+00:00", "Z")
    raise TypeError(f"cannot write {type(value).__name__} as JSON")


class TokenAuth(HttpBearer):
    """`Authorization: Bearer TOKEN`."""

    def authenticate(self, request: HttpRequest, token: str) -> Actor:
        api_token = token_of(token)
        if api_token is None:
            # said here, or the session would be tried next and complain of a missing CSRF token
            raise Unauthenticated
        # Not found, as under any address of others: the token must not learn that the project exists.
        if api_token.project.slug != getattr(request, "slug", api_token.project.slug):
            raise NotFound
        return bearer(api_token)


async def sender_of(scope: dict[str, Any]) -> str:
    """Return the sender of a request by its token or session; empty for a stranger.

    Rights are checked by the view.
    """
    secret = bearer_secret(scope)
    if secret is None:
        session = parse_cookie(header(scope, b"cookie")).get(settings.SESSION_COOKIE_NAME)
        # In any thread: outside of Django's handler asgiref runs all thread-sensitive work in one thread.
        return await sync_to_async(_signed_in, thread_sensitive=False)(session) if session else ""
    try:
        return (await TOKENS.actor(secret)).key
    except Unauthenticated:
        return ""


def _signed_in(session: str) -> str:
    request = HttpRequest()
    request.session = SessionStore(session)
    try:
        user = get_user(request)
        return f"user:{user.pk}" if user.is_authenticated else ""
    finally:
        # No request of Django's ends in this thread, so nothing else would release its connection.
        close_old_connections()


class SessionAuth(APIKeyCookie):
    """Pages read with their own cookie; a write by cookie needs the CSRF token, which ninja checks."""

    param_name = settings.SESSION_COOKIE_NAME

    def _get_key(self, request: HttpRequest) -> str | None:
        """Return the cookie; a caller with neither token nor cookie is unknown, and CSRF is not their trouble."""
        return super()._get_key(request) if self.param_name in request.COOKIES else None

    def authenticate(self, request: HttpRequest, key: str | None) -> Actor | None:
        if not request.user.is_authenticated:
            return None
        membership = chosen_membership(request)
        return person(membership) if membership is not None else None


DOOR = [TokenAuth(), SessionAuth()]


def actor_of(request: HttpRequest) -> Actor:
    """Return who calls, after the door let them in."""
    return request.auth  # type: ignore[attr-defined, no-any-return]


def envelope(error: AppError) -> dict[str, Any]:
    return {"error": {"code": error.code, "message": error.message}}


async def respond(send: Send, status: int, answer: Any, more: Sequence[tuple[bytes, bytes]] = ()) -> None:
    """Send a whole answer below Django."""
    body = json.dumps(answer, default=_encode).encode()
    headers = [
        (b"content-type", b"application/json; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        # Answers depend on the token: a proxy that stored one would give it to another reader.
        (b"cache-control", b"private, no-store"),
        (b"x-content-type-options", b"nosniff"),
        *more,
    ]
    if status in AGAIN:
        headers.append((b"retry-after", RETRY_AFTER_S.encode()))
    if status == SLOW:
        headers.append((b"connection", b"close"))  # the rest of that body may never come
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def refuse(send: Send, error: Exception) -> None:
    """Send the refusal for an error, below Django."""
    refused = as_refusal(error)
    await respond(send, refused.status, envelope(refused))


def as_refusal(error: Exception) -> AppError:
    """Return the refusal for an error. An unexpected error is logged."""
    if isinstance(error, AppError):
        return error
    if isinstance(error, AWAY) or is_of_full_disk(error):
        log.warning("database or disk away: %s", error)
        return away_of(error)
    log.error("an API call failed", exc_info=error)
    return Broken()


def refusal(error: AppError) -> HttpResponse:
    answer = JsonResponse(envelope(error), status=error.status)
    if error.status in AGAIN:
        answer["Retry-After"] = RETRY_AFTER_S
    return answer


def misshapen(errors: Sequence[Any]) -> Invalid:
    """Return what is wrong with a body, in the words of the type checker, the first few."""
    return Invalid("; ".join(_where(one) for one in errors[:5]))


def _where(error: dict[str, Any]) -> str:
    # The names of a view's parameters, which no caller knows.
    path = ".".join(str(part) for part in error["loc"] if part not in ("body", "payload"))
    message = words_of(error)
    return f"{path}: {message}" if path else message


def build_api(**options: Any) -> Api:
    """Return the one API object; apps add their routers to it in `awmweb/urls.py`."""
    api = Api(auth=DOOR, parser=StrictParser(), renderer=AsciiJson(), docs_url=None, **options)
    api.add_decorator(keyed_calls.marked, mode="view")
    api.add_decorator(keyed_calls.keyed)

    @api.exception_handler(AppError)
    def refused(request: HttpRequest, error: AppError) -> HttpResponse:
        return refusal(error)

    @api.exception_handler(ObjectDoesNotExist)
    def deleted(request: HttpRequest, error: ObjectDoesNotExist) -> HttpResponse:
        return refusal(NotFound())  # it was deleted since the call found it

    @api.exception_handler(AuthenticationError)
    def unknown(request: HttpRequest, error: AuthenticationError) -> HttpResponse:
        return refusal(Unauthenticated())

    @api.exception_handler(ValidationError)
    def invalid(request: HttpRequest, error: ValidationError) -> HttpResponse:
        return refusal(misshapen(error.errors))

    @api.exception_handler(HttpError)
    def framework(request: HttpRequest, error: HttpError) -> HttpResponse:
        if isinstance(error.__cause__, AppError):  # the parser's own refusal, which the framework wraps
            return refusal(error.__cause__)
        refused = AppError(str(error), code=CSRF if error.status_code == 403 else HTTP)
        refused.status = error.status_code
        return refusal(refused)

    @api.exception_handler(RequestDataTooBig)
    def oversized(request: HttpRequest, error: RequestDataTooBig) -> HttpResponse:
        return refusal(TooLarge())

    def database_away(request: HttpRequest, error: Exception) -> HttpResponse:
        return refusal(as_refusal(error))

    for away in (*AWAY, OSError):
        api.exception_handler(away)(database_away)
    return api


def answer_of(shape: type[S], *sources: object, **beside: Any) -> S:
    """Return an answer: each field as `beside` has it, else the attribute of the first source that has one. Values in
    lists are made into their shapes in the same way."""
    names = shape.model_fields.keys() - beside.keys()
    values = {name: getattr(source, name) for source in reversed(sources) for name in names if hasattr(source, name)}
    return shape.model_validate({**values, **beside}, from_attributes=True)


def refuse_unknown(request: HttpRequest, *names: str) -> None:
    """Raise `Invalid` for a name in the query that a list does not know: a filter that is ignored would answer
    everything."""
    if unknown := sorted(set(request.GET) - set(names)):
        use = f"Use one of {', '.join(names)}." if names else "This list has none."
        raise Invalid(f"Unknown filter: {unknown[0]}. {use}")

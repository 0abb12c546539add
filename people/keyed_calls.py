"""A key in the body of a write: the same call again gets the same answer, and changes nothing twice.

Owns which calls take a key, how it is read, and how the OpenAPI document names it: every write has one, without a word
in the apps. Leaves the effect to `record/keyed_writes.py`. Called by `http.py` for all calls of the API.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from django.http import HttpRequest
from ninja.operation import Operation
from pydantic import TypeAdapter, ValidationError

from awmclient.nouns.fields import Line
from awmclient.schema import MAX_BATCH_BYTES
from people.errors import Invalid, words_of
from people.record.keyed_writes import KEPT, once
from people.text.json_text import read_object

READS = ("GET", "HEAD")
FORMS = ("multipart/form-data", "application/x-www-form-urlencoded")
BY_NATURE = {
    "DELETE": "what is deleted stays deleted",
    "/episodes/{episode_id}/steps": "each step has its number",
    "/episodes/whole": "each episode has a key of its own",
    "/runs/{run_id}/interrupts": "the body is AG-UI's, which names thread, run and interrupt",
    "/episodes/{episode_id}/blobs": "the body is the picture, which is known by its digest",
    "/asks/{ask_id}/attachments": "the body is the file, which is known by its bytes",
}
"""Writes without a key, by method or path, and why a repeat changes nothing."""
KEY_WORDS = (
    "Makes a repeat safe: the same key and body again is the first answer, for "
    f"{KEPT.days * 24} hours. Another body is 409 `key_conflict`."
)
_KEY: TypeAdapter[str] = TypeAdapter(Line)


def body_of(operation: Operation) -> str:
    """Return where a call has its fields: `body`, `form`, or "" without any."""
    sources = {getattr(model, "__ninja_param_source__", None) for model in operation.models}
    return next((one for one in ("body", "form") if one in sources), "")


def takes_key(operation: Operation) -> bool:
    """Return whether a call is a write that gets its key from here; some bodies have a `key` of their own."""
    if operation.methods[0] in READS or operation.methods[0] in BY_NATURE or operation.path in BY_NATURE:
        return False
    return not any("key" in getattr(one.annotation, "model_fields", {}) for one in _bodies(operation))


def _bodies(operation: Operation) -> Iterator[Any]:
    for model in operation.models:
        if getattr(model, "__ninja_param_source__", None) == "body":
            yield from model.model_fields.values()


def marked(run: Callable[..., Any]) -> Callable[..., Any]:
    """Let the parser and `keyed` know of each request which call it is."""
    operation: Operation = run.__self__  # type: ignore[attr-defined]
    fields_in = body_of(operation) if takes_key(operation) else None

    @functools.wraps(run)
    def inner(request: HttpRequest, **values: Any) -> Any:
        request.fields_in = fields_in  # type: ignore[attr-defined]
        return run(request, **values)

    return inner


def take_key(request: HttpRequest, fields: dict[str, Any]) -> None:
    """Take the key out of the fields of a body, for `keyed`."""
    if getattr(request, "fields_in", None) is not None and (key := fields.pop("key", None)) is not None:
        request.key = key, _digest(request, fields)  # type: ignore[attr-defined]


def _digest(request: HttpRequest, fields: Mapping[str, Any]) -> str:
    """Return a digest of everything that a call says, without its key."""
    parts = [request.method, request.path_info, request.GET.urlencode(), json.dumps(fields, sort_keys=True)]
    files: Mapping[str, Any] = request.FILES if request.fields_in == "form" else {}  # type: ignore[attr-defined]
    for name, file in sorted(files.items()):
        content = hashlib.sha256()
        for chunk in file.chunks():
            content.update(chunk)
        parts += [name, file.name, content.hexdigest()]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def keyed(view: Callable[..., Any]) -> Callable[..., Any]:
    """Answer a call with a key once."""

    @functools.wraps(view)
    def inner(request: HttpRequest, *args: Any, **values: Any) -> Any:
        fields_in = getattr(request, "fields_in", None)
        if fields_in == "":
            _read_key_alone(request)
        elif fields_in == "form":
            take_key(request, request.POST.dict())
        if (sent := getattr(request, "key", None)) is None:
            return view(request, *args, **values)
        try:
            key = _KEY.validate_python(sent[0])
        except ValidationError as error:
            raise Invalid(f"key: {words_of(error.errors()[0])}") from None
        return once(request.auth, key, sent[1], lambda: view(request, *args, **values))  # type: ignore[attr-defined]

    return inner


def _read_key_alone(request: HttpRequest) -> None:
    """Raise `Invalid` for another field in the body of a call that takes none: one that is ignored would seem to
    count."""
    if request.content_type in FORMS:  # read by Django, and empty where a program sends a form without fields
        fields = request.POST.dict()
    else:
        fields = read_object(request.body, MAX_BATCH_BYTES) if request.body else {}
    take_key(request, fields)
    if unknown := sorted(fields):
        raise Invalid(f"{unknown[0]}: Extra inputs are not permitted")


def document_keys(document: dict[str, Any], operations: Mapping[str, Operation]) -> None:
    """Name the key in an OpenAPI document. `operations` are its calls by their IDs."""
    shape = {**_KEY.json_schema(), "title": "Key", "description": KEY_WORDS}
    shapes = document["components"]["schemas"]
    for methods in document["paths"].values():
        for operation in methods.values():
            if not takes_key(operations[operation["operationId"]]):
                continue
            alone = {"content": {"application/json": {"schema": {"type": "object", "additionalProperties": False}}}}
            for content in operation.setdefault("requestBody", alone)["content"].values():
                schema = content["schema"]
                schema = shapes[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
                schema.setdefault("properties", {})["key"] = shape

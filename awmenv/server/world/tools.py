"""From a scenario app's OpenAPI document to the agent's tools, and from a tool call back to an HTTP request.

Pure. Runs inside the confined host, because the document and its schemas come from untrusted code (a schema's regular
expression may never end). A tool is one operation: its name is the operation_id, and its path, query and body
properties are merged flat.
"""

import json
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

METHODS = ("get", "post", "put", "patch", "delete")
MAX_TOOLS = 500
MAX_REF_DEPTH = 12


@dataclass
class Operation:
    """One tool: its spec for the agent, and the location of each argument."""

    name: str
    description: str
    input_schema: dict[str, Any]
    method: str
    path: str
    in_path: list[str] = field(default_factory=list)
    in_query: list[str] = field(default_factory=list)
    in_header: list[str] = field(default_factory=list)
    in_body: list[str] = field(default_factory=list)
    whole_body: str | None = None

    def listed(self) -> dict[str, Any]:
        return {"name": self.name, "description": self.description, "input_schema": self.input_schema}


@dataclass(frozen=True)
class ToolRequest:
    method: str
    path: str
    query: str
    headers: list[tuple[bytes, bytes]]
    body: bytes


def operations(document: dict[str, Any]) -> list[Operation]:
    """Return every operation with an operation_id, in the document's order."""
    listed: list[Operation] = []
    for path, item in document.get("paths", {}).items():
        for method in METHODS:
            operation = item.get(method)
            if isinstance(operation, dict) and isinstance(operation.get("operationId"), str):
                shared = item.get("parameters", [])
                listed.append(_operation(document, path, method, operation, shared))
    return listed[:MAX_TOOLS]


def _operation(
    document: dict[str, Any], path: str, method: str, source: dict[str, Any], shared: list[Any]
) -> Operation:
    texts = [source.get("summary"), source.get("description")]
    operation = Operation(
        name=source["operationId"],
        description="\n\n".join(text for text in texts if isinstance(text, str) and text),
        input_schema={"type": "object", "properties": {}},
        method=method.upper(),
        path=path,
    )
    required: list[str] = []
    for parameter in [*shared, *source.get("parameters", [])]:
        _add_parameter(operation, _inline(document, parameter), required)
    _add_body(document, operation, source.get("requestBody"), required)
    if required:
        operation.input_schema["required"] = list(dict.fromkeys(required))
    return operation


def _add_parameter(operation: Operation, parameter: dict[str, Any], required: list[str]) -> None:
    name, place = parameter.get("name"), parameter.get("in")
    targets = {"path": operation.in_path, "query": operation.in_query, "header": operation.in_header}
    if not isinstance(name, str) or place not in targets:
        return
    targets[place].append(name)
    schema = dict(parameter.get("schema") or {})
    if isinstance(parameter.get("description"), str):
        schema["description"] = parameter["description"]
    operation.input_schema["properties"][name] = schema
    if parameter.get("required"):
        required.append(name)


def _add_body(document: dict[str, Any], operation: Operation, body: Any, required: list[str]) -> None:
    body = _inline(document, body) if isinstance(body, dict) else {}
    schema = (body.get("content", {}).get("application/json") or {}).get("schema")
    if not isinstance(schema, dict):
        return
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        operation.whole_body = "body"
        operation.input_schema["properties"]["body"] = schema
        if body.get("required"):
            required.append("body")
        return
    for name, part in properties.items():
        operation.in_body.append(name)
        # A parameter of the path or query with the same name keeps its schema.
        operation.input_schema["properties"].setdefault(name, part)
    if body.get("required", False):
        required.extend(name for name in schema.get("required", []) if isinstance(name, str))


def _inline(document: dict[str, Any], node: Any, depth: int = 0) -> Any:
    """Return the schema with its references replaced by their targets.

    A recursive schema ends as an open object.
    """
    if isinstance(node, list):
        return [_inline(document, part, depth) for part in node]
    if not isinstance(node, dict):
        return node
    reference = node.get("$ref")
    if isinstance(reference, str):
        if depth >= MAX_REF_DEPTH:
            return {"type": "object"}
        rest = {key: value for key, value in node.items() if key != "$ref"}
        return {**_inline(document, _named(document, reference), depth + 1), **_inline(document, rest, depth)}
    return {key: _inline(document, value, depth) for key, value in node.items()}


def _named(document: dict[str, Any], reference: str) -> dict[str, Any]:
    node: Any = document
    for part in reference.removeprefix("#/").split("/"):
        # A JSON pointer escapes `/` as ~1 and `~` as ~0, which has to be decoded last.
        node = node.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(node, dict) else None
    return node if isinstance(node, dict) else {}


def request(operation: Operation, arguments: dict[str, Any]) -> ToolRequest:
    """Return the HTTP request of a tool call. Undeclared arguments are dropped, as upstream does."""
    path = operation.path
    for name in operation.in_path:
        # Without safe characters: a slash in an argument must not change the route.
        path = path.replace("{" + name + "}", quote(_as_text(arguments.get(name)), safe=""))
    pairs = [(name, value) for name in operation.in_query for value in _values(arguments.get(name))]
    headers = [
        (name.lower().encode(), _as_text(arguments[name]).encode()) for name in operation.in_header if name in arguments
    ]
    body = b""
    if operation.whole_body is not None:
        body = json.dumps(arguments.get(operation.whole_body)).encode()
    elif operation.in_body:
        body = json.dumps({name: arguments[name] for name in operation.in_body if name in arguments}).encode()
    if body:
        headers.append((b"content-type", b"application/json"))
    headers.append((b"content-length", str(len(body)).encode()))
    return ToolRequest(operation.method, path, urlencode(pairs), headers, body)


def samples(operation: Operation) -> list[dict[str, Any]]:
    """Return arguments that the operation probably accepts: the required ones, those plus each other one, and all."""
    properties = operation.input_schema["properties"]
    required = operation.input_schema.get("required", [])
    optional = [name for name in properties if name not in required]
    choices = [required, *([*required, name] for name in optional), [*required, *optional]]
    return [{name: _made_up(properties.get(name)) for name in names} for names in choices]


def _made_up(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return "a"
    for key in ("default", "const"):
        if key in schema:
            return schema[key]
    for choice in ("enum", "examples", "anyOf", "oneOf", "allOf"):
        if isinstance(schema.get(choice), list) and schema[choice]:
            first = schema[choice][0]
            return _made_up(first) if choice.endswith("Of") else first
    least = schema.get("minimum", 1)
    kinds = {"integer": least, "number": least, "boolean": True, "array": [], "object": {}}
    return kinds.get(str(schema.get("type")), "2026-01-01" if "date" in str(schema.get("format")) else "a")


def _values(value: Any) -> list[str]:
    if value is None:
        return []
    return [_as_text(item) for item in value] if isinstance(value, list) else [_as_text(value)]


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else json.dumps(value)


def shown(body: bytes) -> str:
    """Return a response body as the agent reads it: JSON with indent 2, anything else as text."""
    text = body.decode("utf-8", "replace")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if isinstance(value, dict | list):
        return json.dumps(value, indent=2, ensure_ascii=False).encode("utf-8", "replace").decode()
    return text if isinstance(value, str) else str(value)

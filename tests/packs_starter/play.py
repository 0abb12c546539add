"""Plays scripts against a scenario's app, as a process of its own: jobs in, what happened out, both as JSON.

A job is {"code", "database", "calls": [{"name", "arguments"}]}. The code is ours, so nothing is confined here; the
environment server does that for packs of others. Without calls the answer is just the tools the app offers.
"""

import asyncio
import json
import os
import sys
import types
from typing import Any
from urllib.parse import quote

import httpx

METHODS = ("get", "post", "put", "patch", "delete")


def load(code: str, database: str) -> Any:
    os.environ["DATABASE_PATH"] = f"sqlite:///{database}"
    module = types.ModuleType("scenario_app")
    sys.modules["scenario_app"] = module
    exec(compile(code, "app.py", "exec"), module.__dict__)
    return module.app


def parameters(document: dict[str, Any], operation: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    """Every argument of a tool as (place, name, schema), body fields merged flat as an agent sees them."""
    found = [(entry["in"], entry["name"], entry | entry["schema"]) for entry in operation.get("parameters", [])]
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    body = document["components"]["schemas"][body["$ref"].rsplit("/", 1)[1]] if "$ref" in body else body
    return found + [("body", name, schema) for name, schema in body.get("properties", {}).items()]


def tools(app: Any) -> dict[str, dict[str, Any]]:
    document = app.openapi()
    return {
        operation.get("operationId", f"{method} {path}"): {
            "method": method,
            "path": path,
            "summary": operation.get("summary", ""),
            "description": operation.get("description", ""),
            "parameters": parameters(document, operation),
        }
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
        if method in METHODS
    }


async def call(client: httpx.AsyncClient, tool: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
    places = {name: place for place, name, _ in tool["parameters"]}
    parts: dict[str, dict[str, Any]] = {"path": {}, "query": {}, "body": {}}
    for name, value in arguments.items():
        parts[places[name]][name] = value
    response = await client.request(
        tool["method"],
        tool["path"].format(**{name: quote(str(value), safe="") for name, value in parts["path"].items()}),
        params=parts["query"],
        json=parts["body"] if "body" in places.values() else None,
    )
    return {"status": response.status_code, "text": response.text}


async def play(job: dict[str, Any]) -> dict[str, Any]:
    app = load(job["code"], job["database"])
    offered = tools(app)
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://app") as client:
        results = [await call(client, offered[each["name"]], each["arguments"]) for each in job["calls"]]
    return {"results": results, "tools": offered if not job["calls"] else None}


if __name__ == "__main__":
    print(json.dumps([asyncio.run(play(job)) for job in json.load(sys.stdin)]))

"""Plays scripts against a scenario's app, as a process of its own: lines of jobs in, what happened out, both as JSON.

A job is {"code", "database", "calls": [{"name", "arguments"}]}. The code is ours, so nothing is confined here; the
environment server does that for packs of others. Without calls the answer is just the tools the app offers. An app is
loaded once, over a working file; each job's database is put there and taken away again.
"""

import asyncio
import functools
import json
import os
import shutil
import sys
import tempfile
import types
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

METHODS = ("get", "post", "put", "patch", "delete")
FOLDER = tempfile.TemporaryDirectory()


@functools.cache
def load(code: str) -> tuple[Any, Path]:
    """The app's module and the file its engine looks at."""
    work = Path(tempfile.mkdtemp(dir=FOLDER.name)) / "work.db"
    os.environ["DATABASE_PATH"] = f"sqlite:///{work}"
    module = types.ModuleType(f"scenario_app_{work.parent.name}")
    sys.modules[module.__name__] = module
    exec(compile(code, "app.py", "exec"), module.__dict__)
    return module, work


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
    module, work = load(job["code"])
    offered = tools(module.app)
    module.engine.dispose()
    shutil.copy(job["database"], work)
    transport = httpx.ASGITransport(app=module.app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://app") as client:
        results = [await call(client, offered[each["name"]], each["arguments"]) for each in job["calls"]]
    module.engine.dispose()
    shutil.copy(work, job["database"])
    return {"results": results, "tools": offered if not job["calls"] else None}


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps([asyncio.run(play(job)) for job in json.loads(line)]), flush=True)

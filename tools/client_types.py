"""Writes the types of the TypeScript client from the OpenAPI document: `python -m tools.client_types`.

The first line of the written file has the digest of the document; `tests/tools/test_client_types.py` compares both.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import django

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "awmweb.settings")
    django.setup()

from awmweb.urls import api  # noqa: E402  the settings had to be there first

TOOLS = Path(__file__).resolve().parent
FILE = TOOLS.parent / "clients" / "typescript" / "src" / "api.ts"
REFUSED = "Refused"


def document() -> dict[str, Any]:
    """Return the document as the client needs it: without the version, and each call's refusals as one response."""
    whole = json.loads(json.dumps(api.get_openapi_schema()))
    for call in (call for methods in whole["paths"].values() for call in methods.values()):
        responses = {str(status): response for status, response in call["responses"].items() if str(status) < "3"}
        call["responses"] = {**responses, "default": {"$ref": f"#/components/responses/{REFUSED}"}}
    envelope = {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorEnvelope"}}}
    whole["components"]["responses"] = {REFUSED: {"description": "The call was refused.", "content": envelope}}
    return {**whole, "info": {"title": whole["info"]["title"], "version": ""}}


def first_line(body: str) -> str:
    """Return the line that names the document, and what was made of it."""
    source = json.dumps(document(), sort_keys=True)
    digests = (hashlib.sha256(text.encode()).hexdigest()[:32] for text in (source, body))
    return f"// `python -m tools.client_types` wrote this. Document {next(digests)}, text {next(digests)}.\n"


def written() -> str:
    """Return the types of the document, by openapi-typescript."""
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder) / "openapi.json", Path(folder) / "api.ts"
        source.write_text(json.dumps(document(), sort_keys=True), encoding="utf-8")
        command: list[str | Path] = [
            TOOLS / "node_modules" / ".bin" / "openapi-typescript",
            source,
            "-o",
            made,
            "--default-non-nullable=false",
        ]
        subprocess.run(command, check=True, capture_output=True)
        body = made.read_text(encoding="utf-8")
    return first_line(body) + body


if __name__ == "__main__":
    FILE.write_text(written(), encoding="utf-8")
    print(f"{FILE.relative_to(TOOLS.parent)} was written.")

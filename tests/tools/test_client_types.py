"""The TypeScript client has the types of the API as it is, and calls only what it names."""

from __future__ import annotations

import json
import re
from pathlib import Path

from awmenv.version import NUMBER
from tools import client_types

CLIENT = Path(__file__).resolve().parents[2] / "clients" / "typescript"


def test_types_are_those_of_the_document():
    first, _, body = client_types.FILE.read_text(encoding="utf-8").partition("\n")
    assert f"{first}\n" == client_types.first_line(body), "python -m tools.client_types writes them"


def test_package_has_one_dependency_and_the_products_number():
    package = json.loads((CLIENT / "package.json").read_text(encoding="utf-8"))
    tools = json.loads((client_types.TOOLS / "package.json").read_text(encoding="utf-8"))["devDependencies"]
    assert package["version"] == NUMBER
    assert package["dependencies"] == {"openapi-fetch": tools["openapi-fetch"]}
    optional = package["peerDependenciesMeta"]
    assert set(optional) == set(package["peerDependencies"]) and all(one["optional"] for one in optional.values())


def test_library_needs_fetch_alone():
    imported = {"api": set(), "adapter": set()}
    for path in (CLIENT / "src").glob("*.ts"):
        names = re.findall(r'from "([^".][^"]*)"', path.read_text(encoding="utf-8"))
        imported["adapter" if path.stem in {"ai-sdk", "langgraph"} else "api"] |= set(names)
    assert imported == {"api": {"openapi-fetch"}, "adapter": {"ai", "@langchain/langgraph"}}

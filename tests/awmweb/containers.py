"""Reads the compose file and the Dockerfile well enough to run what they say without Docker.

Understands what those two files use and fails on anything else. Called by `test_compose` and `test_image`.
"""

import fnmatch
import json
import re
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

import yaml

VARIABLE = re.compile(r"\$(?:(\$)|\{([A-Z0-9_]+)(?::([-?])([^}]*))?\})")


class Missing(Exception):
    """A variable that the compose file insists on is not set."""


def interpolated(text: str, known: dict[str, str]) -> str:
    """What Compose makes of `${NAME}`, `${NAME:-default}`, `${NAME:?reason}` and `$$`."""

    def value(found: re.Match) -> str:
        dollar, name, kind, rest = found.groups()
        if dollar:
            return "$"
        if known.get(name):
            return known[name]
        if kind == "?":
            raise Missing(f"{name}: {rest}")
        return rest or ""

    return VARIABLE.sub(value, text)


def compose(file: Path, known: dict[str, str]) -> dict:
    """The compose file as Compose would read it."""

    def walk(part: object) -> object:
        if isinstance(part, dict):
            return {key: walk(value) for key, value in part.items()}
        if isinstance(part, list):
            return [walk(value) for value in part]
        return interpolated(part, known) if isinstance(part, str) else part

    return walk(yaml.safe_load(file.read_text()))


def health_command(service: dict) -> list[str]:
    """The health check as something to execute."""
    kind, *words = service["healthcheck"]["test"]
    if kind == "CMD-SHELL":
        return ["/bin/sh", "-c", words[0]]
    assert kind == "CMD", kind
    return words


@dataclass(frozen=True)
class Step:
    """One instruction of the Dockerfile."""

    name: str
    value: str

    @property
    def words(self) -> list[str]:
        return json.loads(self.value) if self.value.startswith("[") else shlex.split(self.value)


def steps(file: Path) -> list[Step]:
    """The Dockerfile's instructions in order."""
    joined = file.read_text().replace("\\\n", " ")
    lines = [line for line in joined.splitlines() if line.strip() and not line.startswith("#")]
    return [Step(*line.split(None, 1)) for line in lines]


def copy_context(root: Path, target: Path) -> None:
    """`COPY . .` with a .dockerignore of the form used here: nothing, but for what is named after a `!`."""
    first, *rules = (root / ".dockerignore").read_text().split()
    assert first == "*"
    allowed = {rule[1:] for rule in rules if rule.startswith("!")}
    dropped = [rule.removeprefix("**/") for rule in rules if not rule.startswith("!")]
    for name in sorted(allowed):
        source = root / name
        if source.is_dir():
            skip = shutil.ignore_patterns(*dropped)
            shutil.copytree(source, target / name, ignore=skip, dirs_exist_ok=True)
        elif source.exists() and not any(fnmatch.fnmatch(name, rule) for rule in dropped):
            shutil.copy2(source, target / name)

"""Writes the parts of pages that are printed from the code: `python -m tools.printed`.

Codes of errors into docs/errors.md, limits and lives into docs/limits.md, rules of when to ask into docs/asking.md,
sentences that can be false into docs/measured/planted.md, tables of states into docs/developing.md (`states.py`).
`tests/test_printed.py` fails while a page differs.
"""

from __future__ import annotations

import ast
import importlib
import os
import re
from collections.abc import Collection, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import django

DOCS = Path(__file__).resolve().parent.parent / "docs"

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "awmweb.settings")
    django.setup()

from awmclient import errors as client_errors  # noqa: E402
from awmclient.asking import rules  # noqa: E402
from people.errors import AppError  # noqa: E402  the settings had to be there first
from people.http import OF_FRAMEWORK  # noqa: E402
from people.text.in_words import bytes_in_words, count  # noqa: E402
from tools import limits, sentences, states  # noqa: E402

APPS = ("people", "episodes", "experts", "reviews", "runs", "curriculum", "exports", "imports", "notices", "awmweb")


def _classes(kind: type[Any], packages: Collection[str]) -> Iterator[type[Any]]:
    """Yield the classes below one that are in these packages. A test may have loaded others."""
    for one in kind.__subclasses__():
        if one.__module__.partition(".")[0] in packages:
            yield one
        yield from _classes(one, packages)


def _words(kind: type[Any]) -> str:
    return " ".join((kind.__doc__ or "").split("\n\n")[0].split())


def codes() -> str:
    """Return the codes of refusals by the API and the pages, each with its statuses and messages, in the order of
    letters: that of imports differs from one machine to the next."""
    for path in [path for app in APPS for path in sorted((DOCS.parent / app).rglob("*.py"))]:
        if re.search(r'^    code = "', path.read_text(encoding="utf-8"), re.MULTILINE):
            importlib.import_module(".".join(path.relative_to(DOCS.parent).with_suffix("").parts))
    found: dict[str, dict[tuple[int, str], None]] = {}
    for one in _classes(AppError, APPS):
        found.setdefault(one.code, {})[one.status, _words(one)] = None
    for code, (status, words) in OF_FRAMEWORK.items():
        found.setdefault(code, {})[status, words] = None
    rows = ["| code | status | message |", "|---|---|---|"]
    for code in sorted(found):
        statuses = ", ".join(sorted({str(status) for status, _ in found[code]}))
        rows.append(f"| `{code}` | {statuses} | {'<br>'.join(sorted({words for _, words in found[code]}))} |")
    return "\n".join(rows)


def client_codes() -> str:
    """Return the codes that `awmclient` gives by itself; those of a refusal are the dashboard's."""
    rows = ["| code | class | message |", "|---|---|---|"]
    for one in sorted(_classes(client_errors.ClientError, ("awmclient",)), key=lambda one: (one.code, one.__name__)):
        rows.append(f"| `{one.code}` | `{one.__name__}` | {_words(one)} |")
    return "\n".join(rows)


def value_of(name: str) -> Any:
    """Return a constant by its dotted name. Its module is read and not imported: some need a process of their own."""
    module, _, wanted = name.rpartition(".")
    path = DOCS.parent.joinpath(*module.split(".")).with_suffix(".py")
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign):
            target, value = node.targets[0], node.value
            pairs = zip(target.elts, value.elts) if isinstance(target, ast.Tuple) else [(target, value)]  # type: ignore[attr-defined]  # noqa: B905
            for one, constant in pairs:
                if isinstance(one, ast.Name) and one.id == wanted:
                    return eval(ast.unparse(constant), {"timedelta": timedelta})  # noqa: S307  our own constants
    raise SystemExit(f"{name} is no constant.")


def in_words(name: str) -> str:
    """Return a constant as a page has it: its unit follows from its type or the end of its name."""
    value = value_of(name)
    if isinstance(value, timedelta) or re.search(r"_S$", name):
        return _time(value if isinstance(value, timedelta) else timedelta(seconds=value))
    if re.search(r"_MS$", name):
        return _time(timedelta(milliseconds=value))
    return bytes_in_words(value) if re.search(r"_BYTES$|UPLOAD_MAX$|BODY_MAX$", name) else f"{value:,}"


def _time(value: timedelta) -> str:
    seconds = value.total_seconds()
    for size, unit in ((86_400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= 2 * size and seconds % size == 0 or seconds == size:
            return count(int(seconds // size), unit)
    return f"{seconds:g} s"


def lives() -> str:
    """Return the limits and lives of `limits.py`, a table for each subject."""
    parts = []
    for subject, rows in limits.LIMITS.items():
        lines = [f"| {words} | {in_words(name)} | `{name}` |" for words, name in rows]
        parts.append("\n".join([f"### {subject}", "", "| what | limit | constant |", "|---|---|---|", *lines]))
    return "\n\n".join(parts)


def asking_rules() -> str:
    """Return the rules of when to ask, with the plan's reminders for an arm without one."""
    rows = ["| `ask` | offers |", "|---|---|"]
    rows.append("| not set | always; reminders by the plan's `nudge_after` and `stall_after` |")
    for kind in rules.RULES:
        example = f"`{kind.example}`" if kind.is_in(kind.example) else kind.example
        rows.append(f"| {example} | {kind.words} |")
    return "\n".join(rows)


BLOCKS = {
    ("asking.md", "rules of asking"): asking_rules,
    ("errors.md", "codes of the dashboard"): codes,
    ("errors.md", "codes of awmclient"): client_codes,
    ("limits.md", "limits and lives"): lives,
    ("measured/planted.md", "sentences that can be false"): sentences.table,
}


def written(page: str, text: str) -> str:
    """Return the text of a page with its printed parts as the code has them."""
    for (name, mark), block in BLOCKS.items():
        if name == page:
            text = states.put(text, mark, block())
    return text


if __name__ == "__main__":
    for page in {name for name, _ in BLOCKS}:
        (DOCS / page).write_text(written(page, (DOCS / page).read_text(encoding="utf-8")), encoding="utf-8")
    states.PAGE.write_text(states.written(states.PAGE.read_text(encoding="utf-8")), encoding="utf-8")

"""Measured claims of README.md and docs/: which sentences are one, which pages each names, and what those say.

A sentence names pages by links: its own, those of a sentence before it in its paragraph, or, for an item of a list and
a row of a table, those of the paragraph before. A link to `measured/x.jsonl#name` names the last line of that name, one
to `measured/x.md#title` a section without its tables. With `"words"` behind the address it names the column with these
words as its head, or else the lines with them. A decision can be named as well."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.commands import ROOT

LEFT_OUT = re.compile(r"^ *```.*?^ *```|<!-- (?!end).*?-->.*?<!-- end -->", re.DOTALL | re.MULTILINE)
"""Blocks of code, and what `tools/printed.py` prints: `tests/test_printed.py` compares that."""
LINK = re.compile(r"!?\[([^]]*)\]\(([^)\s]*(?: \"[^\"]*\")?)\)")
SOURCE = re.compile(r"^(?:docs/)?((?:measured|decisions)/[\w-]+\.(?:md|jsonl|txt))(?:#([^ ]+))?(?: \"(.+)\")?$")
NO_NUMBER = re.compile(
    r"\b[A-Z][\w.]*-[\w.-]+|\b(?:p|CV|AWM|Python|TRL|PostgreSQL|kill -|pull request )\d+\b"
    r"|\b\d+\.\d+\.\d+|\b95% (?:interval|CI)s?|\((?:November|decision|note) \d+\)|\b[A-Z]\w* \d{1,2}, 20\d\d"
)
"""What has digits and is no quantity: names, versions, dates."""
PRINTED = re.compile(r"\"(?!\))[^\"\n]{12,}\"(?!\))|(?<!\*)\*[A-Z][^*]{40,}\*|^> .*$", re.MULTILINE)
"""Words that the product prints: an example."""
MARK = r"(?:[-*]|\d+\.) "
QUANTITY = re.compile(r"(?<![\w.,/])[-+]?(\d+(?:,\d{3})*(?:\.\d+)?)(?!\w*[A-Za-z_]\d)[ -]?(%|[A-Za-z]+)?")
"""A number and the word behind it."""
UNIT = r"(?:ms|s|seconds?|minutes?|hours?|[kKMG]i?B|microseconds?|points?|tokens?|rows|%)(?![\w/])"
BOUND = re.compile(
    r"\b(?:at most|at least|up to|below|above|more than|less than|fewer than|longer than|within|after|every|until|for"
    r"|as soon as|faster than|slower than|limit of)(?: the)? \d[\d,.]*(?: ?[\w%]+(?:/s)?)?|\b\d[\d,.]* ?\w+ at most",
    re.IGNORECASE,
)
"""A limit: how long, how much or how many the product lets be."""
CLAIMING = re.compile(
    rf"""\d.*\b(?:took|were\ (?:found|kept|left\ out)|became|opened\ the)\b
    |\b(?:took|reached|came\ in|wrote|solves?|changed|so\ were)\ (?:(?!and)\w+\ )?\d
    |\b(?:falls?|fell|went|go)\ (?:from|to)\ \d|\bend\ anywhere\b|\bof\ \d+\ seeds\b
    |\b(?:takes?|costs?|needs?)\ (?:about\ |some\ )?\d[\d.,]*(?:\ to\ \d[\d.,]*)?\ {UNIT}
    |\b(?:has|have)\ (?:\d[\d,.]*\ to\ \d[\d,.]*\ tokens|0\.\d)
    |\d\ (?:\w+\ )?(?:a|per)\ second|\d\ ?\w*/s\b|\d\.\d+\ (?:\w+\ )?{UNIT}|\d\ (?:ms|MB)\ (?:of\ one\ )?for\ a\b
    |\b(?:p9\d|median)\b.*\ \d|(?<!p)\d\b.*\b(?:p9\d|median)\b|\d\ times\ (?:as|more|longer)\b|\binstead\ of\ \d
    |\b\d\ of\ \d\ against\b|\bon\ average\b|\bwould\ (?:err|cover|be\ \d)|\b(?:quiet|idle)\ cores\b
    |\bon\ (?:two|\d)\ cores\b|\bload\ \d|\b(?:twice|half)\ as\ (?:many|much|long|fast)\b
    |\bno\ difference\ is\ shown\b|\b(?:is|are)\ (?:better|worse)\ than\b.*\d|\bshow(?:s|ed)?\ (?:about\ )?\d+\ points
    |\bin\ (?:about\ )?(?:half\ )?an?\ (?:second|minute)\b(?!\ (?:each|of))""",
    re.VERBOSE | re.IGNORECASE,
)
"""How a sentence speaks of what was measured. One beside a measured page needs a number alone."""
FINDING = re.compile(
    r"\b(?:better|worse|no difference|not tested|twice|half|a (?:third|fourth|quarter|fifth|sixth|seventh|tenth))\b"
)
"""Words that a page has to have as well."""
SCALES = {"ms": 1000, "%": 100, "MB": 1e-6, "million": 1e-6}


@dataclass(frozen=True)
class Claim:
    page: str
    line: int
    text: str
    sources: tuple[str, ...]

    @property
    def prose(self) -> str:
        return re.sub(r"`[^`]*`", "x", LINK.sub(r"\1", self.text))

    @property
    def words(self) -> str:
        """Its prose without what has digits and is no quantity."""
        return NO_NUMBER.sub("x", self.prose)

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.text}"


def claims(page: Path) -> Iterator[Claim]:
    """Yield the sentences of a page that claim something measured."""
    text = LEFT_OUT.sub(lambda part: "\n" * part[0].count("\n"), page.read_text(encoding="utf-8"))
    before: tuple[str, ...] = ()
    for line, block in _blocks(PRINTED.sub("x", text)):
        if block.startswith("#"):
            before = ()
            continue
        is_part, block = re.match(rf"{MARK}|\|", block), re.sub(rf"^{MARK}", "", block)
        inherited = before if is_part else ()
        for sentence in [block] if block.startswith("|") else re.split(r"(?<=[.!?])[\"')*_]*\s+(?=\S)", block):
            own = tuple(target for _, target in LINK.findall(sentence) if SOURCE.match(target))
            inherited = own or inherited
            claim = Claim(page.name, line, sentence, inherited)
            beside = any("measured/" in target for target in inherited)
            says = QUANTITY.search(claim.words) or FINDING.search(claim.words.lower())
            if CLAIMING.search(BOUND.sub("x", claim.prose)) or (beside and says):
                yield claim
        if not is_part:
            before = inherited


def _blocks(text: str) -> Iterator[tuple[int, str]]:
    """Yield headings, paragraphs, items of lists and rows of tables but their heads, each with its first line."""
    parts: list[str] = []
    first = 0
    lines = [*text.split("\n"), ""]
    for number, line in enumerate(lines, 1):
        if parts and (re.match(rf"\s*{MARK}|\||#", line) or not line.strip()):
            yield first, " ".join(parts)
            parts = []
        if line.strip() and not line.startswith("|-") and not (line[0] == "|" and lines[number].startswith("|-")):
            first = first if parts else number
            parts.append(line.strip())


def without_proof(claim: Claim, told: str | None = None) -> list[str]:
    """Return what a claim says that is on no page that it names, or not in the text that it is compared with."""
    texts = [_told(source, claim.words) for source in claim.sources] if told is None else [told]
    if not all([texts, *texts]):
        return ["no page"]
    told = " ".join(texts)
    numbers = [float(one.replace(",", "")) for one in re.findall(r"\d[\d,]*(?:\.\d+)?", told)]
    missing = [shown for shown, unit in QUANTITY.findall(claim.words) if not _is_among(shown, unit, numbers)]
    return missing + [word for word in FINDING.findall(claim.words.lower()) if word not in told.lower()]


def _is_among(shown: str, unit: str, numbers: list[float]) -> bool:
    """Return whether one of the numbers is the shown one, rounded as that is, in its unit or as it is."""
    digits = shown.replace(",", "")
    zeros = len(digits) - len(digits.rstrip("0")) if "." not in digits else 0
    step = 10.0 ** max(0, min(zeros, len(digits) - 2)) if "." not in digits else 10.0 ** -len(digits.partition(".")[2])
    near = [abs(number * scale - float(digits)) for number in numbers for scale in {1.0, SCALES.get(unit, 1.0)}]
    return any(each <= step / 2 * 1.0001 for each in near)


def _told(source: str, words: str) -> str:
    """Return the text that a link names, with cores and load of a machine only if the claim is about them."""
    matched = SOURCE.match(source)
    assert matched
    name, part, named = matched.groups()
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    if name.endswith(".jsonl"):
        rows = [line for line in text.splitlines() if json.loads(line)["name"] == part]
        unsaid = "|".join(key for key in ("cores", "load") if key.removesuffix("s") not in words)
        return re.sub(rf'"(?:{unsaid})": [\d.]+', "", rows[-1]) if rows else ""
    if part:
        titles = re.split(r"^#+ (.+)$", text, flags=re.MULTILINE)
        slugs = [re.sub(r"[^\w -]", "", title).strip().lower().replace(" ", "-") for title in titles[1::2]]
        text = titles[2 + 2 * slugs.index(part)] if part in slugs else ""
    if not named:
        return re.sub(r"^\|.*", "", text, flags=re.MULTILINE)
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
    columns = [
        row[head.index(named)]
        for start, head in enumerate(cells)
        if named in head and "---" in "".join(cells[start + 1])
        for row in itertools.takewhile(lambda row, head=head: len(row) == len(head), cells[start + 2 :])
    ]
    return "\n".join(columns or [line for line in text.splitlines() if named in line])

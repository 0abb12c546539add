"""One pass of the rules, or its preview, as sentences and lines."""

from __future__ import annotations

from collections.abc import Iterator

from awmweb.retention.passes import RulePass
from awmweb.retention.rules import Kind
from people.text.in_words import count

NOUNS = {Kind.STEPS: "episode", Kind.BRANCHES: "branch", Kind.GENERATIONS: "ask", Kind.EXPORTS: "export"}


def lines_of(report: RulePass, *, done: bool) -> Iterator[str]:
    """Yield what a rule erased, or would erase, then a line for each reason to leave something out."""
    verb = "erased" if done else "would erase"
    rule = f"{report.project.slug}: {report.rule.kind} after {count(report.rule.days, 'day')}"
    yield f"{rule}: {verb} {erased_of(report)}"
    for reason, number in sorted(report.left.items()):
        yield f"  left out {number:,}: {reason}"


def erased_of(report: RulePass) -> str:
    """Return the count of what a rule erases, with the steps where these go."""
    noun = NOUNS[Kind(report.rule.kind)]
    said = f"{report.erased:,} branches" if noun == "branch" and report.erased != 1 else count(report.erased, noun)
    with_steps = report.rule.kind in (Kind.STEPS, Kind.BRANCHES) and report.erased
    return f"{said} with {count(report.steps, 'step')}" if with_steps else said

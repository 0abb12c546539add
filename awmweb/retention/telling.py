"""One pass of the rules, or its preview, as sentences and lines."""

from __future__ import annotations

from collections.abc import Iterator

from awmweb.retention.kinds import KINDS
from awmweb.retention.rule_pass import RulePass
from people.text.in_words import count


def lines_of(report: RulePass, *, done: bool) -> Iterator[str]:
    """Yield what a rule erased, or would erase, then a line for each reason to leave something out."""
    verb = "erased" if done else "would erase"
    rule = f"{report.project.slug}: {report.rule.kind} after {count(report.rule.days, 'day')}"
    yield f"{rule}: {verb} {KINDS[report.rule.kind].counted(report)}"
    for reason, number in sorted(report.left.items()):
        yield f"  left out {number:,}: {reason}"

"""How many people an approval needs: what a project's rules and its agent want. Pure.

Each line of the setting is a rule: `*refund* => 2`, or `high-risk => 2 admin` for all tools of high risk and people of
one role. `after 50% => admin` names the role or the skill whose people an ask goes to that lacks some of its people.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any, Protocol, get_args

from awmclient.nouns.typed import QUORUM_LEAST, QUORUM_MOST, DecidingRole
from experts.rules.decisions import Misfit
from experts.rules.risk import PATTERN_CHARS, is_high

HIGH_RISK = "high-risk"
RULES_MAX, GROUP_CHARS = 20, 100
ROLES: tuple[str, ...] = get_args(DecidingRole)
"""Strictest first: of two rules with a role, the stricter one counts."""
_RULE = re.compile(rf"(?P<tools>\S{{1,{PATTERN_CHARS}}}) => (?P<of>\d)(?: (?P<role>{'|'.join(ROLES)}))?")
_LATE = re.compile(rf"after (?P<percent>\d{{1,2}})% => (?P<group>\S.{{0,{GROUP_CHARS - 1}}})")


@dataclass(frozen=True)
class QuorumRule:
    """Calls of these tools need this number of people, perhaps of one role."""

    tools: str
    of: int
    role: str = ""

    def concerns(self, tool: str, high_risk: str) -> bool:
        if self.tools == HIGH_RISK:
            return is_high(high_risk, tool)
        return fnmatchcase(tool.casefold(), self.tools.casefold())


class TimedAsk(Protocol):
    """What has a beginning and a deadline."""

    created_at: datetime
    deadline_at: datetime


@dataclass(frozen=True)
class LateRule:
    """From this share of an ask's time on, what lacks people goes to those of this role or with this skill."""

    share: float
    group: str

    def is_late(self, ask: TimedAsk, now: datetime) -> bool:
        """Return whether this share of an ask's time has passed, and its deadline has not."""
        return ask.created_at + (ask.deadline_at - ask.created_at) * self.share <= now < ask.deadline_at


def problem_of(setting: str) -> str:
    """Return what is wrong with a setting; empty if it can be used."""
    lines = _lines(setting)
    if len(lines) > RULES_MAX:
        return f"Enter at most {RULES_MAX} rules, one a line."
    for number, line in enumerate(lines, 1):
        rule, late = _RULE.fullmatch(line), _LATE.fullmatch(line)
        people = rule is not None and QUORUM_LEAST <= int(rule["of"]) <= QUORUM_MOST
        if not people and not (late is not None and int(late["percent"])):
            return (
                f"Line {number}: enter a pattern of a tool, => and {QUORUM_LEAST} to {QUORUM_MOST} people, such as "
                "*refund* => 2 admin, or after 50% => a role or skill."
            )
    return ""


def rules_of(setting: str) -> list[QuorumRule]:
    rows = (match for line in _lines(setting) if (match := _RULE.fullmatch(line)))
    return [QuorumRule(row["tools"], int(row["of"]), row["role"] or "") for row in rows]


def late_rule_of(setting: str) -> LateRule | None:
    """Return where asks go that lack people, by the first line that says it."""
    rows = (match for line in _lines(setting) if (match := _LATE.fullmatch(line)))
    return next((LateRule(int(row["percent"]) / 100, row["group"]) for row in rows), None)


def needed(setting: str, high_risk: str, tools: Iterable[str], asked: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the quorum of an approval of these tools; empty if it needs one person.

    An agent raises what the rules want and never lowers it; where a rule names a role, that one counts.

    >>> needed("*refund* => 2 admin", "", ["create_refund"], {"of": 3, "role": "expert"})
    {'of': 3, 'role': 'admin'}
    >>> needed("high-risk => 2", "drop*", ["list_orders"], None)
    {}
    """
    names = list(tools)
    rules = [one for one in rules_of(setting) if any(one.concerns(name, high_risk) for name in names)]
    people = max([one.of for one in rules] + ([asked["of"]] if asked else []), default=0)
    roles = sorted({one.role for one in rules if one.role}, key=ROLES.index) or [(asked or {}).get("role") or ""]
    return {"of": people, **({"role": roles[0]} if roles[0] else {})} if people else {}


def has_role(role: str | None, least: str) -> bool:
    """Return whether a role is the one that an approval needs, or a stricter one."""
    return not least or role in ROLES[: ROLES.index(least) + 1]


def verdict_of(decision: Mapping[str, Any] | None) -> str:
    """Return what a decision on all calls of an approval is: reject, edit, or approve."""
    verdicts = {one["verdict"] for one in (decision or {}).get("calls") or []}
    return next((one for one in ("reject", "edit") if one in verdicts), "approve")


def refuse_mixed(of: int, decision: Mapping[str, Any] | None) -> None:
    """Raise if a decision that several people share rejects some calls and lets others run."""
    verdicts = {one["verdict"] for one in (decision or {}).get("calls") or []}
    if "reject" in verdicts and len(verdicts) > 1:
        raise Misfit(
            f"decision.calls: this approval needs {of} people, and a rejection ends it. Reject every call, or none of "
            "them."
        )


def digest_of_decision(decision: Mapping[str, Any] | None) -> str:
    """Return what is equal for decisions that let the same calls run with the same arguments."""
    calls = [[one["id"], one.get("arguments") or {}] for one in (decision or {}).get("calls") or []]
    # as a text: in Python 1 equals true
    return hashlib.sha256(json.dumps(calls, sort_keys=True).encode()).hexdigest()


def people_in_words(of: int, role: str) -> str:
    """Return "2 people", "2 people with the role admin", or "2 people with the role expert or above"."""
    above = " or above" if role not in ("", ROLES[0]) else ""
    return f"{of} people{f' with the role {role}{above}' if role else ''}"


def _lines(setting: str) -> list[str]:
    return [" ".join(line.split()) for line in setting.splitlines() if line.strip()]

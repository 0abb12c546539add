"""Names and shapes on the environment's wire: tools, observations, state, build reports, and reserved names.

Plain classes without openenv, so that Django processes can import them. `client` builds them from frames; `server` and
`packs` share the constants. The openenv subclasses of the same shapes are in `awmenv.server`.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

CONTROL_TOOLS = frozenset({"verify", "done", "__list_scenarios__"})
RESERVED_TOOLS = CONTROL_TOOLS | {"ask_expert", "reset", "step", "state", "close"}

OBSERVATION_FIELDS = (
    "reward_type", "scenario", "task", "task_idx", "has_verifier", "num_tools", "tool_name", "tool_result", "error",
    "warning", "verify_result", "steps_taken", "scenarios", "total", "trajectory_path", "session_dir",
)  # fmt: skip

_NOT_NAME = re.compile(r"[^a-z0-9]+")


MAX_TASKS = 1000
"""The most tasks of a scenario."""
MAX_NOTES, MAX_NOTE = 50, 300


def kind_of(message: Mapping[str, Any]) -> str:
    """Return what a message of `/ws` asks for, in a word of the protocol: never the name of a scenario's tool."""
    kind, data = str(message.get("type")), message.get("data")
    if kind != "step" or not isinstance(data, dict):
        return kind
    name = data.get("tool_name")
    if isinstance(name, str) and name in CONTROL_TOOLS:
        return name.strip("_")
    return "list_tools" if data.get("type") == "list_tools" else "call_tool"


def one_line(text: str, most: int = 120) -> str:
    """Return untrusted text as one line that a terminal, a log or a page can show: no control characters."""
    flat = "".join(char if char.isprintable() else "\ufffd" for char in " ".join(text[: 4 * most].split()))
    return flat if len(flat) <= most and len(text) <= 4 * most else flat[: most - 3] + "..."


@dataclass
class BuildReport:
    """The result of building a scenario's database: statements run, repaired and failed, with the first of each.

    Failed statements are left out. The rest is *partial*, and playable if it has `tables`.
    """

    statements: int = 0
    repairs: int = 0
    failures: int = 0
    tables: int = 0
    repaired: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.failures

    def is_playable(self, partial: bool) -> bool:
        return self.ok or (partial and self.tables > 0)

    @property
    def summary(self) -> str:
        """The failures in one line; empty where there are none."""
        if self.ok:
            return ""
        return f"{self.failures} of {self.statements} SQL statements fail, first {self.failed[0]}"

    def repair(self, note: str) -> None:
        self.repairs += 1
        self.repaired += [one_line(note, MAX_NOTE)] if len(self.repaired) < MAX_NOTES else []

    def fail(self, note: str) -> None:
        self.failures += 1
        self.failed += [one_line(note, MAX_NOTE)] if len(self.failed) < MAX_NOTES else []

    def wire(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_wire(cls, data: Any) -> Self | None:
        """Read a report from a sandboxed child or a file; None if it is invalid. Its size is bounded."""
        if not isinstance(data, Mapping):
            return None
        statements, repairs, failures, tables = (_count(data.get(name)) for name in _COUNTS)
        repaired, failed = (_notes(data.get(name)) for name in ("repaired", "failed"))
        if statements is None or repairs is None or failures is None or tables is None:
            return None
        if repaired is None or failed is None or bool(failed) != bool(failures):
            return None
        return cls(statements, repairs, failures, tables, repaired, failed)


_COUNTS = ("statements", "repairs", "failures", "tables")


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 1 << 31 else None


def _notes(value: Any) -> list[str] | None:
    if not isinstance(value, list) or not all(isinstance(note, str) for note in value):
        return None
    return [one_line(note, MAX_NOTE) for note in value[:MAX_NOTES]]


def normalise_name(name: str) -> str:
    """Return the key that the rows of one scenario share.

    `Workflow Automation 91` is `workflow_automation_91`.
    """
    return _NOT_NAME.sub("_", name.lower()).strip("_")


@dataclass(frozen=True)
class Tool:
    """One tool as the agent sees it."""

    name: str
    description: str
    input_schema: dict[str, Any]

    @classmethod
    def from_wire(cls, data: dict[str, Any]) -> Self:
        schema = data.get("input_schema", data.get("inputSchema"))
        return cls(
            str(data.get("name", "")), str(data.get("description") or ""), schema if isinstance(schema, dict) else {}
        )


@dataclass(frozen=True)
class Observation:
    """The result of one action. Fields that do not apply are None."""

    reward: float | None = None
    done: bool = False
    reward_type: str | None = None
    scenario: str | None = None
    task: str | None = None
    task_idx: int | None = None
    has_verifier: dict[str, bool] | None = None
    num_tools: int | None = None
    tool_name: str | None = None
    tool_result: Any = None
    error: str | None = None
    warning: str | None = None
    verify_result: dict[str, Any] | None = None
    steps_taken: int | None = None
    scenarios: list[dict[str, Any]] | None = None
    total: int | None = None
    trajectory_path: str | None = None
    session_dir: str | None = None
    tools: list[Tool] | None = None
    first_seen: dict[str, Any] | None = None
    metadata: dict[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """True if nothing went wrong with the call itself; says nothing about the task."""
        return self.error is None

    @property
    def state_diff(self) -> dict[str, Any] | None:
        """Rows added, changed and removed by this call, by table, if the session asked for it."""
        diff = self.metadata.get("state_diff")
        return diff if isinstance(diff, dict) else None

    @classmethod
    def from_wire(cls, data: dict[str, Any]) -> Self:
        """Read the `data` of an observation frame. Unknown fields are dropped, so that newer servers can be read."""
        body = data.get("observation")
        body = body if isinstance(body, dict) else {}
        reward = data.get("reward")
        tools = body.get("tools")
        metadata = body.get("metadata") or data.get("metadata") or {}
        return cls(
            reward=float(reward) if isinstance(reward, int | float) else None,
            done=data.get("done") is True,
            tools=[Tool.from_wire(item) for item in tools if isinstance(item, dict)]
            if isinstance(tools, list)
            else None,
            metadata=metadata if isinstance(metadata, dict) else {},
            **{name: body.get(name) for name in OBSERVATION_FIELDS},
        )


@dataclass(frozen=True)
class SessionState:
    """The server's own count of an episode."""

    episode_id: str | None
    step_count: int

    @classmethod
    def from_wire(cls, data: dict[str, Any]) -> Self:
        count = data.get("step_count")
        return cls(data.get("episode_id"), count if isinstance(count, int) else 0)

"""Sessions of an environment server of awmweb, as OpenEnv's harness takes them.

Leaves the expert to `openenv`.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import httpx

from awmclient.adapters.missing import missing
from awmclient.record.observations import TRACEBACK, signals_of
from awmclient.words.conversation import as_text
from awmclient.words.toolcalls import is_reserved, unknown_tool

try:
    from openenv.core.env_server.mcp_types import Tool
    from openenv.core.generic_client import GenericEnvClient
    from openenv.core.harness import (
        Message,
        ResourceSession,
        ResourceSessionFactory,
        ToolResult,
        VerifyResult,
    )
except ImportError as error:
    raise missing("OpenEnv", "openenv", error) from error

NO_VERIFIER, JUDGE_ERROR = "no_verifier", "judge_error"


class AwmSession(ResourceSession):
    """One task on an environment server of awmweb: the agent's tools, and the verifier for `verify`.

    Control tools are out of reach: the server knows them only with a key that no one else has.
    """

    def __init__(
        self,
        url: str,
        scenario: str,
        task_idx: int,
        *,
        seed: int | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = 300.0,
    ) -> None:
        self._client = GenericEnvClient(url, headers=dict(headers or {}), message_timeout_s=timeout_s).sync()
        self._key = secrets.token_hex(16)
        self._found: VerifyResult | None = None
        self.signals: dict[str, Any] = {}
        """What the server said beside the last result, for the record only: rewards, and which rows changed."""
        try:
            self._begin(scenario, task_idx, seed)
        except BaseException:
            self._client.close()
            raise

    def _begin(self, scenario: str, task_idx: int, seed: int | None) -> None:
        chosen = {"scenario": scenario, "task_idx": task_idx, **({"seed": seed} if seed is not None else {})}
        seen = self._client.reset(**chosen, control_key=self._key, state_diff=True).observation
        if seen.get("reward_type") == "reset_error" or not seen.get("task"):
            raise ValueError(f"{scenario}/{task_idx}: {seen.get('error') or 'there is no such task'}")
        self.task = str(seen["task"])
        version = (seen.get("metadata") or {}).get("scenario_digest")
        self.about = {**chosen, "environment": "awm", **({"scenario_digest": version} if version else {})}
        listed = self._client.step({"type": "list_tools"}).observation.get("tools") or []
        self._tools = [
            Tool(
                name=tool["name"],
                description=tool.get("description") or "",
                input_schema=tool.get("input_schema") or {},
            )
            for tool in listed
            if not is_reserved(tool["name"])
        ]

    def initial_messages(self) -> list[Message]:
        return [{"role": "user", "content": self.task}]

    def list_tools(self) -> list[Tool]:
        return list(self._tools)

    def call_tool(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        # refused here in any spelling, and by the server without the key
        if is_reserved(name):
            self.signals = {"reward_type": "tool_not_found"}
            return refused(unknown_tool(name))
        seen = self._called(name, arguments)
        if seen.error is not None:
            return refused(seen.error)
        return ToolResult(data=as_text(seen.tool_result), done=seen.done)

    def _called(self, name: str, arguments: Mapping[str, Any]) -> SimpleNamespace:
        request = {"type": "call_tool", "tool_name": name, "arguments": dict(arguments)}
        result = self._client.step(request)
        seen, about = result.observation, result.observation.get("metadata") or {}
        error = seen.get("error")
        observation = SimpleNamespace(
            reward=result.reward,
            done=bool(result.done),
            reward_type=seen.get("reward_type"),
            error=str(error) if error is not None else None,
            tool_result=seen.get("tool_result"),
            state_diff=about.get("state_diff"),
            whole=seen,
        )
        trace = str(about.get("detail") or "")[-TRACEBACK:]
        kind = {"reward_type": observation.reward_type} if observation.reward_type else {}
        self.signals = {**kind, **signals_of(observation), **({"meta": {"traceback": trace}} if trace else {})}
        return observation

    def verify(self, transcript: list[Message], final_state: Any | None = None) -> VerifyResult:
        """Run the task's verifier, once. `env_reward` is None if there is none, or if it failed."""
        if self._found is None:
            arguments = {"control_key": self._key, "final_answer": last_words(transcript) or ""}
            seen = self._called("verify", arguments)
            if seen.reward_type == NO_VERIFIER:
                seen = self._called("verify", {**arguments, "verifier_mode": "sql"})
            is_judged = seen.reward is not None and seen.reward_type not in (NO_VERIFIER, JUDGE_ERROR)
            statement = (seen.whole.get("metadata") or {}).get("attestation")
            self._found = VerifyResult(
                env_reward=float(seen.reward) if is_judged else None,
                done=True,
                metrics={"reward_type": seen.reward_type},
                artifacts={
                    "verify_result": seen.whole.get("verify_result"),
                    **({"attestation": statement} if statement else {}),
                },
            )
        return self._found

    def close(self) -> None:
        self._client.close()


class AwmSessions(ResourceSessionFactory[AwmSession]):
    """Sessions of an environment server of awmweb, one a task.

    A task is `"helpdesk_1/0"`, a mapping with `scenario` and `task_idx`, or a prompt with the task's text. Without one,
    sessions take the tasks in their order, by the number at the end of `episode_id` if there is one.
    """

    def __init__(
        self,
        url: str,
        *,
        scenario: str = "",
        headers: Mapping[str, str] | None = None,
        timeout_s: float = 300.0,
    ) -> None:
        self.url, self._scenario = url.rstrip("/"), scenario
        self._headers, self._timeout_s = dict(headers or {}), timeout_s
        self._listed: list[dict[str, Any]] | None = None
        self._next = 0
        self._lock = threading.Lock()

    def tasks(self) -> list[dict[str, Any]]:
        """Return the tasks of the server, or of the scenario: `scenario`, `task_idx`, `task`."""
        with self._lock:
            if self._listed is None:
                self._listed = list(self._fetched())
            return list(self._listed)

    def _fetched(self) -> Iterator[dict[str, Any]]:
        place = f"{self.url}/awmenv/tasks"
        answer = httpx.post(place, json={"split": "all"}, headers=self._headers, timeout=self._timeout_s)
        for task in answer.raise_for_status().json()["tasks"]:
            if not self._scenario or task["scenario"] == self._scenario:
                yield {name: task.get(name) for name in ("scenario", "task_idx", "task")}

    def create(self, task: Any = None, seed: int | None = None, episode_id: str | None = None) -> AwmSession:
        scenario, task_idx = self._chosen(task, episode_id)
        return AwmSession(self.url, scenario, task_idx, seed=seed, headers=self._headers, timeout_s=self._timeout_s)

    def _chosen(self, task: Any, episode_id: str | None) -> tuple[str, int]:
        if isinstance(task, Mapping):
            return str(task.get("scenario") or self._scenario), int(task["task_idx"])
        if isinstance(task, list):  # a prompt of messages
            task = heard(task)[1][-1]
        listed = self.tasks()
        if task is None:
            if not listed:
                raise ValueError(f"{self.url} has no task{' of ' + self._scenario if self._scenario else ''}.")
            row = listed[self._place(episode_id) % len(listed)]
            return str(row["scenario"]), int(row["task_idx"])
        named = {f"{one['scenario']}/{one['task_idx']}": one for one in listed}
        chosen_task = named.get(str(task)) or next((one for one in listed if one["task"] == task), None)
        if chosen_task is None:
            raise ValueError(f"{self.url} has no task {str(task)[:200]!r}.")
        return str(chosen_task["scenario"]), int(chosen_task["task_idx"])

    def _place(self, episode_id: str | None) -> int:
        """Return the number of an episode: a collection that goes on takes the tasks it would have taken."""
        number = (episode_id or "").rpartition("-")[2]
        if number.isdecimal():
            return int(number)
        with self._lock:
            self._next += 1
            return self._next - 1


def heard(messages: Sequence[Mapping[str, Any]]) -> tuple[str, list[str]]:
    """Return the system prompt and what users said."""
    pairs = [(str(one.get("role")), content_text(one.get("content"))) for one in messages]
    return "\n\n".join(text for role, text in pairs if role == "system"), [
        text for role, text in pairs if role == "user"
    ]


def content_text(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
    return str(content or "")


def last_words(transcript: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the agent's answer: its last message, if it makes no call."""
    replies = [one for one in transcript if one.get("role") == "assistant"]
    return content_text(replies[-1].get("content")) if replies and not replies[-1].get("tool_calls") else None


def refused(words: str) -> ToolResult:
    # harnesses show the model the data alone
    return ToolResult(data=f"Error: {words}", error=words)

"""Our subclasses of openenv's observation and state: the fields that AWM clients know, absent where they do not apply.

Also how they become frames. Everything without openenv uses `awmenv.models`.
"""

from typing import Any

import orjson
from openenv.core.env_server.types import Observation, State
from pydantic import ConfigDict, Field, SkipValidation


class WorldObservation(Observation):
    """An observation without null fields on the wire: upstream's client distinguishes results by their keys."""

    model_config = ConfigDict(extra="forbid", validate_assignment=False)

    reward_type: str | None = Field(default=None, description="How this answer is classified")
    scenario: str | None = Field(default=None, description="The scenario's name")
    task: str | None = Field(default=None, description="The task's text")
    task_idx: int | None = Field(default=None, description="The task's number in its scenario")
    has_verifier: dict[str, bool] | None = Field(default=None, description="Which forms of verifier the task has")
    num_tools: int | None = Field(default=None, description="How many tools the scenario offers")
    tool_name: str | None = Field(default=None, description="The tool that was called")
    tool_result: Any = Field(default=None, description="The tool's answer, a JSON text")
    error: str | None = Field(default=None, description="What went wrong, for the agent to read")
    warning: str | None = Field(default=None, description="What is unusual, though it worked")
    verify_result: dict[str, Any] | None = Field(default=None, description="What the verifier found")
    steps_taken: int | None = Field(default=None, description="Steps of this episode so far")
    scenarios: list[dict[str, Any]] | None = Field(default=None, description="All scenarios")
    total: int | None = Field(default=None, description="How many scenarios there are")
    trajectory_path: str | None = Field(default=None, description="Kept for upstream's clients; never filled")
    session_dir: str | None = Field(default=None, description="Kept for upstream's clients; never filled")
    # A list that is JSON already (`hosts.ToolList`); so may be `tool_result`.
    tools: SkipValidation[list[dict[str, Any]] | None] = Field(
        default=None, description="The tools, in answer to list_tools"
    )


class WorldState(State):
    """The episode's id and count of steps."""


def observation_data(observation: Observation) -> dict[str, Any]:
    """Return the `data` of an observation frame.

    It has the metadata twice, where openenv's older and newer clients look for it.
    """
    fields = {name: getattr(observation, name) for name in type(observation).model_fields}
    reward, done, metadata = fields.pop("reward"), fields.pop("done"), fields.pop("metadata")
    sent = {name: value for name, value in fields.items() if value is not None}
    data: dict[str, Any] = {"observation": sent, "reward": reward, "done": done}
    written = orjson.Fragment(orjson.dumps(metadata))
    sent["metadata"] = written
    if metadata:
        data["metadata"] = written
    return data


def frame(kind: str, data: Any) -> str:
    """Return a message of /ws."""
    return orjson.dumps({"type": kind, "data": data}).decode()


def error_frame(message: str, code: str, **more: Any) -> str:
    return frame("error", {"message": message, "code": code, **more})

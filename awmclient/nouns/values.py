"""Values of fields that a step, an ask or an episode names: states, tiers, sources, and limits in bytes and seconds."""

from __future__ import annotations

from typing import Literal

SCHEMA_VERSION = "awmweb.trajectory/1"
ASK_TOOL = "ask_expert"
NOT_COUNTED = frozenset({"judge_error", "reset_error", "server_error", "verifier_error", "content_filter"})
"""Reward types that say something about verifier or server and nothing about the agent: no rate counts them."""
CONTROL_TOOLS = frozenset({"verify", "done", "__list_scenarios__", "reset", "step", "state", "close"})
"""Names of the control channel; an agent that calls one gets the error of an unknown tool."""

MAX_DEADLINE_S = 2_592_000
"""30 days, the longest wait of an ask; its episode is parked meanwhile."""
MAX_BATCH_BYTES = 2 * 1024 * 1024
MAX_STEP_BYTES = 8 * 1024 * 1024
MAX_WHOLE_BYTES = 8 * 1024 * 1024
MAX_WHOLE_EPISODES = 64
CUT_ABOVE_BYTES = 32 * 1024
"""A larger step goes through sockets in its cut form, marked by a field `cut` (`Cut`); over HTTP it comes whole."""

Privilege = Literal["blind", "sees_verifier"]
ExpertMode = Literal["off", "plain", "informed"]
EpisodeState = Literal["queued", "running", "waiting", "parked", "finished", "failed", "cancelled"]
AT_WORK_STATES: tuple[EpisodeState, ...] = ("running", "waiting")
"""A loop runs the episode and must send heartbeats."""
LIVE_STATES: tuple[EpisodeState, ...] = ("queued", *AT_WORK_STATES, "parked")
"""The episode has not ended."""
StopReason = Literal["done", "max_steps", "gave_up", "timeout", "error", "cut_off", "empty"]
"""`cut_off` and `empty`: the model's last two turns were cut at a limit, or blank."""
ToolProtocol = Literal["native", "text"]
"""How calls arrived: as the server's `tool_calls`, or in the words of the model."""
Fault = Literal["policy", "model", "environment", "expert", "dashboard", "worker"]
OwnFault = Literal["environment", "policy", "model", "expert"]
"""Faults that a loop can report at its end; the dashboard detects the others."""
AskStatus = Literal["open", "answered", "fell_back", "cancelled"]
Tier = Literal["cache", "llm", "people", "senior"]
AdviceSource = Literal["human", "llm", "cache", "fallback"]

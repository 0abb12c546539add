"""awmweb's own record (`raw`), and its SFT rows. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

from awmclient.nouns.kinds import is_ask, is_briefing, is_verification
from awmclient.schema import ASK_TOOL, Fault, StopReason, Trajectory
from awmclient.words.conversation import BRIEFED
from imports.readers.found import STEPS_MAX, TrajectoryDraft, UnreadableRow, checked_tools, tools_of, wants
from imports.readers.messages import add_messages

RECORD, SFT = re.compile(r"awmweb\.trajectory/(\d+)"), re.compile(r"awmweb\.sft/(\d+)")
SFT_FIELDS = frozenset(
    {
        *("schema_version", "episode_id", "messages", "tools", "loss", "scenario", "task_idx", "arm", "split", "seed"),
        *("training_step", "checkpoint", "policy_name", "policy_kind", "model", "condition", "reward", "reward_type"),
        "scenario_digest",
        *("prompt_sha256", "content_sha256", "tool_protocol", "expert_calls"),
        *("root_id", "privilege", "acted_by", "images"),
    }
)
"""Fields of an SFT row that are read; those in the last line follow from its messages."""
IMAGE, IMAGE_FILE = {"type": "image"}, re.compile(r"images/([0-9a-f]{64})\.\w+")
ENDS: dict[str, tuple[str, ...]] = {
    "state": ("finished", "failed", "cancelled"),
    "fault": get_args(Fault),
    "stop_reason": get_args(StopReason),
}
"""What awmweb says of an episode's end, in the logs of other formats that it writes."""
SOURCES = {"verified": "verifier"}
DROPPED = "verification steps"


def knows_record(row: Mapping[str, Any]) -> bool:
    return RECORD.fullmatch(str(row.get("schema_version"))) is not None


def read_record(row: Mapping[str, Any], draft: TrajectoryDraft) -> Trajectory:
    """Return the original record without the steps of the verifier.

    Also without the IDs of asks, of their files and of a briefing's sources, which name rows of the instance that
    exported it.
    """
    _newest(RECORD, row, 1)
    raw_steps = wants(row, "steps", list, "a list of steps")
    if len(raw_steps) > STEPS_MAX:
        raise UnreadableRow(f"It has more than {STEPS_MAX:,} steps.")
    steps = [_step(step, draft) for step in raw_steps if not _is_verification(step, draft)]
    if [step.get("seq") for step in steps] != list(range(1, len(steps) + 1)):
        raise UnreadableRow("Its steps are not numbered 1, 2, 3 without gaps.")
    about = {name: value for name, value in row.items() if value is not None and name not in ("steps", "run")}
    if "tools" in about:
        about["tools"] = checked_tools(about["tools"])
    draft.lose("run", int(bool(row.get("run"))))
    outcome = row.get("outcome")
    if isinstance(outcome, Mapping):
        about["outcome"] = {**outcome, "source": SOURCES.get(str(outcome.get("source")), outcome.get("source"))}
    return Trajectory.model_validate({**about, "steps": steps})


def _is_verification(step: Any, draft: TrajectoryDraft) -> bool:
    is_one = isinstance(step, Mapping) and is_verification(step)
    draft.lose(DROPPED, int(is_one))
    return is_one


def _step(step: Any, draft: TrajectoryDraft) -> dict[str, Any]:
    if not isinstance(step, Mapping):
        raise UnreadableRow("A step is not an object.")
    kept = {**step, **{name: draft.with_parts(step[name]) for name in ("result", "observation") if name in step}}
    if isinstance(parts := kept.get("pictures"), list):
        there = [part for part in parts if not isinstance(part, Mapping) or draft.pictures.named(str(part.get("blob")))]
        draft.lose("pictures that the project does not have", len(parts) - len(there))
        kept = {name: value for name, value in kept.items() if name != "pictures"}
        kept |= {"pictures": there} if there else {}
    if is_briefing(kept) and kept.pop("sources", None) is not None:
        draft.lose("sources of a briefing")
    if is_ask(kept):
        draft.lose("ids of asks", int(kept.pop("ask", None) is not None))
        files = [kept.pop("files", None)]
        if isinstance(advice := kept.get("advice"), Mapping):
            files.append(advice.get("files"))
            kept["advice"] = {name: value for name, value in advice.items() if name != "files"}
        draft.lose("files of asks", sum(map(bool, files)))
    return kept


def ended(fields: Mapping[str, Any], draft: TrajectoryDraft) -> dict[str, str | None]:
    """Return how an episode ended, by what awmweb wrote beside a row of another format."""
    words = {name: fields[name] or None for name in ENDS if name in fields}
    unknown = [name for name, word in words.items() if word is not None and word not in ENDS[name]]
    for name in unknown:
        draft.lose(name)
        del words[name]
    return words


def knows_sft(row: Mapping[str, Any]) -> bool:
    return SFT.fullmatch(str(row.get("schema_version"))) is not None and "messages" in row


def read_sft(row: Mapping[str, Any], draft: TrajectoryDraft) -> Trajectory:
    _newest(SFT, row, 7)
    messages = wants(row, "messages", list, "a list of messages")
    add_messages(draft, [*_with_images(messages, row.get("images"), draft)], own_errors=True)
    asked = sum(step.get("name") == ASK_TOOL for step in draft.steps)
    draft.lose("who answered an ask (kept as a tool call)", asked)
    draft.lose("who wrote a briefing (kept as a message)", sum(_is_briefing(step) for step in draft.steps))
    draft.lose("loss mask", int("loss" in row))
    draft.lose_fields(row, SFT_FIELDS)
    draft.lose("reward without a reward type", int(row.get("reward") is not None and not row.get("reward_type")))
    kind, model = row.get("reward_type"), draft.line(row.get("model"), "model")
    policy = {"name": draft.line(row.get("policy_name"), "policy"), "kind": row.get("policy_kind"), "model": model}
    outcome = {"reward_type": kind, "reward": row.get("reward"), "source": "reported"} if kind else None
    tools = [tool for tool in tools_of(row.get("tools"), draft) if _name(tool) != ASK_TOOL]
    return draft.trajectory(
        episode=draft.line(row.get("episode_id"), "episode id"),
        environment="awm",
        task=draft.task(draft.first_user_text()),
        tools=tools,
        scenario=draft.line(row.get("scenario"), "scenario"),
        task_idx=draft.whole(row.get("task_idx"), "task index"),
        scenario_digest=draft.line(row.get("scenario_digest"), "scenario digest"),
        arm=draft.line(row.get("arm"), "arm"),
        split=draft.line(row.get("split"), "split"),
        seed=row.get("seed"),
        training_step=draft.whole(row.get("training_step"), "training step"),
        checkpoint=draft.line(row.get("checkpoint"), "checkpoint"),
        policy={name: value for name, value in policy.items() if value},
        # In these conditions no expert could be asked; a briefing is written before the episode.
        expert="off" if row.get("condition") in ("baseline", "briefed") else "plain",
        stop_reason="done",
        final_answer=draft.last_answer(),
        outcome=outcome,
    )


def _with_images(messages: Sequence[Any], images: Any, draft: TrajectoryDraft) -> Iterator[Any]:
    """Yield messages whose parts name their pictures, which a row has in `images` in the order of the parts."""
    left = iter(images if isinstance(images, list) else [])
    for message in messages:
        content = message.get("content") if isinstance(message, Mapping) else None
        if isinstance(content, list):
            yield {**message, "content": [_of_image(next(left, None)) if part == IMAGE else part for part in content]}
        else:
            yield message
    draft.lose("images without a part", sum(1 for _ in left))


def _of_image(name: Any) -> dict[str, Any]:
    """Return the part of a picture: by the digest that the name of its file has, or with its data."""
    match = IMAGE_FILE.fullmatch(name) if isinstance(name, str) else None
    return {**IMAGE, "blob": match[1]} if match else {**IMAGE, "image": name}


def _is_briefing(step: Mapping[str, Any]) -> bool:
    return step.get("role") == "user" and str(step.get("content")).startswith(BRIEFED)


def _name(tool: Mapping[str, Any]) -> Any:
    inner = tool.get("function")
    return inner.get("name") if isinstance(inner, Mapping) else tool.get("name")


def _newest(pattern: re.Pattern[str], row: Mapping[str, Any], newest: int) -> None:
    match = pattern.fullmatch(str(row.get("schema_version")))
    # Nine digits are more than any version has; converting thousands would take quadratic time.
    if match is None or int(match[1][:9]) > newest:
        raise UnreadableRow(f"Its version {str(row.get('schema_version'))[:40]!r} is newer than this awmweb can read.")

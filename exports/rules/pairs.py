"""Preference pairs: two actions at one state, one of them better. Pure.

Every pair has one action per side after a shared prompt, because a trainer's mask covers everything after the prompt:
results and advice inside a whole episode would be trained on.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from awmclient.nouns.kinds import is_ask
from awmclient.nouns.sources import source_of
from awmclient.schema import ASK_TOOL
from exports.record import Record
from exports.rules.shaping import Shaped, TrainingLine
from runs.statistics import worth
from runs.statistics.forked import ForkArm


@dataclass(frozen=True, slots=True)
class ShapedEpisode:
    """One shaped episode of a task, and whether it was complete. `is_rejected`: complete by the verifier, rejected by
    reviewers."""

    record: Record
    shaped: Shaped
    is_complete: bool
    is_rejected: bool = False


@dataclass(frozen=True, slots=True)
class PreferencePair:
    """A chosen and a rejected action. `source` is `fork`, `correction`, `edit`, `advice`, `compared`, `sibling` or
    `verdict`; `chosen_from` and `rejected_from` name episodes. `measured` are the numbers of the fork, as in
    `PinnedFork`, or those of the episodes that took either action of siblings."""

    source: str
    prompt: tuple[TrainingLine, ...]
    chosen: dict[str, Any]
    rejected: dict[str, Any]
    tools: tuple[dict[str, Any], ...]
    chosen_from: Record
    rejected_from: Record
    seq: int
    measured: Mapping[str, Any] | None = None
    votes: tuple[int, int, int] = (0, 0, 0)
    """Of a pair that people compared: for the chosen side, for the rejected one, and for neither of them."""
    is_contradicted: bool = False
    """Whether the verifier found the rejected side complete and the chosen one not."""

    @property
    def digest(self) -> str:
        parts = [[line.message for line in self.prompt], action_of(self.chosen), action_of(self.rejected)]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    @property
    def reverse(self) -> str:
        """The digest of the pair with its sides exchanged."""
        return replace(self, chosen=self.rejected, rejected=self.chosen).digest

    @property
    def worth(self) -> float | None:
        """What the chosen side is worth more, as its fork measured it beside the others that were asked, or its
        siblings; None for a pair that nothing measured. Snapshots of before have the plain difference."""
        if self.measured is None:
            return None
        measures = self.measured
        if measures.get("worth") is not None:
            return float(measures["worth"] if measures["verdict"] == "better" else -measures["worth"])
        return float(abs(measures["wins"] / measures["tries"] - measures["kept_wins"] / measures["kept_tries"]))


def action_of(message: dict[str, Any]) -> Any:
    """Return the action of an assistant message: its calls if it makes any, else its text. IDs of calls do not
    matter."""
    calls = message.get("tool_calls")
    if not calls:
        return _content(message)
    return [[call["function"]["name"], call["function"]["arguments"]] for call in calls]


def _key(message: dict[str, Any]) -> str:
    """Return one key for messages that a reader cannot distinguish; IDs of calls differ between episodes."""
    return json.dumps([message["role"], _content(message), action_of(message)], sort_keys=True)


def _content(message: dict[str, Any]) -> Any:
    content = message["content"]
    return content.strip() if isinstance(content, str) else content


def _act_key(message: dict[str, Any]) -> str:
    return json.dumps(action_of(message), sort_keys=True)


_Passed = tuple[ShapedEpisode, int]
WORTH = {"worth": "mean", "low": "low", "high": "high", "wrong": "wrong"}


@dataclass
class _Node:
    """A state: all episodes that reached it by the same messages. `act` is the action that led to it, if one did."""

    act: str = ""
    passed: list[_Passed] = field(default_factory=list)
    children: dict[str, _Node] = field(default_factory=dict)


def siblings(episodes: Sequence[ShapedEpisode]) -> Iterator[PreferencePair]:
    """Yield pairs from episodes of one task that are identical until their actions differ.

    The chosen action led to a complete episode at least once, the rejected one never did. Episodes with other tools,
    another prompt or other words of the agent before are never compared.

    """
    root = _Node()
    for episode in episodes:
        node = root.children.setdefault(json.dumps(episode.shaped.tools), _Node())
        for place, line in enumerate(episode.shaped.lines):
            node.passed.append((episode, place))
            is_act = line.said.part == "assistant"
            # a state is what the agent read and wrote; at one state, actions are compared by what they do
            act = _act_key(line.message) if is_act else ""
            node = node.children.setdefault(("act " if is_act else "read ") + _key(line.message), _Node(act))
        node.passed.append((episode, len(episode.shaped.lines)))
    for state in root.children.values():
        yield from _pairs_below(state)


def _pairs_below(root: _Node) -> Iterator[PreferencePair]:
    # a loop: an episode can have more lines than Python's recursion allows
    waiting = [root]
    while waiting:
        # breadth first: `pairs_per_task` cuts pairs at late states
        node = waiting.pop(0)
        acts: dict[str, list[_Passed]] = {}
        for child in node.children.values():
            if child.act:
                acts.setdefault(child.act, []).extend(child.passed)
        good = [passed for passed in acts.values() if _wins(passed)]
        bad = [passed for passed in acts.values() if passed and not _wins(passed)]
        for better in good:
            for other in bad:
                if (pair := _sibling_pair(better, other)) is not None:
                    yield pair
        waiting += node.children.values()


def _wins(passed: Sequence[_Passed]) -> int:
    return sum(episode.is_complete for episode, _ in passed)


def _sibling_pair(good: Sequence[_Passed], bad: Sequence[_Passed]) -> PreferencePair | None:
    """Return the pair of two actions at one state; None if the agent should learn neither (an unreadable call)."""
    # a child is reached after its action, which is the line before
    chosen_by, after = next((episode, place) for episode, place in good if episode.is_complete)
    # Where both sources have a pair, the outcome is used before the verdicts of people.
    rejected_by, other_after = min(bad, key=lambda passed: passed[0].is_rejected)
    chosen, rejected = chosen_by.shaped.lines[after - 1], rejected_by.shaped.lines[other_after - 1]
    # neither an untrained turn nor a call that could not be read is an action to learn from
    if not chosen.loss or rejected.said.refused:
        return None
    prompt = chosen_by.shaped.lines[: after - 1]
    records = (chosen_by.record, rejected_by.record)
    sides = (prompt, chosen.message, rejected.message, chosen_by.shaped.tools, *records, _seq(chosen))
    if rejected_by.is_rejected:
        return PreferencePair("verdict", *sides)
    return PreferencePair("sibling", *sides, _of_siblings(_wins(good), len(good), len(bad)))


def _of_siblings(wins: int, tries: int, others: int) -> dict[str, Any]:
    """Return what episodes of either action measure: no draw chose between these, and the pair was picked for them. So
    its worth is shrunk as that of a fork, by the prior alone."""
    change = worth.worth_alone(ForkArm(tries, tries, wins), ForkArm(others, others, 0))
    counts = {"wins": wins, "tries": tries, "kept_wins": 0, "kept_tries": others}
    numbers = {name: round(getattr(change, part), 4) for name, part in WORTH.items()}
    return {"fork": "", "verdict": "better", "grade": "", "privilege": "", **counts, **numbers}


def from_compared(episodes: Sequence[ShapedEpisode]) -> Iterator[PreferencePair]:
    """Yield pairs of two episodes that people compared, at the state where their actions part.

    More people chose the one side than the other; a tie gives none. Both are the same until then, with the same tools.
    """
    by_id = {one.record.id: one for one in episodes}
    for episode in episodes:
        for other_id, wins, losses, ties in episode.record.compared:
            other = by_id.get(other_id)
            if other is None or wins == losses or episode.shaped.tools != other.shaped.tools:
                continue
            better, worse = (episode, other) if wins > losses else (other, episode)
            votes = (max(wins, losses), min(wins, losses), ties)
            if (pair := _compared_pair(better, worse, votes)) is not None:
                yield pair


def _compared_pair(better: ShapedEpisode, worse: ShapedEpisode, votes: tuple[int, int, int]) -> PreferencePair | None:
    """Return the first actions that differ; None if what was read differs first, or the agent should learn neither."""
    for place, (chosen, rejected) in enumerate(zip(better.shaped.lines, worse.shaped.lines, strict=False)):
        are_acts = chosen.said.part == rejected.said.part == "assistant"
        if _key(chosen.message) != _key(rejected.message):
            is_choice = are_acts and _act_key(chosen.message) != _act_key(rejected.message)
            if not is_choice or not place or not chosen.loss or rejected.said.refused:
                return None  # the same action in other words: what follows would be read after another message
            prompt, records = better.shaped.lines[:place], (better.record, worse.record)
            is_against = worse.is_complete and not better.is_complete
            about: dict[str, Any] = {"votes": votes, "is_contradicted": is_against}
            tools, seq = better.shaped.tools, _seq(chosen)
            return PreferencePair("compared", prompt, chosen.message, rejected.message, tools, *records, seq, **about)
    return None


def from_corrections(episode: ShapedEpisode) -> Iterator[PreferencePair]:
    """Yield pairs of a reviewer's correction and the action that the agent took.

    Only for turns of one action. No environment has executed the correction.

    """
    for correction in episode.record.corrections:
        place = next((at for at, line in enumerate(episode.shaped.lines) if correction["seq"] in line.said.seqs), None)
        # place 0 would have no prompt
        did = episode.shaped.lines[place] if place else None
        if place is None or did is None or not did.loss or len(did.said.calls) > 1:
            continue
        if correction["kind"] == "call" and did.message.get("tool_calls"):
            function = {"name": correction["name"], "arguments": correction["arguments"]}
            # with the ID of the call that it replaces
            chosen = {"role": "assistant", "content": "", "tool_calls": [{**_first_call(did), "function": function}]}
        elif correction["kind"] == "message":
            chosen = {"role": "assistant", "content": correction["text"]}
        else:
            continue
        if _act_key(chosen) != _act_key(did.message):
            record = episode.record
            shaped = episode.shaped
            yield PreferencePair(
                "correction", shaped.lines[:place], chosen, did.message, shaped.tools, record, record, _seq(did)
            )


def from_forks(episode: ShapedEpisode, *, has_advice: bool) -> Iterator[PreferencePair]:
    """Yield pairs of two actions whose branches show a difference: the better one is chosen.

    Only for turns of one action. A question is one where rows have advice.

    """
    record, shaped = episode.record, episode.shaped
    for fork in record.forks:
        place = next((at for at, line in enumerate(shaped.lines) if fork["seq"] in line.said.seqs), None)
        did = shaped.lines[place] if place else None
        if place is None or did is None or len(did.said.calls) != 1 or not did.message.get("tool_calls"):
            continue
        call, question = fork["change"].get("call"), fork["change"].get("ask")
        if call is None and not has_advice:
            continue
        function = (
            {"name": call["name"], "arguments": call.get("arguments") or {}}
            if call is not None
            else {"name": ASK_TOOL, "arguments": question}
        )
        changed = {"role": "assistant", "content": "", "tool_calls": [{**_first_call(did), "function": function}]}
        if _act_key(changed) == _act_key(did.message):
            continue
        chosen, rejected = (changed, did.message) if fork["verdict"] == "better" else (did.message, changed)
        prompt, seq = shaped.lines[:place], _seq(did)
        yield PreferencePair("fork", prompt, chosen, rejected, shaped.tools, record, record, seq, fork)


def from_edits(episode: ShapedEpisode) -> Iterator[PreferencePair]:
    """Yield pairs of a call as a person edited it before it was made, and the call that the agent proposed.

    Only for turns of one call, whose edit ran without an error, in episodes without access to the verifier.

    """
    record, shaped = episode.record, episode.shaped
    for place, did in enumerate(shaped.lines):
        call = did.said.calls[0] if len(did.said.calls) == 1 else {}
        approval = call.get("approval") or {}
        is_edit = approval.get("verdict") == "edit" and approval.get("by") == "person"
        if not place or not is_edit or call.get("error") is not None or record.is_informed:
            continue
        function = {"name": call["name"], "arguments": call.get("arguments") or {}}
        chosen = {"role": "assistant", "content": "", "tool_calls": [{**_first_call(did), "function": function}]}
        yield PreferencePair("edit", shaped.lines[:place], chosen, did.message, shaped.tools, record, record, _seq(did))


def from_advice(episode: ShapedEpisode) -> Iterator[PreferencePair]:
    """Yield pairs of the call that advice suggests and the call that the agent had made before it asked.

    Only if the advice was blind and the episode became complete.

    """
    if not episode.is_complete:
        return
    lines = episode.shaped.lines
    acts = [place for place, line in enumerate(lines) if line.said.part == "assistant"]
    for before, place in zip(acts, acts[1:], strict=False):
        asks = [call for call in lines[place].said.calls if is_ask(call)]
        tried, advice = lines[before], asks[0].get("advice") if len(asks) == 1 else None
        if not isinstance(advice, dict) or not tried.loss or len(tried.said.calls) != 1 or not advice.get("tool_calls"):
            continue
        if not tried.message.get("tool_calls"):
            continue  # an action of an environment without tools
        if not source_of(advice).is_written or advice.get("privilege") != "blind":
            continue
        advised_call = advice["tool_calls"][0]
        function = {"name": advised_call["name"], "arguments": advised_call.get("arguments") or {}}
        chosen = {"role": "assistant", "content": "", "tool_calls": [{**_first_call(tried), "function": function}]}
        if _act_key(chosen) == _act_key(tried.message) or is_ask(tried.said.calls[0]):
            continue
        record = episode.record
        yield PreferencePair(
            "advice", lines[:before], chosen, tried.message, episode.shaped.tools, record, record, _seq(tried)
        )


def _first_call(line: TrainingLine) -> dict[str, Any]:
    call: dict[str, Any] = line.message["tool_calls"][0]
    return call


def _seq(line: TrainingLine) -> int:
    return line.said.seqs[-1] if line.said.seqs else 0

"""The rules that leave out an episode or a row, one function each. Pure.

A rule returns the reason under which the manifest counts the episode or row, or None. Rules in `ALWAYS` hold for every
export of training data; no recipe switches them off. The others can be switched off by name in `Recipe.include`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from awmclient.nouns.kinds import is_approval, is_ask, is_call
from awmclient.schema import CONTROL_TOOLS, NOT_COUNTED
from awmclient.words.conversation import PromptMessage
from episodes.find.near_tasks import NearTasks
from episodes.quoting import SHINGLE
from exports.recipe import Recipe
from exports.record import EpisodeResult, Record
from exports.rules import wording
from exports.rules.held_out import HeldOutTasks
from exports.rules.quotations import PIECES, VerifierWords

if TYPE_CHECKING:
    from exports.rules.tokenizing import LocalTokenizer


@dataclass
class Ground:
    """The facts that rules and formats need beside a record: held-out tasks, by key and by text, the verifier of each
    task, and the tokenizer of the format `tokens`."""

    recipe: Recipe
    held_out: Collection[str] = ()
    near: NearTasks = field(default_factory=lambda: NearTasks(()))
    verifier_of: Callable[[Record], VerifierWords] = lambda _record: VerifierWords(())
    is_training_name: Callable[[str], bool] = lambda name: name in ("", "train")
    tokenizer: LocalTokenizer | None = None
    tasks: HeldOutTasks = field(default_factory=HeldOutTasks)

    @property
    def trusted(self) -> tuple[str, ...]:
        # the most trusted first, as `result_of` takes the first one that is there
        return ("verified", "attested", *(["reported"] if "reported" in self.recipe.include else []))


Rule = Callable[[Record, Ground], str | None]


def result_of(record: Record, ground: Ground) -> EpisodeResult | None:
    """Return the outcome that counts: the one from the most trusted source that the recipe allows."""
    return next((record.results[word] for word in ground.trusted if word in record.results), None)


def steps_erased(record: Record, _ground: Ground) -> str | None:
    """Leave out episodes whose steps a retention rule emptied: nothing can be learned of them."""
    return "steps_erased" if record.is_erased else None


def branch(record: Record, ground: Ground) -> str | None:
    """Leave out branches: they share their first steps with another episode and are never independent samples. Only a
    format that learns nothing of those steps can include them."""
    return "branch" if record.origin == "branch" and "branches" not in ground.recipe.include else None


def infrastructure_failure(record: Record, ground: Ground) -> str | None:
    """Leave out faults, which are never failed tasks; the outcome of a failed verifier has no meaning."""
    if record.fault or record.state != "finished":
        return "cancelled" if record.state == "cancelled" else "infrastructure_failure"
    result = result_of(record, ground)
    return "infrastructure_failure" if result is not None and result.reward_type in NOT_COUNTED else None


def held_out(record: Record, ground: Ground) -> str | None:
    """Leave out a task that a pinned split holds out, or a split name of the loop that is not *train*."""
    # a loop can name a split that no pinned one has
    is_out = record.task_key in ground.held_out or not ground.is_training_name(record.split)
    return "held_out" if is_out else None


def near_held_out(record: Record, ground: Ground) -> str | None:
    # the text before redaction, which would make near texts differ
    return "near_held_out" if ground.near.holds_like(record.original.task) else None


def evaluation(record: Record, _ground: Ground) -> str | None:
    """Leave out episodes of an evaluation run, which are never trained on."""
    return "evaluation" if record.is_evaluation else None


def control_tools(record: Record, _ground: Ground) -> str | None:
    """Leave out `verify` and similar tools, which belong to the control channel: with them an agent could see its
    reward."""
    named = {str(step.get("name", "")) for step in record.steps if is_call(step)}
    named |= {str(tool.get("name", "")) for tool in record.tools}
    return "control_tool" if any(map(is_control, named)) else None


def pictures(record: Record, ground: Ground) -> str | None:
    """Leave out episodes with pictures that the agent saw and a row cannot have: any, where the recipe or the format
    has none, else those that the agent wrote or asked with, for a trainer takes them in what is read alone."""
    shown = [step for step in record.steps if step.get("pictures")]
    if not ground.recipe.keeps_pictures:
        return "pictures" if shown or record.pictures else None
    is_cut = is_ask if ground.recipe.advice == "distil" else is_approval
    return "pictures" if any(_has_no_place(step, record) for step in shown if not is_cut(step)) else None


def _has_no_place(step: Mapping[str, Any], record: Record) -> bool:
    is_own = is_ask(step) or step["role"] == "assistant"
    return is_own or any(part["blob"] not in record.pictures for part in step["pictures"])


_NAME_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_CHANNELS = frozenset({"mcp", "awm", "awmweb", "openenv", "env"})
_FILLING = _CHANNELS | {"get", "run", "call", "compute", "final", "current", "my", "the", "agent"}
_OF_TASKS = frozenset({"task", "episode", "solution", "answer", "completion", "outcome", "result"})
_TELLS_REWARD = frozenset({"verify", "verifier", "verification", "reward"})
_TELLS_OF_TASKS = _TELLS_REWARD | {"score", "evaluate", "evaluation", "grade", "judge"}


def is_control(name: str) -> bool:
    """Return whether a tool's name is of the control channel, or says that it has the reward: `get_reward`,
    `verify_task`, `mcp__awm__verify`, `scoreEpisode`."""
    if name.strip().casefold() in CONTROL_TOOLS:
        return True
    words = [word.casefold() for word in _NAME_WORD.findall(name)]
    if "_".join(word for word in words if word not in _CHANNELS) in CONTROL_TOOLS:
        return True
    telling = {word for word in words if word not in _FILLING}
    rest = telling - _OF_TASKS
    return rest != set() and rest <= (_TELLS_OF_TASKS if telling & _OF_TASKS else _TELLS_REWARD)


def not_trusted(record: Record, ground: Ground) -> str | None:
    """Leave out episodes without an outcome, or with one that only the loop or the environment reported."""
    if result_of(record, ground) is not None:
        return None
    return "reported_only" if record.results else "not_verified"


def not_complete(record: Record, ground: Ground) -> str | None:
    result = result_of(record, ground)
    return None if result is not None and result.is_complete else "not_complete"


def assisted(record: Record, _ground: Ground) -> str | None:
    """Leave out episodes in which a person acted or changed the limits: their outcome is not the agent's."""
    return "assisted" if record.assisted else None


def continued(record: Record, _ground: Ground) -> str | None:
    """Leave out episodes that continue another one's prompt: their loop chose it because of how that one ended."""
    return "continued" if record.is_continued else None


def gave_up(record: Record, _ground: Ground) -> str | None:
    """Leave out an agent that says it gives up: whatever the outcome, this is no demonstration."""
    return "gave_up" if record.stop_reason == "gave_up" else None


def passes_untouched(record: Record, ground: Ground) -> str | None:
    """Leave out a task whose verifier returns *complete* on an unmodified database: its outcome shows no work."""
    result = result_of(record, ground)
    return "passes_untouched" if result is not None and result.is_complete and result.passes_untouched else None


def informed(record: Record, _ground: Ground) -> str | None:
    """Leave out advice from someone with verifier access, which teaches the answer key."""
    return "informed" if record.is_informed or record.knowledge == "sees_verifier" else None


def ruled(record: Record, _ground: Ground) -> str | None:
    """Leave out a task that the court found at fault, or its verifier: its outcome shows nothing."""
    return "ruled" if record.ruling else None


def rejected(record: Record, ground: Ground) -> str | None:
    """Leave out complete episodes that blind reviewers rejected, unless the format teaches what not to do."""
    result = result_of(record, ground)
    is_rejected = record.verdict == "reject" and result is not None and result.is_complete
    return "rejected" if is_rejected and "verdicts" not in ground.recipe.include else None


def partial(record: Record, _ground: Ground) -> str | None:
    """Leave out a scenario whose database lacks rows that could not be built."""
    return "partial" if record.is_partial else None


_OWN = ("assistant", "result", "nudge")
"""Parts of a conversation whose sentences can be the agent's own, or the environment's."""
ALWAYS: tuple[Rule, ...] = (
    steps_erased,
    branch,
    infrastructure_failure,
    held_out,
    near_held_out,
    evaluation,
    control_tools,
    pictures,
)
"""Hard rules of training data. Formats that report hold such episodes, each with the reason as a mark."""
OPTIONAL: tuple[Rule, ...] = (assisted, continued, gave_up, passes_untouched, informed, partial, ruled, rejected)


def rules_of(recipe: Recipe, *, needs_complete: bool) -> tuple[Rule, ...]:
    """Return the rules of an export in the order in which they apply: the first reason is counted."""
    optional = tuple(rule for rule in OPTIONAL if rule.__name__ not in recipe.include)
    return (*ALWAYS, not_trusted, *((not_complete,) if needs_complete else ()), *optional)


def reason_against(record: Record, ground: Ground, rules: Iterable[Rule]) -> str | None:
    """Return the first reason to leave this episode out, or None."""
    return next((reason for rule in rules if (reason := rule(record, ground)) is not None), None)


def verifier_text(
    record: Record, lines: Sequence[PromptMessage], messages: Sequence[Mapping[str, Any]], verifier: VerifierWords
) -> str | None:
    """Leave out rows that quote the task's verifier: in a message, tool results included, a tool, or a field beside.

    Sentences of the agent count as a quotation only if a word of them is in no task, prompt, result or tool; those of a
    result, if a word is in no task, prompt or tool.

    """
    if not verifier:
        return None
    # the texts of one message are read one after another
    passages = [(str(line.part), "\n".join(texts_of([one]))) for line, one in zip(lines, messages, strict=True)]
    passages.append(("beside", "\n".join(record.beside)))
    quotations = [(part, piece) for part, text in passages for piece in verifier.pieces_in(text)]
    if not quotations:
        return None
    open_words = wording.words_of([record.task, record.tools, *(text for part, text in passages if part == "prompt")])
    # a result proves no word of its own quotation
    heard = open_words | wording.words_of([text for part, text in passages if part == "result"])
    counted = {
        piece
        for part, piece in quotations
        if part not in _OWN
        or not verifier.is_prose(piece)
        or not wording.words_of(" ".join(piece)) <= (open_words if part == "result" else heard)
    }
    is_quoted = any(len(piece) >= SHINGLE for piece in counted) or sum(map(len, counted)) >= PIECES
    return "verifier_text" if is_quoted else None


def held_out_text(record: Record, texts: Iterable[str], tasks: HeldOutTasks) -> str | None:
    """Leave out rows that reveal a held-out task, quoted or in other words: in a message, a tool, or a field beside."""
    if not tasks:
        return None
    is_told = tasks.told_in([*texts, *record.beside], f"{record.task}\n{record.original.task}")
    return "held_out_text" if is_told else None


def texts_of(messages: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    """Return every text of these messages: contents, reasoning, and of calls the ID, the name and all arguments."""
    for message in messages:
        yield message["content"]
        yield message.get("reasoning_content", "")
        for call in message.get("tool_calls", ()):
            arguments = call["function"]["arguments"]
            yield from (call["id"], call["function"]["name"])
            yield from (arguments,) if isinstance(arguments, str) else _strings(arguments)


def _strings(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            # names can carry text, too
            yield str(name)
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)

"""What questions that need no thought reach on tasks with a registry: each task's own text, and one fixed sentence.

Both are negative controls: an Ask-F1 that is no better than theirs says nothing of an agent. Pure. Called by `loadpack`
and by the page, report and API of a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from awmenv.blockers import Blocker, matched
from awmenv.packs import Pack
from people.text.in_words import count
from runs.statistics.asking import EpisodeAsks, of_arms
from runs.taskset.blocks import ORACLE

SENTENCE = (
    "Which name, number, date, amount, price, phone, text or rule is right, who decides it, when, where, how many, how "
    "long, and what do customers, readers or orders need?"
)


@dataclass(frozen=True)
class AskControls:
    """The Ask-F1 of an agent that sends its task's text as its question, and of one that sends the same sentence."""

    tasks: int
    copied: float
    fixed: float

    @property
    def words(self) -> str:
        return f"{self.copied:.2f} if each task's own text is the question, {self.fixed:.2f} if one fixed sentence is"


def controls_of(registries: Sequence[Sequence[Blocker]]) -> AskControls | None:
    """Return what both reach on tasks with these registries; None without one."""
    asked = [one for one in registries if one]
    if not asked:
        return None
    return AskControls(
        len(asked), f1_of(asked, lambda blockers: [blockers[0].task]), f1_of(asked, lambda _: [SENTENCE])
    )


def f1_of(registries: Iterable[Sequence[Blocker]], questions: Callable[[Sequence[Blocker]], Sequence[str]]) -> float:
    """Return the Ask-F1 of an agent that asks these questions in one episode of each task."""
    episodes = []
    for number, blockers in enumerate(registries):
        asked = questions(blockers)
        hits = [hit.id for hit in (matched(question, blockers) for question in asked) if hit]
        sizes = len(asked), len(hits), len(set(hits)), len(blockers)
        episodes.append(EpisodeAsks(f"{number}", "", "", *sizes))
    return of_arms(episodes, [""])[0].f1 or 0.0


def sentence_of(pack: Pack) -> str:
    """Return the Ask-F1 of a pack's own scripts and of the controls; "" if it has no registry."""
    tasks = [(name, idx) for name, scenario in pack.scenarios.items() for idx in range(scenario.task_count)]
    registries = {task: blockers for task in tasks if (blockers := pack.blockers(*task))}
    controls = controls_of(list(registries.values()))
    if controls is None:
        return ""
    asked = {id(blockers): _questions(pack.scripts(*task)) for task, blockers in registries.items()}
    own = f1_of(registries.values(), lambda blockers: asked[id(blockers)])
    tasks_with = f"{count(controls.tasks, 'task')} with a registry"
    return f"Ask-F1 on {tasks_with}: {own:.2f} by the pack's own scripts, {controls.words}."


def _questions(scripts: Mapping[str, Sequence[object]]) -> list[str]:
    """Return the questions of the script of a task that asks, the oracle first."""
    for name in sorted(scripts, key=lambda name: (name != ORACLE, name)):
        asks = [turn["ask"] for turn in scripts[name] if isinstance(turn, dict) and isinstance(turn.get("ask"), dict)]
        if asks:
            return [str(ask.get("question", "")) for ask in asks]
    return []

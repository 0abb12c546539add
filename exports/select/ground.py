"""Reads: the facts that the leakage rules need beside the episodes: held-out tasks, verifiers of packs, tokenizers."""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings

from awmenv.errors import PackError
from awmenv.packs import Pack
from episodes.find.near_tasks import NearTasks
from episodes.models import Episode
from episodes.quoting import texts
from episodes.stored import outcomes, packs, repairs, splits
from exports.recipe import Recipe
from exports.record import Record
from exports.rules.held_out import HeldOutTasks
from exports.rules.leakage import Ground
from exports.rules.quotations import VerifierWords
from people.access import scoped
from people.models import Project

if TYPE_CHECKING:
    from exports.rules.tokenizing import LocalTokenizer


BATCH = 5000


def ground_for(project: Project, recipe: Recipe) -> Ground:
    held_out = splits.held_out(project)
    texts_by_key = _texts(held_out)
    near, verifiers = NearTasks(texts_by_key.values()), verifier_finder(project)
    tokenizer, tasks = tokenizer_of(recipe), HeldOutTasks(texts_by_key)
    return Ground(recipe, held_out, near, verifiers, splits.is_training_name, tokenizer, tasks)


def held_out_tasks(project: Project) -> HeldOutTasks:
    """Return an index of the texts of this project's held-out tasks."""
    return HeldOutTasks(_texts(splits.held_out(project)))


def tokenizer_root() -> Path:
    """Return the folder of tokenizers, each in a subfolder of its name, where operators install them."""
    root: Path = settings.VAR / "tokenizers"
    return root


def tokenizer_of(recipe: Recipe) -> LocalTokenizer | None:
    """Return the tokenizer that a recipe names. Raises `BadRecipe` if it is not there."""
    return load(recipe.tokenizer) if recipe.tokenizer else None


def load(name: str) -> LocalTokenizer:
    """Return a tokenizer by its folder's name. Raises `BadRecipe` if it is not there."""
    from exports.rules import tokenizing  # imports tokenizers and jinja2, which few recipes need

    return tokenizing.load(tokenizer_root(), name)


def _texts(keys: set[str]) -> dict[str, str]:
    """Return texts of the held-out tasks that are in a loaded pack, by key."""
    by_key: dict[str, str] = {}
    by_scenario: dict[str, list[int]] = {}
    for key in keys:
        scenario, _, number = key.rpartition("/")
        if number.isdecimal():
            by_scenario.setdefault(scenario, []).append(int(number))
    for scenario, numbers in sorted(by_scenario.items()):
        pack = packs.find_pack(scenario)
        tasks = pack.tasks(scenario) if pack is not None else []
        by_key |= {f"{scenario}/{number}": tasks[number] for number in sorted(numbers) if number < len(tasks)}
    return by_key


def verifier_finder(project: Project) -> Callable[[Record], VerifierWords]:
    """Return a function from a record to the words of its verifiers; it reads each task once."""
    finder = functools.lru_cache(maxsize=4096)(functools.partial(verifier_of, project))

    def of(record: Record) -> VerifierWords:
        return finder(*record.original[1:])

    return of


def verifier_of(project: Project, scenario: str, task_idx: int | None, version: str) -> VerifierWords:
    """Return what must not be quoted of a task's verifiers: both forms of the pack's with the reasoning and criteria
    beside them, and each repaired one that has counted in the project."""
    if not scenario or task_idx is None:
        return VerifierWords(())
    repaired = [one.code for one in repairs.were_in_force(project, [scenario]).filter(task_idx=task_idx)]
    pack = packs.find_version(scenario, version)
    if pack is None:
        return VerifierWords(repaired)
    try:
        forms = [pack.verifier(scenario, task_idx, mode) for mode in ("code", "sql")]
        # an expert can tell what the pack's own note says, though the verifier says it, too
        common = [*pack.tasks(scenario)[task_idx : task_idx + 1], pack.about(scenario, task_idx).get("expert_note")]
        common += [text for one in pack.blockers(scenario, task_idx) for text in (one.answer, one.fact) if text]
    # a pack that cannot be read has no words to compare
    except PackError:
        return VerifierWords(repaired)
    there = [form for form in forms if form is not None]
    prose = [text for form in there for text in _beside(form.raw_response)]
    return VerifierWords([*(form.code for form in there), *repaired], prose, common)


def _beside(raw: str) -> list[str]:
    """Return what the author of a verifier wrote beside its code, such as its reasoning and its criteria."""
    try:
        response = json.loads(raw) if raw else {}
    except (ValueError, RecursionError):
        return [raw]
    if not isinstance(response, dict):
        return [raw]
    return list(
        texts(
            [one for name, one in response.items() if not name.endswith("code")]
            if isinstance(response, dict)
            else response
        )
    )


def pack_digests(scenarios: Collection[str]) -> dict[str, str]:
    """Return a digest of the rows of each pack that holds one of these scenarios: with other verifiers the same rules
    can leave out other rows."""
    held_packs = [pack for pack in packs.packs() if _holds(pack, scenarios)]
    return {pack.name: packs.rows_digest(pack.folder) for pack in held_packs}


def repairs_digest(project: Project, scenarios: Collection[str]) -> str:
    """Return a digest of the repaired verifiers whose words the rules leave out; "" without any."""
    rows = repairs.were_in_force(project, scenarios).values_list("scenario", "task_idx", "number", "sha256")
    versions = [[*row] for row in rows]
    return hashlib.sha256(json.dumps(versions).encode()).hexdigest() if versions else ""


def scenario_versions(project: Project, episodes: Iterable[str]) -> dict[str, list[str]]:
    """Return the versions of each scenario that these episodes name."""
    by_scenario: dict[str, set[str]] = {}
    ids = iter(episodes)
    while batch := list(itertools.islice(ids, BATCH)):
        rows = scoped(Episode.objects.filter(pk__in=batch), project).exclude(scenario_digest="").order_by()
        for scenario, digest in rows.values_list("scenario", "scenario_digest").distinct():
            by_scenario.setdefault(scenario, set()).add(digest)
    return {scenario: sorted(digests) for scenario, digests in sorted(by_scenario.items())}


def repaired_verifiers(outcome_ids: Iterable[int]) -> dict[str, dict[str, Any]]:
    """Return by task the repaired verifiers that found some of these outcomes: how many, and the newest version."""
    columns = ("version__scenario", "version__task_idx", "version__number", "version__sha256")
    repaired: dict[str, dict[str, Any]] = {}
    ids = iter(outcome_ids)
    while batch := list(itertools.islice(ids, BATCH)):
        rows = outcomes.named(batch).filter(version__isnull=False)
        for scenario, task_idx, number, sha256 in rows.values_list(*columns):
            repair = repaired.setdefault(f"{scenario}/{task_idx}", {"version": 0, "sha256": "", "outcomes": 0})
            repair["outcomes"] += 1
            if number > repair["version"]:
                repair.update(version=number, sha256=sha256)
    return dict(sorted(repaired.items()))


def _holds(pack: Pack, scenarios: Collection[str]) -> bool:
    return any(name in pack.scenarios for name in scenarios)

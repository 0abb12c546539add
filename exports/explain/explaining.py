"""Reads: why a row is in a dataset, and why an episode is not, from the dataset's own files.

Owns the meaning of `rows.jsonl` and `left_out.jsonl`. An episode that neither file names did not match the recipe's
filters. The database says which filter: as of now, not as of the day on which the dataset was made.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path
from typing import IO, Any, get_args

from django.utils import timezone

from awmclient.nouns.sources import source_of
from awmclient.schema import LIVE_STATES
from episodes.find.selection import filtered
from episodes.models import Episode, Step
from episodes.quoting import texts
from episodes.stored.entries import read
from experts.models import Ask
from exports.assembly import storing
from exports.assembly.datasets import INDEX, LEFT_OUT, MANIFEST, read_manifest
from exports.errors import NotBuilt
from exports.explain import reasons
from exports.formats import FORMATS
from exports.models import Export, ExportState
from exports.recipe import KINDS, OptIn, Recipe
from exports.rules.redaction import Redactor
from exports.select.ground import held_out_tasks, verifier_of
from exports.select.selecting import may_open
from people.access import Actor, is_id, opaque, scoped
from people.errors import NotFound
from people.models import Project
from people.requests.forms import MAX_ID, number_in

# 32 bits of the digest
PREFIX = 8
"""The shortest prefix of a dataset's ID that is accepted as its name."""
_OF_ADVICE = ("text", "author", "source", "privilege")


@dataclass(frozen=True)
class Dataset:
    """The files of one dataset, in the store or in a folder, with its manifest."""

    name: str
    project: Project
    manifest: dict[str, Any]
    open: Callable[[str], IO[bytes]]
    export: Export | None = None

    @property
    def recipe(self) -> Recipe:
        # the row of an export has its filters as they were sent; files have them redacted
        return Recipe.read(self.export.recipe if self.export is not None else self.manifest["recipe"])

    @property
    def shown_recipe(self) -> Recipe:
        """The recipe as its files say it, without secrets in names that it filters by."""
        return Recipe.read(self.manifest["recipe"])

    @functools.cached_property
    def redactor(self) -> Redactor:
        """What removes from an answer the secrets that the dataset's rows do not hold either."""
        return Redactor(self.recipe, salt=self.project.pk)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the lines of the index of rows, in order."""
        with self.open(INDEX) as lines:
            for line in lines:
                yield json.loads(line)

    def left_out(self) -> Iterator[tuple[str, str]]:
        """Yield episode and reason for each episode without a row."""
        with self.open(LEFT_OUT) as lines:
            for line in lines:
                episode, reason = json.loads(line)
                yield episode, reason


@dataclass(frozen=True)
class Answered:
    """One ask of an episode with the answer that its agent got."""

    seq: int
    ask: str
    question: str
    text: str
    author: str
    source: str
    privilege: str


@dataclass(frozen=True)
class RowOrigin:
    """The origin of a row. `seq` is the last step of a row that is one turn, else None."""

    number: int
    key: str
    episode: str
    sha256: str
    outcome: str
    seq: int | None = None
    last_seq: int | None = None
    rejected: str = ""
    task: str = ""
    exists: bool = False
    answers: list[Answered] = field(default_factory=list)


@dataclass(frozen=True)
class EpisodeFate:
    """Whether an episode is in a dataset: `state` is in, left_out, not_selected or unknown, and `why` is a sentence.

    `reason` is the code of the rule, or the filter that it does not match. `first_row` is the number of its first row.

    """

    episode: str
    state: str
    why: str
    reason: str = ""
    opt_in: str = ""
    rows: int = 0
    first_row: int | None = None


def of_export(export: Export) -> Dataset:
    """Return the dataset of an export. Raises `NotBuilt` if it is not done."""
    if export.state != ExportState.DONE or not isinstance(export.manifest, dict):
        raise NotBuilt
    project, dataset = export.project, export.dataset

    def opened(path: str) -> IO[bytes]:
        return storing.open_file(project.pk, dataset, path)

    return Dataset(str(export), project, export.manifest, opened, export)


def named(actor: Actor, name: str) -> Dataset:
    """Return a dataset by its folder, its export's ID, or the first letters of its own ID. Raises `NotFound`."""
    may_open(actor)
    folder = Path(name)
    # only commands come here: a folder is one on the operator's machine
    if (folder / MANIFEST).is_file():
        return Dataset(name, actor.project, read_manifest(folder), lambda path: (folder / path).open("rb"))
    done = scoped(Export.objects.select_related("project"), actor.project).filter(state=ExportState.DONE)
    export = done.filter(pk=name).first() if is_id(name) else None
    if export is None and len(name) >= PREFIX and name.isalnum():
        export = done.filter(dataset__startswith=name).order_by("-created_at").first()
    if export is None:
        raise NotFound(f"No dataset {name}: use a folder, an export's ID or the first {PREFIX} letters of a dataset's.")
    return of_export(export)


def row_origin(dataset: Dataset, row_id: str) -> RowOrigin:
    """Return the origin of a row; `row_id` is its number from 1 or its key. Raises `NotFound`."""
    # any other text is a key
    number = number_in(row_id, MAX_ID)
    for place, row in enumerate(dataset.rows(), 1):
        if place == number or row["key"] == row_id:
            return _origin(dataset, place, row)
    raise NotFound(f"No row {row_id[:200]} in this dataset: it has {dataset.manifest['rows']:,} rows.")


def _origin(dataset: Dataset, number: int, row: dict[str, Any]) -> RowOrigin:
    seq = _seq(dataset, row["key"])
    rows = scoped(Episode.every.all(), dataset.project).filter(pk=row["episode"])
    episode = rows.values("task", "last_seq").first()
    return RowOrigin(
        number,
        row["key"],
        row["episode"],
        row["sha256"],
        row.get("outcome", ""),
        seq=seq,
        last_seq=episode["last_seq"] if episode else None,
        rejected=row.get("rejected", ""),
        task=dataset.redactor.redact(episode["task"]) if episode else "",
        exists=episode is not None,
        answers=list(_answers(dataset, row["episode"], seq)) if episode else [],
    )


def _seq(dataset: Dataset, key: str) -> int | None:
    """Return the last step of a row, in formats that have a row per turn."""
    columns = FORMATS[dataset.manifest["format"]].features or {}
    # in formats without turns, the end of a key is the row's position
    last = key.rpartition("/")[2]
    return number_in(last) if "seq" in columns else None


def _answers(dataset: Dataset, episode: str, until: int | None) -> Iterator[Answered]:
    """Yield the asks of an episode up to a step, with the answer that its agent read: redacted and with opaque IDs of
    people, as in the rows.
    """
    asks = {ask.seq: ask.pk for ask in Ask.objects.filter(episode=episode)}
    steps = Step.objects.filter(episode=episode, kind="ask").order_by("seq")
    for step in steps if until is None else steps.filter(seq__lte=until):
        # by the recipe of the dataset, so that an answer shows no more than its rows
        body = read(dataset.redactor.redact_json(step.body))
        advice = body.get("advice") or {}
        text, author, source, privilege = (str(advice.get(name) or "") for name in _OF_ADVICE)
        # the name of a model identifies no person
        if author and not source_of(advice).is_model and not dataset.recipe.authors:
            author = opaque(dataset.project.pk, author)
        question = str(body.get("question", ""))
        yield Answered(step.seq, asks.get(step.seq, ""), question, text, author, source, privilege)


def fate_of(dataset: Dataset, episode: str) -> EpisodeFate:
    """Return whether an episode is in a dataset, and which rule or filter left it out if it is not."""
    count, first = 0, None
    for number, row in enumerate(dataset.rows(), 1):
        # the rejected side of a pair is used, too
        if episode in (row["episode"], row.get("rejected")):
            # numbers begin with 1, so `or` keeps the first one
            count, first = count + 1, first or number
    if count:
        rows = f"{count:,} {'row comes' if count == 1 else 'rows come'}"
        return EpisodeFate(episode, "in", f"{rows} from this episode.", rows=count, first_row=first)
    reason = next((reason for one, reason in dataset.left_out() if one == episode), None)
    if reason is not None:
        why = reasons.sentence(reason) + (_place(dataset, episode, reason) if reason in _PLACES else "")
        return EpisodeFate(episode, "left_out", why, reason, _opt_in(dataset, reason))
    return not_selected(dataset, [episode])[episode]


def _place(dataset: Dataset, episode: str, reason: str) -> str:
    """Return the first step that quotes the verifier or reveals a held-out task, and its words."""
    row = scoped(Episode.every.all(), dataset.project).filter(pk=episode).first()
    if row is None:
        return ""
    find = _PLACES[reason](dataset.project, row)
    steps = Step.objects.filter(episode=row).exclude(kind="verification").order_by("seq")
    for seq, body in steps.values_list("seq", "body").iterator(500):
        if words := find(read(body)):
            return f" Step {seq} {dataset.redactor.redact(words)}."
    return ""


def _quotations(project: Project, row: Episode) -> Callable[[Any], str]:
    verifier = verifier_of(project, row.scenario, row.task_idx, row.scenario_digest)

    def find(content: Any) -> str:
        words = verifier.quotation_in(content)
        return f"has the words: {words}" if words else ""

    return find


def _told_tasks(project: Project, row: Episode) -> Callable[[Any], str]:
    tasks = held_out_tasks(project)

    def find(content: Any) -> str:
        told_task = tasks.told_in(texts(content), row.task)
        if told_task is None:
            return ""
        return (
            f"has the words of {told_task.key}: {told_task.words}"
            if told_task.words
            else f"has {told_task.key} in other words"
        )

    return find


_PLACES: dict[str, Callable[[Project, Episode], Callable[[Any], str]]] = {
    "verifier_text": _quotations,
    "held_out_text": _told_tasks,
}


def _opt_in(dataset: Dataset, reason: str) -> str:
    """Return what a recipe includes to switch this reason off; "" if no recipe can."""
    name = reasons.OPT_IN.get(reason, reason)
    # a training format accepts no `evaluation`
    if name == "evaluation" and KINDS[dataset.manifest["format"]].trains:
        return ""
    return name if name in get_args(OptIn) else ""


def not_selected(dataset: Dataset, episodes: Collection[str]) -> dict[str, EpisodeFate]:
    """Return, for episodes that a dataset's files do not name, why it did not select them."""
    # PostgreSQL answers U+0000 with an error
    ids = [one for one in episodes if is_id(one)]
    mine = scoped(Episode.every.all(), dataset.project).filter(pk__in=ids)
    rows = {row["pk"]: row for row in mine.values("pk", "state", "ended_at")}
    missed = _filters_missed(dataset, list(rows))
    fates = {}
    for episode in episodes:
        row = rows.get(episode)
        if row is None:
            fate = EpisodeFate(episode, "unknown", "There is no such episode in this project, or it was deleted.")
        elif row["state"] in LIVE_STATES:
            fate = EpisodeFate(episode, "not_selected", "It has not ended yet.", "live")
        elif episode in missed:
            values = " or ".join(dataset.redactor.redact_texts(list(dataset.recipe.filter[missed[episode]])))
            words = f"It does not match the recipe's filter {missed[episode]} = {values}."
            fate = EpisodeFate(episode, "not_selected", words, missed[episode])
        else:
            fate = EpisodeFate(
                episode, "not_selected", "It matches now, but ended after this dataset was made.", "later"
            )
        fates[episode] = fate
    return fates


def _filters_missed(dataset: Dataset, episodes: Collection[str]) -> dict[str, str]:
    """Return the first filter of the recipe that each of these episodes does not match now."""
    missed: dict[str, str] = {}
    for name, values in dataset.recipe.filter.items():
        # one filter alone, so that the first one that fails is named
        with timezone.override(UTC):
            passing = filtered(dataset.project, {name: values})
        match = set(passing.filter(pk__in=episodes).values_list("pk", flat=True))
        missed |= {one: name for one in episodes if one not in match and one not in missed}
    return missed

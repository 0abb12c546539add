"""Branches count nowhere: not in lists, rates, exports or the figures of runs, unless they are asked for by name."""

from __future__ import annotations

import ast
import importlib
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from awmweb import views
from episodes.find import facets, lists, selection
from episodes.models import Continuation, Episode, Fork, Knowledge, Run, VerifierOutcome
from episodes.record.branching import SAME
from episodes.show import wall
from episodes.stored import outcomes
from exports.recipe import Recipe
from exports.select import selecting
from reviews.models import ReviewQueue
from reviews.statistics import filling
from runs.launch import briefings
from tests.browsing import as_person, html

ROOT = Path(__file__).parents[3]

APPS = ("awmweb", "curriculum", "episodes", "experts", "exports", "imports", "notices", "people", "reviews", "runs")
EVERY = {
    "awmweb.demo.removing": "what is deleted",
    "awmweb.erasing.episodes": "what is erased",
    "awmweb.erasing.persons": "one episode",
    "awmweb.management.commands.erase": "one episode",
    "awmweb.partitions.keeping": "steps of every episode",
    "awmweb.retention.emptying": "what is erased",
    "awmweb.retention.pages": "one episode",
    "awmweb.retention.kinds.episodes": "branches by their origin",
    "awmweb.retention.reasons": "episodes that a rule names, branches too",
    "awmweb.metrics.stored": "what the worker is at",
    "awmweb.searching": "what has these letters, branches too",
    "episodes.find.held": "episodes that are erased, with their branches",
    "episodes.find.selection": "lists that ask for branches by their origin",
    "episodes.live.consumers": "one episode",
    "episodes.pages.comparing": "episodes that a person chose",
    "episodes.pages.many": "episodes that a list found",
    "episodes.pages.one": "one episode",
    "episodes.pages.picture": "one episode",
    "episodes.record.continuing": "a branch can be continued, too",
    "episodes.record.admitting": "keys that are taken",
    "episodes.record.appending": "one episode",
    "episodes.record.ask_steps": "one episode",
    "episodes.record.noting": "one episode",
    "episodes.record.rejudging": "what a verifier has judged, branches too",
    "episodes.record.pictures": "one episode",
    "episodes.record.queueing": "those of one run",
    "episodes.record.ending": "loops that fell silent",
    "episodes.record.recording": "one episode",
    "episodes.record.steering": "one episode",
    "episodes.record.whole": "keys that are taken",
    "episodes.record.whole_pictures": "locks of the episodes that get pictures",
    "episodes.show.page": "one episode, and its rerun",
    "episodes.stored.settled": "verdicts that are owed",
    "episodes.stored.trees": "the roots of branches",
    "episodes.visible.trajectory": "one episode",
    "experts.who.policies": "one episode",
    "experts.find.reading": "one episode",
    "experts.llm": "one episode",
    "experts.record.tagging": "one episode",
    "exports.explain.errata": "the tasks of episodes that a caller names",
    "exports.explain.explaining": "one episode, to say why it is left out",
    "exports.select.reading": "episodes of a snapshot",
    "imports.record.collecting": "one episode",
    "reviews.pages.comments": "one episode",
    "reviews.record.annotating": "one episode",
    "reviews.record.assigning": "one episode",
    "reviews.record.correcting": "one episode",
    "reviews.statistics.reports": "the tasks of episodes that are reviewed, branches too",
    "reviews.visible.pairs": "episodes of pairs that a caller names",
    "runs.launch.launching": "one episode, and those that wait for a worker",
    "runs.management.commands.certify": "one episode",
    "runs.pages.tables": "one episode",
    "runs.pages.wheel": "one episode",
    "runs.plan.limits": "what asks an endpoint now",
    "runs.plan.spending": "tokens of episodes that a caller names",
    "runs.play.certifying": "one episode",
    "runs.management.commands.fork": "one episode",
    "runs.pages.verifiers": "what a verifier has judged, branches too",
    "runs.pages.forks": "one episode, and the branches of one fork",
    "runs.play.forking": "one episode, and the branches of one fork",
    "runs.play.playing": "one episode",
    "runs.play.prompting": "one episode",
    "runs.show.campaigns": "branches of a campaign's forks",
    "runs.show.forks": "a tree of branches",
    "runs.play.parking": "who waits for a thread",
    "runs.tasks": "one episode",
    "runs.management.commands.timing": "one episode",
    "runs.show.timing": "one episode and its forks",
    "reviews.record.withholding": "branches of episodes that are judged blind",
    "exports.select.selecting": "branches that a recipe includes",
    "exports.select.measured": "branches of forks, for pairs",
}
"""Modules that read branches among other episodes, and why: each about single episodes or the work of the worker."""


def attributes(path: Path) -> set[str]:
    """Return what a module takes of `Episode` and of outcomes, such as `Episode.every`."""
    tree = ast.parse(path.read_text())
    found = [one for one in ast.walk(tree) if isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name)]
    return {f"{one.value.id}.{one.attr}" for one in found}


def modules() -> dict[str, set[str]]:
    files = [path for app in APPS for path in (ROOT / app).rglob("*.py") if "migrations" not in path.parts]
    return {".".join(path.relative_to(ROOT).with_suffix("").parts): attributes(path) for path in files}


def test_only_named_modules_read_branches_with_others():
    found = modules()
    assert {name for name, taken in found.items() if "Episode.every" in taken} == set(EVERY)
    past = {"Episode._base_manager", "Episode._default_manager"}
    assert not [name for name, taken in found.items() if taken & past]
    # every other read of outcomes comes through `outcomes.py`
    direct = {name for name, taken in found.items() if "VerifierOutcome.objects" in taken}
    writes = {"episodes.record.ending", "episodes.record.rejudging", "episodes.record.whole"}
    assert direct == {*writes, "episodes.stored.outcomes", "episodes.stored.settled"}


BY_SOURCE = {
    "curriculum.counting": "of two outcomes of an episode, the verifier's",
    "curriculum.show.generations": "of two outcomes of an episode, the verifier's",
    "episodes.models.outcomes": "the condition itself",
    "episodes.record.rejudging": "what a repaired verifier judges again",
    "episodes.show.page": "the two outcomes of an external loop's episode",
    "episodes.show.wall": "what exports take by themselves",
    "episodes.stored.outcomes": "checks of verifiers",
    "episodes.stored.settled": "verdicts that are owed",
    "episodes.visible.trajectory": "the two outcomes of an episode",
    "exports.select.reading": "the word of an export",
    "exports.select.selecting": "the sources that a recipe trusts",
}
"""Modules that tell outcomes of verifiers from others, and why. All others take `found_here`: an environment without a
verifier *reports* its outcome, and it counts as a verifier's does."""
VERIFIERS_ALONE = re.compile(
    r'\.VERIFIER\b|source(__in)?["\'\]]*\s*(=|:|==|in|not in)\s*[\[\(]?"verifier"|get\("verifier"\)'
)


def test_only_named_modules_take_outcomes_of_verifiers_alone():
    files = {name: ROOT.joinpath(*name.split(".")).with_suffix(".py").read_text() for name in modules()}
    found = {name for name, text in files.items() if VERIFIERS_ALONE.search(text)}
    assert found == set(BY_SOURCE)


@pytest.fixture
def ended(ada):
    run = Run.objects.create(project=ada.project, name="nightly")
    about = {"scenario": "helpdesk_1", "task_idx": 0, "state": "finished", "ended_at": timezone.now(), "task": "t"}
    episode = Episode.objects.create(
        project=ada.project, key="k", body_digest="", run=run, origin="builtin", started_at=timezone.now(), **about
    )
    VerifierOutcome.objects.create(episode=episode, source="verifier", reward_type="complete", reward=1.0)
    return episode


def branch_of(episode, **about):
    fork = Fork.objects.create(
        project=episode.project, parent=episode, seq=1, tries=1, knowledge="blind", grade="exact"
    )
    same = {name: getattr(episode, name) for name in (*SAME, "project", "state", "ended_at", "started_at")}
    branch = Episode.every.create(
        key=fork.pk, body_digest="", origin="branch", fork=fork, branch_arm="treated", branch_seq=1, **same, **about
    )
    VerifierOutcome.objects.create(episode=branch, source="verifier", reward_type="others", reward=0.0)
    return branch


def figures(actor, episode):
    """All that the product counts of a project's episodes."""
    recipe = Recipe.model_validate({"format": "sft"})
    api = lists.episodes(actor, {}, "", 50)
    return {
        "list": [one.id for one in api.items],
        "filtered": selection.filtered(actor.project, {"scenario": ["helpdesk_1"]}).count(),
        "facets": repr(facets.counted(actor, facets.ListQuery.of(""))),
        "tallies": wall.tallies(actor),
        "exportable": wall.complete_up_to(actor, 5),
        "recent": [one.episode_id for one in wall.recent_outcomes(actor)],
        "live": wall.live(actor).total,
        "today": views._today(actor, timezone.now() - timedelta(days=1)),
        "project": list(outcomes.of_project(actor.project).values_list("episode", flat=True)),
        "verdicts": list(outcomes.verdicts_of(actor.project).values_list("episode", flat=True)),
        "proved": list(outcomes.proved_of(actor.project).values_list("episode", flat=True)),
        "export": [one.pk for one in selecting.matching(actor.project, recipe)],
        "sources": filling.sources(actor, ReviewQueue()),
        "learned": [one.pk for one in briefings.usable(actor.project)],
        "earlier": [one.pk for one in briefings.earlier(actor, "helpdesk_1", 0)],
        "of the run": episode.run.episodes.count(),
        "of the project": actor.project.episodes.count(),
    }


def test_a_branch_changes_no_figure(ada, ended):
    before = figures(ada, ended)
    assert before["list"] == before["export"] == before["learned"] == before["recent"] == [ended.pk]
    branch = branch_of(ended)
    assert figures(ada, ended) == before
    asked = selection.filtered(ada.project, {"origin": ["branch"]})
    assert [one.pk for one in asked] == [branch.pk]
    assert [one.id for one in lists.episodes(ada, {"origin": ["branch"]}, "", 50).items] == [branch.pk]
    both = selection.filtered(ada.project, {"origin": ["branch", "builtin"]})
    assert {one.pk for one in both} == {branch.pk, ended.pk}


LISTED = {"list", "filtered", "facets", "recent", "project", "sources", "earlier", "of the project", "export"}
"""What names a continued episode: its loop looks for it there, and an export counts it among those that it leaves out.
All other figures are made of independent episodes."""


@pytest.mark.parametrize("found", ["complete", "others", "judge_error"])
@pytest.mark.parametrize("level", Knowledge.values)
def test_a_continued_episode_changes_no_rate(ada, ended, level, found):
    before = figures(ada, ended)
    about = {name: getattr(ended, name) for name in ("scenario", "task_idx", "state", "ended_at", "started_at", "task")}
    same = {"project": ada.project, "body_digest": "", "origin": "external", **about}
    one = Episode.objects.create(key="further", knowledge=level, **same)
    Continuation.objects.create(episode=one, parent=ended, seq=2)
    VerifierOutcome.objects.create(episode=one, source="verifier", reward_type=found, reward=1.0)
    for _ in range(2):
        after = figures(ada, ended)
        tallies = replace(after.pop("tallies"), total=1)
        assert {name for name in after if after[name] != before[name]} <= LISTED
        assert tallies == before["tallies"] and one.pk in after["list"]
        assert before["export"] == [ended.pk]
        # the parent is erased, and the link with it
        Continuation.objects.all().delete()


def test_a_branch_is_in_no_run_and_goes_with_its_parent(ada, ended):
    with pytest.raises(IntegrityError, match="branch_in_no_run"), transaction.atomic():
        branch_of(ended, run=ended.run)
    branch_of(ended)
    ended.delete()
    assert not Episode.every.exists() and not Fork.objects.exists()


def test_home_counts_complete_episodes_up_to_a_bound(ended, ada, monkeypatch):
    assert ">1 complete episode.<" in html(as_person(ada).get("/"))
    monkeypatch.setattr(views, "EXPORTABLE_MAX", 0)
    assert ">Over 0 complete episodes.<" in html(as_person(ada).get("/"))


def test_stored_outcomes_of_environments_become_reported(ended, ada):
    """By a migration, and no outcome of a verifier with it, whatever its code printed."""
    found_by = {"verify_result": {"result": "complete", "found_by": "environment"}, "mode": "environment"}
    printed = {"verify_result": {"text": ', "mode": "environment"}', "mode": "environment"}, "mode": "code"}
    ended.outcomes.all().delete()
    rows = {}
    for name, details in (("of_environment", found_by), ("of_verifier", printed)):
        about = {"project": ada.project, "body_digest": "", "origin": "builtin", "state": "finished", "task": "t"}
        episode = Episode.objects.create(key=name, **about)
        rows[name] = VerifierOutcome.objects.create(
            episode=episode, source="verifier", reward_type="complete", details=details
        )
    migration = importlib.import_module("episodes.migrations.0015_outcomes_of_environments_are_reported")
    with connection.cursor() as cursor:
        cursor.execute(migration.MOVE.replace("%", "%%"), [])
        cursor.execute(migration.MOVE.replace("%", "%%"), [])
    assert {name: VerifierOutcome.objects.get(pk=one.pk).source for name, one in rows.items()} == {
        "of_environment": "reported",
        "of_verifier": "verifier",
    }

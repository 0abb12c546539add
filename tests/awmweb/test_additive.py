"""Migrations since the release keep its code working: they run first in a rolling update, beside its processes."""

from __future__ import annotations

from copy import deepcopy

import pytest
from django.db import models
from django.db.migrations import RunPython, RunSQL
from django.db.migrations.loader import MigrationLoader
from django.db.models.fields import NOT_PROVIDED

from exports.models import Export, Push
from people.models import Project

RELEASE = "0.2.0"
APPS = ("curriculum", "episodes", "experts", "exports", "imports", "notices", "people", "reviews", "runs")
RELEASED = dict.fromkeys(APPS, "0001_initial")
"""The newest migration of each app in the release. A new release writes its own here, and empties the lists below."""
FILLED = {("exports", "push", "project")}
"""Columns that a trigger fills; see `exports/migrations/_push_project.py`."""
WIDER = {
    "token_scope_known": "takes further scopes",
    "one_verdict_per_reviewer": "a further verdict needs `supersedes`, which the release never sets",
    "one_outcome_per_source": "leaves superseded outcomes out",
    "one_outcome_per_version": "`version` is null for the release, and a source was unique before",
    "outcome_source_known": "takes one more source",
    "channel_known": "takes one more channel",
    "branch_in_no_run": "the release makes no branches",
    "held_answer_has_its_end": "the release holds no answers: both are null",
    "one_review_per_queue_and_episode": "holds for reviews of one episode, as all of the release are",
    "one_review_per_queue_and_pair": "the release makes no pairs",
    "review_queue_kind_known": "the database says `verdict` for a queue of the release",
}
"""Constraints on tables of the release that are new, and why each row of the release fits them."""
READ = {
    "episodes.0003_search_letters": "has steps read again",
    "episodes.0014_growth": "adds two functions beside the one that the release calls",
    "episodes.0015_outcomes_of_environments_are_reported": "names another source, which the release knows",
    "reviews.0003_one_key_of_a_person": "gives rows of personal tokens, which the release has not, another key",
    "exports.0002_push_project": "fills the project of pushes, by a trigger also those of the release",
    "exports.0003_projects_of_older_pushes": "the same trigger",
    "runs.0007_defaults_for_the_version_before": "defaults",
    "experts.0014_defaults_for_the_version_before": "defaults",
}
"""Migrations with SQL or Python of their own, which no check here reads: a person did."""


@pytest.fixture(scope="module")
def loader():
    return MigrationLoader(None, ignore_no_migrations=True)


def released_state(loader):
    return loader.project_state(list(RELEASED.items()))


def later(loader):
    """Return the migrations since the release, in the order in which they run."""
    nodes = loader.graph._generate_plan(loader.graph.leaf_nodes(), at_end=True)
    before = set(loader.graph._generate_plan(list(RELEASED.items()), at_end=True))
    return [loader.graph.nodes[node] for node in nodes if node not in before and node[0] in RELEASED]


def has_column(field):
    return not field.many_to_many and not isinstance(field, models.GeneratedField)


def narrower(old, new):
    """Return what of the old field's values the new one does not take."""
    if old.null and not new.null:
        yield "is not null any more"
    if old.get_internal_type() != new.get_internal_type():
        yield f"was {old.get_internal_type()}"
    if (new.max_length or 0) and (old.max_length or 0) > new.max_length:
        yield f"was {old.max_length} long"


def breaks(before, after):
    """Return what stops code of the state `before` on a database of the state `after`."""
    found = []
    for key, model in before.models.items():
        name, now = ".".join(key), after.models.get(key)
        if now is None or now.options.get("db_table") != model.options.get("db_table"):
            found.append(f"{name}: the table is gone")
            continue
        for column, field in model.fields.items():
            if column not in now.fields:
                found.append(f"{name}.{column}: the column is gone")
            elif has_column(field):
                found += [f"{name}.{column} {said}" for said in narrower(field, now.fields[column])]
        for column, field in now.fields.items():
            has_value = field.null or field.db_default is not NOT_PROVIDED or (*key, column) in FILLED
            if column not in model.fields and has_column(field) and not has_value:
                found.append(f"{name}.{column}: the release's INSERT gives it no value; add db_default")
        known = {str(one.name): one for one in model.options.get("constraints", [])}
        for one in now.options.get("constraints", []):
            if known.get(one.name) != one and one.name not in WIDER:
                found.append(f"{name}: {one.name} is new; say in WIDER why each row of the release fits")
    return found


def test_migrations_since_the_release_are_additive(loader):
    state = released = released_state(loader)
    plan, found = later(loader), {}
    assert plan, "nothing has been migrated since the release"
    for migration in plan:
        state = migration.mutate_state(state)
        for said in breaks(released, state):
            found.setdefault(said, f"{migration.app_label}.{migration.name}")
    assert found == {}


def test_sql_of_migrations_since_the_release_was_read(loader):
    own = {
        f"{migration.app_label}.{migration.name}"
        for migration in later(loader)
        if any(isinstance(operation, RunSQL | RunPython) for operation in migration.operations)
    }
    assert own == set(READ)


def altered(state, key, **fields):
    other = deepcopy(state)
    for name, field in fields.items():
        if field is None:
            del other.models[key].fields[name]
        else:
            other.models[key].fields[name] = field
    return other


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"arm": None}, "episodes.episode.arm: the column is gone"),
        ({"extra": models.IntegerField(default=0)}, "episodes.episode.extra: the release's INSERT"),
        ({"seed": models.BigIntegerField()}, "episodes.episode.seed is not null"),
        ({"arm": models.CharField(max_length=20)}, "episodes.episode.arm was 200 long"),
        ({"arm": models.TextField()}, "episodes.episode.arm was CharField"),
    ],
)
def test_breaking_changes_are_found(loader, fields, said):
    released = released_state(loader)
    assert breaks(released, released) == []
    assert any(one.startswith(said) for one in breaks(released, altered(released, ("episodes", "episode"), **fields)))


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("table", "columns"),
    [
        ("runs_plan", {"claims": "'{}'::jsonb", "claims_digest": "''::character varying"}),
        ("experts_ask", {"handed_to": "''::character varying", "handed_to_name": "''::character varying"}),
        ("experts_quickreply", {"author": "''::character varying", "shared": "false"}),
    ],
)
def test_columns_have_defaults_in_the_database(table, columns, django_db_setup):
    from django.db import connection

    query = "SELECT column_name, column_default FROM information_schema.columns WHERE table_name = %s"
    with connection.cursor() as cursor:
        cursor.execute(query, [table])
        found = dict(cursor.fetchall())
    assert {column: found[column] for column in columns} == columns


@pytest.mark.django_db
def test_push_without_a_project_gets_that_of_its_export():
    project = Project.objects.create(slug="pushes", name="pushes")
    export = Export.objects.create(project=project, recipe={})
    one = Push(export=export, repo="a/b")
    [made] = Push.objects.bulk_create([one])  # as the release's INSERT: it knows no such column
    assert Push.objects.get(pk=made.pk).project == project

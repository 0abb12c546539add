"""What is erased is in no byte of the database, of the files, of a new export or of a new backup."""

from __future__ import annotations

import contextlib
import io
import json
import re
import sqlite3
import tempfile
import zlib
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.apps import apps
from django.conf import settings as django_settings
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from awmclient.schema import EpisodeStart
from awmenv import kept
from awmenv.server.database import digest_of_bytes
from awmenv.server.session.marks import WorldStart
from awmenv.server.session.sessions import Session
from awmenv.server.session.snapshots import Snapshots
from awmweb.erasing import datasets
from awmweb.erasing import episodes as erasing_episodes
from awmweb.erasing.episodes import erase_episode
from awmweb.erasing.persons import erase_person, without_words
from awmweb.erasing.written import KEYED
from episodes.models import BranchArm, Episode, Fork, Knowledge, Step, WheelOrder
from episodes.record import branching, indexing, recording
from experts.models import Advice, Draft, QuickReply
from experts.who.cached import known_answer
from exports.jobs import requesting, working
from exports.models import Export
from exports.recipe import Recipe
from imports.models import Trace
from imports.readers import otlp
from imports.readers.settled import key_of
from imports.record import collecting
from people.access import system
from people.errors import Busy, Forbidden, Invalid, NotFound
from people.models import AuditEntry, Tombstone, digest_of
from people.record import members
from people.record.audit import record
from reviews.models import Annotation, Correction
from reviews.record import annotating, schemas
from reviews.visible.places import Place
from runs.models import Briefing
from runs.statistics.forked import labels
from tests.browsing import as_person, html
from tests.exports.pages.test_export_pages import built, store
from tests.exports.test_canaries import lived
from tests.imports.spans import gen_ai, request
from tests.people_by_name import person, token

__all__ = ["store"]
pytestmark = pytest.mark.django_db
GONE, KEPT = "quokka", "wombat"
RECIPES = ({"format": "sft"}, {"format": "raw"}, {"format": "sft", "parquet": True}, {"format": "inspect"})


def planting(word):
    """Return a text with this word for every field but those of the run, which the episode shares with others."""
    return lambda path: path if path.startswith("RunStart") else f"{word} {path}"


def dumped():
    """Return every row of every table as the database writes it into a dump."""
    found = {}
    with connection.cursor() as cursor:
        cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        for (table,) in cursor.fetchall():
            with cursor.copy(f'COPY "{table}" TO STDOUT') as copy:
                found[table] = b"".join(bytes(block) for block in copy)
    return found


def places_of(word, folder):
    """Return the tables and files that have a word."""
    rows = {table for table, text in dumped().items() if word.encode() in text.lower()}
    files = (path for path in folder.rglob("*") if path.is_file())
    return rows | {path.name for path in files if word.encode() in path.read_bytes().lower()}


@pytest.fixture
def lives(ada, store):
    """Two episodes with a word each in every field, in four datasets, in the search index and beside them."""
    expert = person(ada.project, "edo", "expert")
    both = [lived(ada, expert, key, planting(word)) for key, word in zip("ab", (GONE, KEPT), strict=True)]
    for one, word in zip(both, (GONE, KEPT), strict=True):
        about = {"scenario": "desk_1", "task_idx": 1, "source": "llm", "author": "m-1", "privilege": "blind"}
        Briefing.objects.create(project=ada.project, text=f"{word} before", sources=[one.pk], **about)
        record(ada, "episode.cancelled", one.pk, f"{word} reason")
    indexing.work()
    return [*both, [built(ada, **recipe) for recipe in RECIPES]]


def erased(capture, actor, episode):
    with capture(execute=True):
        return erase_episode(actor, episode.pk)


def test_no_byte_has_a_word_of_an_erased_episode(ada, lives, store, django_capture_on_commit_callbacks):
    gone, kept, exports = lives
    before = places_of(GONE, store)
    assert before >= {"episodes_step", "episodes_stepwords", "experts_advice", "reviews_correction", "runs_briefing"}
    tombstone = erased(django_capture_on_commit_callbacks, system(ada.project), gone)
    for one in tombstone.datasets:
        assert working.build(one["next"])
    assert places_of(GONE, store) == set()
    assert places_of(KEPT, store) >= {"episodes_step", "episodes_stepwords", "experts_advice", "train.jsonl"}
    assert not Export.objects.filter(pk__in=[one.pk for one in exports]).exists()
    assert {one["format"] for one in tombstone.datasets} == {"sft", "raw", "inspect"}
    assert all(one["fallen"] == len(one["rows"]) > 0 and one["of"] > one["fallen"] for one in tombstone.datasets)
    assert tombstone.fell["episodes.Episode"] == 1 and tombstone.fell["experts.Advice"] == 4
    assert (tombstone.key_digest, tombstone.subject) == (digest_of("a"), gone.pk)
    assert Episode.objects.get() == kept


def test_export_in_work_starts_again_without_the_episode(ada, lives, django_capture_on_commit_callbacks):
    gone, _, _ = lives
    late = requesting.request(ada, Recipe.read({"format": "kto"}))
    assert requesting.claim(late.pk) is not None
    tombstone = erased(django_capture_on_commit_callbacks, ada, gone)
    late.refresh_from_db()
    (stopped,) = [one for one in tombstone.datasets if one.get("stopped")]
    assert (late.state, stopped["export"]) == ("cancelled", late.pk)
    assert Export.objects.get(pk=stopped["next"]).recipe == late.recipe


def while_erasing(monkeypatch, work):
    """Do work when rows are deleted, as another process that commits before the erase does."""
    erase = erasing_episodes.erase

    def busy(*given):
        deleted = erase(*given)
        work()
        return deleted

    monkeypatch.setattr(erasing_episodes, "erase", busy)


def test_export_claimed_during_an_erase_is_stopped(ada, lives, monkeypatch):
    gone, _, _ = lives
    late = requesting.request(ada, Recipe.read({"format": "kto"}))
    while_erasing(monkeypatch, lambda: requesting.claim(late.pk))
    tombstone = erase_episode(ada, gone.pk)
    assert [one["export"] for one in tombstone.datasets if one.get("stopped")] == [late.pk]


def test_export_that_ends_during_an_erase_falls(ada, lives, monkeypatch, django_capture_on_commit_callbacks, store):
    gone, _, _ = lives
    late = built(ada, format="kto")
    row = Export.objects.filter(pk=late.pk)
    row.update(state="building")
    while_erasing(monkeypatch, lambda: row.update(state="done"))
    tombstone = erased(django_capture_on_commit_callbacks, ada, gone)
    assert late.dataset in [one.get("dataset") for one in tombstone.datasets]
    assert not (store / "datasets" / ada.project.pk / late.dataset / "rows.jsonl").exists() and not row.exists()


def test_erase_locks_a_trace_before_its_episode(ada, lives):
    gone, _, _ = lives
    with CaptureQueriesContext(connection) as asked:
        erase_episode(ada, gone.pk)
    locks = [one["sql"] for one in asked if "FOR UPDATE" in one["sql"]]
    tables = [re.search(r'FROM "(\w+)"', sql)[1] for sql in locks]
    assert tables[:2] == ["imports_trace", "episodes_episode"]
    # from here to the commit no export is claimed
    (held,) = [place for place, one in enumerate(asked) if "pg_advisory_xact_lock(" in one["sql"]]
    looked = [place for place, one in enumerate(asked) if 'FROM "exports_export"' in one["sql"]]
    assert held < min(looked)


def test_worker_that_built_a_dropped_dataset_removes_it(ada, lives, store, monkeypatch):
    gone, _, _ = lives
    late = requesting.request(ada, Recipe.read({"format": "kto"}))
    finish = requesting.finish

    def erased_meanwhile(export, manifest):
        requesting.cancel(ada, export.pk)
        return finish(export, manifest)

    monkeypatch.setattr(requesting, "finish", erased_meanwhile)
    working.build(late.pk)
    late.refresh_from_db()
    left = (store / "datasets" / ada.project.pk / late.dataset).rglob("*")
    assert late.state == "cancelled" and not [path for path in left if path.is_file()]
    assert Episode.objects.filter(pk=gone.pk).exists()


def test_command_prints_what_fell_from_where(ada, lives):
    gone, _, _ = lives
    out = io.StringIO()
    call_command("erase", "--episode", gone.pk, stdout=out)
    said = out.getvalue()
    assert "episodes.Step " in said and "1 of 2 rows; again: export " in said and GONE not in said.lower()
    with pytest.raises(CommandError, match="not found"):
        call_command("erase", "--episode", gone.pk)
    assert Tombstone.objects.get().by == "awmweb"


def test_only_admins_erase_what_has_ended(ada, elsewhere, store):
    live, _ = recording.start_episode(ada, EpisodeStart(key="live", task="Merge."))
    for role in ("researcher", "expert"):
        with pytest.raises(Forbidden):
            erase_episode(person(ada.project, role, role), live.pk)
    with pytest.raises(NotFound):
        erase_episode(system(elsewhere), live.pk)
    with pytest.raises(Invalid, match="still running"):
        erase_episode(ada, live.pk)
    assert not Tombstone.objects.exists()


def test_admin_deletes_an_episode_on_its_page(ada, lives, django_capture_on_commit_callbacks):
    deleted, kept, _ = lives
    expert = as_person(person(ada.project, "eva", "expert"))
    address = f"/projects/{ada.project.slug}/episodes/{deleted.pk}/"
    assert "Delete this episode?" not in html(expert.get(address))
    assert expert.post(f"{address}erase").status_code == 403
    page = as_person(ada)
    assert "Delete this episode?" in html(page.get(address))
    with django_capture_on_commit_callbacks(execute=True):
        after = page.post(f"{address}erase", follow=True)
    assert f"and its rows of {len(RECIPES)} datasets." in html(after)
    assert list(Episode.objects.all()) == [kept] and page.get(address).status_code == 404


def test_late_span_does_not_bring_an_erased_episode_back(ada, project, store, django_capture_on_commit_callbacks):
    sender, _ = token(project, "agent")
    spans = gen_ai("Merge.")
    collecting.take(sender, otlp.of_json(request(*spans)))
    Trace.objects.update(heard_at=timezone.now() - timedelta(seconds=3))
    assert collecting.settle() == 1
    erased(django_capture_on_commit_callbacks, ada, Episode.objects.get())
    assert not Trace.objects.exists()
    late = otlp.of_json(request(spans[5]))
    collecting.take(sender, late)
    assert late.left_out == {collecting.ERASED: 1} and not Trace.objects.exists()


def test_span_that_arrives_during_an_erase_is_left_out(ada, project, monkeypatch):
    sender, _ = token(project, "agent")
    spans = otlp.of_json(request(*gen_ai("Merge.")))
    digest = digest_of(key_of(spans.kept[0].trace))
    seen = []

    def before_and_after(actor, names, asked=collecting._erased):
        seen.append(1)
        if len(seen) == 1:  # the erase has not committed when the request is looked at first
            Tombstone.objects.create(project=project, kind="episode", subject="e", by="ada", key_digest=digest)
            return []
        return asked(actor, names)

    monkeypatch.setattr(collecting, "_erased", before_and_after)
    collecting.take(sender, spans)
    assert spans.left_out == {collecting.ERASED: 6} and not Trace.objects.exists()


def test_spans_of_a_trace_that_was_just_deleted_are_sent_again(project, monkeypatch):
    sender, _ = token(project, "agent")
    monkeypatch.setattr(Trace.objects, "bulk_create", lambda *given, **more: None)
    with pytest.raises(Busy):
        collecting.take(sender, otlp.of_json(request(*gen_ai("Merge."))))


def test_dataset_whose_files_are_gone_is_no_obstacle(ada, lives, store):
    gone, _, exports = lives
    for path in (store / "datasets").rglob("rows.jsonl"):
        path.unlink()
    assert datasets.with_rows_of(ada.project, {gone.pk}) == []
    assert exports


WRITTEN = ("AnswerBody", "AnswerFile", "decision.", "note", "correction")
"""Fields of `lived` that the expert writes."""


@pytest.fixture
def written(ada, store):
    """An episode with a word in everything that one expert wrote about it."""
    expert = person(ada.project, "edo", "expert")
    one = lived(ada, expert, "a", lambda path: f"{GONE} {path}" if path.startswith(WRITTEN) else path)
    annotating.annotate(expert, one, Place(1), "comment", f"{GONE} comment")
    QuickReply.objects.create(project=ada.project, author_key=expert.key, author="edo", text=f"{GONE} reply")
    ask = one.asks.order_by("seq").first()
    Draft.objects.create(ask=ask, author="edo", author_key=expert.key, text=f"{GONE} draft")
    record(expert, "ask.escalated", ask.pk, f"{GONE} reason")
    indexing.work()
    return one, [built(ada, **recipe) for recipe in RECIPES]


def test_no_byte_has_a_word_of_an_erased_person(ada, written, store, django_capture_on_commit_callbacks):
    one, _ = written
    ask = one.asks.filter(kind="question").get()
    assert known_answer(ask, "all") is not None
    assert places_of(GONE, store) >= {"episodes_step", "episodes_stepwords", "experts_advice", "reviews_annotation"}
    with django_capture_on_commit_callbacks(execute=True):
        (tombstone,) = erase_person("edo")
    for export in tombstone.datasets:
        assert working.build(export["next"])
    indexing.work()
    assert places_of(GONE, store) == set()
    assert known_answer(ask, "all") is None
    assert (tombstone.fell["experts.Advice: words"], tombstone.fell["episodes.Step: answers"]) == (4, 4)
    assert one.pk in tombstone.left[0]
    # what others said of it is still found, and its agent's ask is still answered
    assert Advice.objects.filter(ask__accepted__isnull=False).count() == 4
    assert one.facts.read_seq == one.last_seq
    assert erase_person("edo") == []


def branch_of(actor, parent, cut, correction=None, change=None):
    """Fork an episode at a step; its two branches begin with the steps before."""
    about = {"seq": cut, "tries": 1, "knowledge": "blind", "grade": "exact", "created_by": actor.name}
    made = Fork(project=actor.project, parent=parent, change=change or {}, correction=correction or "", **about)
    arms = [branching.ArmPlan(arm, [], Knowledge.BLIND) for arm in (BranchArm.TREATED, BranchArm.CONTROL)]
    return made, branching.fork(actor, made, cut, arms)


def test_copies_of_a_person_in_forks_and_labels_are_erased(ada, written, store, django_capture_on_commit_callbacks):
    one, _ = written
    expert = person(ada.project, "edo", "expert")
    _, branches = branch_of(ada, one, one.last_seq)
    _, further = branch_of(ada, branches[0], one.last_seq - 1)
    fix = Correction.objects.get(episode=one)
    proof, proved = branch_of(ada, one, 2, fix.pk, {"call": {"name": "look", "arguments": {"of": f"{GONE} call"}}})
    free = schemas.define(ada, "free", "Free words", "text", [])
    annotating.annotate(expert, one, Place(1), "free", f"{GONE} label", schema=free)
    annotating.annotate(expert, one, Place(1), "own_words", f"{GONE} label")
    annotating.annotate(expert, one, Place(1), "question_needed", "yes")
    assert places_of(GONE, store) >= {"episodes_step", "episodes_fork", "reviews_annotation"}
    with django_capture_on_commit_callbacks(execute=True):
        (tombstone,) = erase_person("edo")
    for export in tombstone.datasets:
        assert working.build(export["next"])
    indexing.work()
    assert places_of(GONE, store) == set()
    # four answers in the episode and in its two branches, three in the branches of a branch
    assert tombstone.fell["episodes.Step: answers"] == 4 * 3 + 3 * 2
    proof.refresh_from_db()
    assert (proof.change, labels(proof.change)[0]) == ({"erased": "call"}, "Erased change")
    assert any("began with their corrections" in line and proved[0].pk in line for line in tombstone.left)
    assert all(branch.pk in tombstone.left[0] for branch in (*branches, *further))
    assert Annotation.objects.get(label="question_needed", author_key=expert.key, text="yes")


def test_other_advice_of_a_fork_stays_with_its_author(ada, written, store):
    one, _ = written
    ask = one.asks.filter(kind="question").get()
    body = json.loads(Step.objects.get(episode=one, seq=ask.seq).body)
    other = {**body, "advice": {**body["advice"], "text": KEPT, "author": ada.name}}
    made = Fork(project=ada.project, parent=one, seq=ask.seq, tries=1, knowledge="blind", grade="exact")
    (branch,) = branching.fork(ada, made, ask.seq, [branching.ArmPlan(BranchArm.TREATED, [other], Knowledge.BLIND)])
    erase_person("edo")
    assert KEPT in Step.objects.get(episode=branch, seq=ask.seq).body


def test_rows_by_a_shared_name_stay_and_are_named(ada, store):
    expert = person(ada.project, "edo", "expert")
    other = person(ada.project, "edo2", "expert")
    other.person.first_name = "edo"
    other.person.save()
    record(expert, "ask.escalated", "a1", f"{GONE} reason")
    QuickReply.objects.create(project=ada.project, author_key=expert.key, author="edo", text=f"{GONE} reply")
    (tombstone,) = erase_person("edo")
    assert "the name edo, which another account has" in tombstone.left[0]
    assert places_of(GONE, store) == {"people_auditentry"}
    out = io.StringIO()
    call_command("erase", "--person", "edo", stdout=out)
    assert out.getvalue() == "Nothing that this account wrote is left.\n"
    with pytest.raises(CommandError, match="Account 'nobody' not found"):
        call_command("erase", "--person", "nobody")


def test_rows_by_earlier_names_are_emptied(ada, store):
    """One is known by rows with their key, others by the audit trail alone, and one is that of another account."""
    expert = person(ada.project, "edo", "expert")
    person(ada.project, "max", "expert")
    for name in ("Edo Bruni", "Edo Conti", "Edo Dati"):
        members.rename(expert.person, name)
        expert.person.refresh_from_db()
    for name in ("Edo Alba", "max"):
        QuickReply.objects.create(project=ada.project, author_key=expert.key, author=name, text=f"reply of {name}")
    for name in ("edo", "Edo Alba", "Edo Bruni", "Edo Dati", "max"):
        about = {"verb": "ask.escalated", "target": name, "reason": f"{KEPT if name == 'max' else GONE} why"}
        AuditEntry.objects.create(project=ada.project, actor=name, **about)
    (tombstone,) = erase_person("edo")
    assert places_of(GONE, store) == set() and places_of(KEPT, store) == {"people_auditentry"}
    assert "rows that have only the name max, which another account has, too" in tombstone.left


def test_names_beside_keys_are_all_known():
    pairs = {
        (model, field.name)
        for model in apps.get_models()
        for field in model._meta.concrete_fields
        if field.name in ("author", "actor") and f"{field.name}_key" in {one.name for one in model._meta.fields}
    }
    assert pairs == set(KEYED)


def kept_database(episode, word):
    """Give an episode a recorded world, and have the environment server's own store keep a database of it."""
    start = WorldStart(1, f"base of {episode.pk}", "seed", 2)
    Episode.objects.filter(pk=episode.pk).update(scenario="shop", world={**start.wire(), "final": "f"})
    store = Snapshots(django_settings.AWMENV_CACHE_DIR / kept.FOLDER)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "world.db"
        with contextlib.closing(sqlite3.connect(file)) as database:
            database.execute("CREATE TABLE t AS SELECT ? AS word", [word])
            database.commit()
        session = Session(SimpleNamespace(sessions=set(), settings=None))
        session.case.scenario, session.start = "shop", start
        store.keep(session.owner, file, digest_of_bytes(file.read_bytes()))
    return store


def words_in(store):
    """Return which of the two words the kept databases have."""
    databases = [zlib.decompress(path.read_bytes()) for path in store.folder.iterdir()]
    return {word for word in (GONE, KEPT) if any(word.encode() in one for one in databases)}


def test_databases_of_its_world_go_with_an_episode(ada, lives, settings, tmp_path):
    settings.AWMENV_CACHE_DIR = tmp_path
    one, other, _ = lives
    store = [kept_database(episode, word) for episode, word in ((one, GONE), (other, KEPT))][0]
    assert words_in(store) == {GONE, KEPT}
    tombstone = erase_episode(ada, one.pk)
    assert words_in(store) == {KEPT} and tombstone.fell["databases of interrupted worlds"] == 1


def test_what_a_person_did_stays_and_is_named(ada, lives):
    one, other, _ = lives
    max_ = person(ada.project, "max", "researcher")
    about = {"author": "max", "author_key": max_.key, "acted_by": "p1", "nonce": "1"}
    WheelOrder.objects.create(episode=one, said={"words": GONE}, **about)
    fork = {"project": ada.project, "seq": 1, "tries": 1, "knowledge": "blind", "grade": "exact"}
    Fork.objects.create(parent=other, created_by=max_.name, **fork)
    (stone,) = erase_person(User.objects.get(pk=max_.person.pk).username)
    assert stone.left[:2] == [
        f"1 episodes in which they acted for the agent, erase them with --episode: {one.pk}",
        f"1 episodes that they forked, with what they changed, erase them with --episode: {other.pk}",
    ]


def test_decision_keeps_its_verdicts_without_words():
    call = {"id": "1", "verdict": "edit", "arguments": {"a": "secret"}, "reason": "secret"}
    assert without_words({"calls": [call]}) == {"calls": [{"id": "1", "verdict": "edit"}]}
    assert without_words({"chosen": ["o"], "other": "secret"}) == {"chosen": ["o"], "other": "[erased]"}
    assert without_words({"value": {"a": "secret"}}) == {"value": "[erased]"}
    assert without_words(None) is None

"""Rules erase what is old enough, leave out what someone is at, and never take a byte of what is held."""

from __future__ import annotations

import io
import json
from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction
from django.utils import timezone

from awmclient.schema import STEP, EpisodeStart
from awmweb.demo import removing
from awmweb.erasing.episodes import erase_episode
from awmweb.erasing.persons import erase_person
from awmweb.retention import emptying, pages, passes, reasons, rule_pass, rules, telling
from awmweb.retention.kinds import KINDS
from awmweb.tasks import retain
from episodes.errors import StepsErased
from episodes.models import Episode, Rejudging, SavedView, Step
from episodes.record import admitting, indexing, recording
from episodes.stored.arrivals import lines_of
from episodes.stored.entries import entry_of
from episodes.visible import trajectory
from experts.models import Advice, Ask, Draft
from exports.jobs import requesting
from exports.models import Export
from exports.recipe import Recipe
from imports.models import Trace
from people.errors import Forbidden, Invalid, OnHold
from people.models import AuditEntry, Hold, RetentionRule, Tombstone
from people.record import holding, projects
from reviews.models import Review, ReviewQueue, ReviewSlot
from runs.models import Campaign, CampaignPoint, Plan
from tests.awmweb.test_erasing import branch_of, dumped, planting
from tests.browsing import as_person, html
from tests.exports.pages.test_export_pages import built, store
from tests.exports.test_canaries import lived
from tests.people_by_name import person

__all__ = ["store"]
pytestmark = pytest.mark.django_db
OLD, KEPT = "quokka", "wombat"
LONG_AGO = timedelta(days=40)


@pytest.fixture
def lives(ada, store):
    """Two episodes that ended 40 days ago, with a word each in every field."""
    expert = person(ada.project, "edo", "expert")
    both = [lived(ada, expert, key, planting(word)) for key, word in zip("ab", (OLD, KEPT), strict=True)]
    indexing.work()
    age()
    return both


def age():
    then = timezone.now() - LONG_AGO
    Episode.every.exclude(ended_at=None).update(ended_at=then)
    Ask.objects.exclude(closed_at=None).update(closed_at=then)
    Export.objects.exclude(ended_at=None).update(ended_at=then)


def end_branches(**fields):
    then = timezone.now() - LONG_AGO
    Episode.every.exclude(fork=None).update(**{"state": "cancelled", "ended_at": then, **fields})


def rule(actor, kind, days=30, states=None):
    rules.set_rule(actor, kind, days, states or KINDS[kind].states)


def ran(actor):
    return {report.rule.kind: report for report in passes.work([actor.project])}


def hold_on(actor, episode):
    return holding.place(actor, Hold.Place.EPISODE, "Case 12.", subject=episode.pk)


def record_of(episode):
    """Every row that the database has of an episode, as it writes it into a dump."""
    keys = [episode.pk, *(str(pk) for pk in Ask.objects.filter(episode=episode).values_list("pk", flat=True))]
    rows = Counter()
    for table, text in dumped().items():
        if table not in ("people_auditentry", "people_tombstone"):
            rows.update((table, line) for line in text.splitlines() if any(key.encode() in line for key in keys))
    return rows


def test_steps_rule_takes_words_and_leaves_counts(ada, lives):
    one, other = lives
    hold_on(ada, other)
    rule(ada, "steps")
    before = list(Step.objects.filter(episode=one).values_list("seq", "kind", "at"))
    report = ran(ada)["steps"]
    assert (report.erased, report.steps, dict(report.left)) == (1, one.last_seq, {reasons.HELD: 1})
    one.refresh_from_db()
    assert list(Step.objects.filter(episode=one).values_list("seq", "kind", "at")) == before
    assert one.steps_erased_at is not None and one.world == {}
    for step in trajectory.steps_of(one):
        STEP.validate_python(step)
    assert not one.asks.filter(advice__source="llm", advice__text__contains=OLD).exists()
    (tombstone,) = Tombstone.objects.all()
    assert (tombstone.kind, tombstone.subject, tombstone.about["ids"]) == ("rule", "steps", [one.pk])
    assert tombstone.fell["episodes.Step: words"] == one.last_seq and tombstone.fell["episodes.StepWords"] > 0
    assert AuditEntry.objects.get(verb="retention.erased").reason == "1 after 30 days"
    assert OLD not in str(tombstone.fell) + str(tombstone.about)


def test_emptied_steps_have_no_word_and_say_the_same(lives):
    for body in Step.objects.exclude(kind="verification").values_list("body", flat=True):
        read = emptying.read(body)
        left = emptying.emptied(read)
        assert emptying.emptied(left) == left
        names = ("name", "reward_type", "acted_by", "author", "thread")
        words = {name: value for name, value in left.items() if name not in names}
        words["advice"] = (words.get("advice") or {}).get("text")
        assert OLD not in str(words) and KEPT not in str(words)
        assert emptying.is_cancelled(left) == emptying.is_cancelled(read)


def test_emptied_episode_is_in_no_new_export(ada, lives):
    one, other = lives
    hold_on(ada, other)
    rule(ada, "steps")
    ran(ada)
    export = built(ada)
    assert export.rows == 1 and export.manifest["left_out"] == {"steps_erased": 1}


def test_preview_counts_the_same_and_writes_nothing(ada, lives):
    one, other = lives
    hold_on(ada, other)
    branch_of(ada, one, 2)
    end_branches()
    built(ada)
    age()
    for kind in KINDS:
        rule(ada, kind)
    before = dumped()
    said = io.StringIO()
    call_command("retention", "--preview", stdout=said)
    assert dumped() == before
    shown = {report.rule.kind: (report.erased, report.left) for report in passes.preview(ada.project)}
    assert shown["steps"] == (1, {reasons.HELD: 1}) and shown["branches"] == (2, {})
    assert shown["exports"] == (0, {reasons.HELD: 1})
    assert "lab: branches after 30 days: would erase 2 branches with" in said.getvalue()
    assert "left out 1: on legal hold" in said.getvalue() and "Case 12." in said.getvalue()
    done = {kind: (report.erased, report.left) for kind, report in ran(ada).items()}
    assert done == shown


def test_preview_on_the_page_ends_in_time_and_says_so(ada, lives, monkeypatch):
    age()
    rule(ada, "steps")
    monkeypatch.setattr(rule_pass, "LOOKED_AT", 1)
    whole = html(as_person(ada).get("/retention/?preview=1"))
    assert "Would erase 2 episodes" in whole and "stopped after" not in whole
    monkeypatch.setattr(pages, "PREVIEW_S", 0.0)
    page = html(as_person(ada).get("/retention/?preview=1"))
    assert "Would erase at least 1 episode" in page
    assert "The preview stopped after 0 s, so some counts are too low." in page
    assert "python manage.py retention --project lab --preview" in page


def test_branches_go_with_their_rows_of_datasets(ada, lives, django_capture_on_commit_callbacks, store):
    one, _ = lives
    fork, branches = branch_of(ada, one, one.last_seq)
    end_branches()
    rule(ada, "branches")
    with django_capture_on_commit_callbacks(execute=True):
        report = ran(ada)["branches"]
    assert report.erased == len(branches) == 2
    assert not Episode.every.filter(fork=fork).exists() and Episode.objects.count() == 2
    fork.refresh_from_db()
    assert fork.tries == 1


def test_dataset_with_a_branch_falls_and_is_named(ada, lives, django_capture_on_commit_callbacks):
    one, _ = lives
    fork, branches = branch_of(ada, one, one.last_seq)
    end_branches()
    export = built(ada, format="raw", filter={"origin": ["branch"]})
    age()
    rule(ada, "branches")
    with django_capture_on_commit_callbacks(execute=True):
        ran(ada)
    (fallen,) = Tombstone.objects.get().datasets
    assert (fallen["dataset"], fallen["fallen"], fallen["of"]) == (export.dataset, 2, 2)
    assert Export.objects.get(pk=fallen["next"]).recipe == export.recipe


def test_exports_rule_deletes_files_and_says_what_fell(ada, lives, store, django_capture_on_commit_callbacks):
    export = built(ada)
    age()
    young = built(ada, format="raw")
    rule(ada, "exports")
    with django_capture_on_commit_callbacks(execute=True):
        report = ran(ada)["exports"]
    assert report.erased == 1 and list(Export.objects.all()) == [young]
    left = (store / "datasets" / ada.project.pk / export.dataset).rglob("*")
    assert not [path for path in left if path.is_file()]
    (fallen,) = Tombstone.objects.get().datasets
    assert (fallen["dataset"], fallen["of"], fallen["exports"]) == (export.dataset, export.rows, [export.pk])


def test_files_shared_with_a_younger_export_stay(ada, lives, store, django_capture_on_commit_callbacks):
    export = built(ada)
    age()
    again = built(ada)
    assert again.dataset == export.dataset
    rule(ada, "exports")
    with django_capture_on_commit_callbacks(execute=True):
        ran(ada)
    assert list(Export.objects.all()) == [again]
    assert export.dataset in {path.parent.name for path in store.rglob("rows.jsonl")}


def test_generations_rule_takes_what_no_agent_got(ada, lives):
    one, _ = lives
    ask = one.asks.order_by("seq").first()
    Draft.objects.create(ask=ask, author="m", author_key="model:m", text=f"{OLD} draft")
    Draft.objects.create(ask=ask, author="edo", author_key="user:1", text="mine")
    Advice.objects.create(ask=ask, text=f"{OLD} late", source="llm", author="m", author_key="model:m", late=True)
    rule(ada, "generations")
    report = ran(ada)["generations"]
    assert report.erased == 1 and Tombstone.objects.get().fell == {"experts.Advice: words": 1, "experts.Draft": 1}
    assert Draft.objects.get().author == "edo"
    late = Advice.objects.get(source="llm")
    assert (late.text, late.reason) == ("[erased]", "erased")
    assert Advice.objects.filter(text__contains=OLD).exists() and ran(ada)["generations"].erased == 0


def live_run(ada, one):
    about = {"document": {}, "digest": "d", "control": "c", "seeds": 1, "parallel": 1, "state": "paused"}
    Plan.objects.create(run=one.run, **about)


def open_review(ada, one):
    queue = ReviewQueue.objects.create(project=ada.project, name="q")
    review = Review.objects.create(queue=queue, episode=one)
    ReviewSlot.objects.create(review=review, number=1, queue=queue)


def open_ask(ada, one):
    Ask.objects.filter(pk=one.asks.first().pk).update(status="open")


def judged_again(ada, one):
    task = {"scenario": one.scenario, "task_idx": one.task_idx}
    Rejudging.objects.create(project=ada.project, created_by="ada", **task)


def live_branch(ada, one):
    branch_of(ada, one, 2)


def young_branch(ada, one):
    branch_of(ada, one, 2)
    end_branches(ended_at=timezone.now())


def campaign(ada, one):
    about = {"query": "", "place": "error", "kind": "words", "tries": 1, "matched": 1, "chosen": 1}
    made = Campaign.objects.create(project=ada.project, name="c", author="ada", author_key=ada.key, **about)
    CampaignPoint.objects.create(campaign=made, root=one, share=0)


def waiting_spans(ada, one):
    about = {"heard_at": timezone.now(), "is_waiting": True, "episode": one}
    token = ada.project.tokens.first()
    Trace.objects.create(project=ada.project, token=token, name="0" * 32, **about)


@pytest.mark.parametrize(
    ("work", "reason"),
    [
        (live_run, "its run is going on"),
        (open_review, "a review of it is open"),
        (open_ask, "an ask of it is open"),
        (judged_again, "its task is being judged again"),
        (live_branch, "it or a branch of it has not ended, or waits for its verifier"),
        (young_branch, "a branch of it ended later"),
        (campaign, "a campaign makes forks of it"),
        (waiting_spans, "spans of it are waiting"),
    ],
)
def test_what_someone_is_at_is_left_out(ada, lives, work, reason):
    one, _ = lives
    work(ada, one)
    rule(ada, "steps")
    before = record_of(one)
    report = ran(ada)["steps"]
    assert report.left[reason] >= 1 and record_of(one) == before


def test_branch_beside_a_live_one_is_left_out(ada, lives):
    one, _ = lives
    _, branches = branch_of(ada, one, 2)
    Episode.every.filter(pk=branches[0].pk).update(state="cancelled", ended_at=timezone.now() - LONG_AGO)
    rule(ada, "branches")
    assert ran(ada)["branches"].left == {"another branch of its fork is live": 1}


def test_nothing_is_erased_while_an_export_is_built(ada, lives):
    late = requesting.request(ada, Recipe.read({"format": "kto"}))
    assert requesting.claim(late.pk) is not None
    rule(ada, "steps")
    assert ran(ada)["steps"].left == {reasons.IN_WORK: 2}
    assert not Episode.objects.exclude(steps_erased_at=None).exists()


def test_young_and_other_states_are_kept(ada, lives):
    one, _ = lives
    rule(ada, "steps", days=50)
    assert ran(ada)["steps"].erased == 0
    rule(ada, "steps", states=["failed"])
    assert ran(ada)["steps"].erased == 0 and not Tombstone.objects.exists()


def test_hold_on_a_project_stops_all_that_erases(ada, lives, store):
    one, _ = lives
    export = built(ada)
    age()
    for kind in KINDS:
        rule(ada, kind)
    hold = holding.place(ada, Hold.Place.PROJECT, "Case 12.")
    before = {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}, record_of(one)
    for erase in (
        lambda: erase_episode(ada, one.pk),
        lambda: erase_person("edo"),
        lambda: requesting.delete(ada, export.pk),
    ):
        with pytest.raises(OnHold, match=r"Legal hold on the project since .* by ada: Case 12\."):
            erase()
    assert all(report.erased == 0 for report in ran(ada).values()) and not Tombstone.objects.exists()
    assert before == ({path: path.read_bytes() for path in store.rglob("*") if path.is_file()}, record_of(one))
    with pytest.raises(CommandError, match="Legal hold"):
        call_command("erase", "--episode", one.pk)
    holding.release(ada, hold.pk)
    requesting.delete(ada, export.pk)
    assert ran(ada)["steps"].erased == 2
    assert erase_episode(ada, one.pk).subject == one.pk


def test_hold_covers_branches_parents_and_datasets(ada, lives):
    one, other = lives
    _, branches = branch_of(ada, one, 2)
    Episode.every.filter(fork__parent=one).update(state="cancelled")
    hold = holding.place(ada, Hold.Place.EPISODE, "Case 12.", subject=branches[0].pk)
    with pytest.raises(OnHold):
        erase_episode(ada, one.pk)
    with pytest.raises(OnHold):
        erase_episode(ada, branches[0].pk)
    erase_episode(ada, branches[1].pk)
    holding.release(ada, hold.pk)
    hold_on(ada, one)
    with pytest.raises(OnHold):
        erase_episode(ada, branches[0].pk)
    export = built(ada)
    with pytest.raises(OnHold, match="The dataset has rows of episodes on hold"):
        requesting.delete(ada, export.pk)
    requesting.delete(ada, built(ada, filter={"id": [other.pk]}).pk)


def test_hold_on_a_view_keeps_its_filters(ada, lives):
    one, other = lives
    view = SavedView.objects.create(
        project=ada.project, author_key=ada.key, author="ada", name="mine", query=f"?key={one.key}&sort=-asks"
    )
    hold = holding.place(ada, Hold.Place.VIEW, "Case 12.", subject=view.pk, name=view.name, query=view.query)
    view.delete()
    rule(ada, "steps")
    report = ran(ada)["steps"]
    assert (report.erased, report.left) == (1, {reasons.HELD: 1})
    one.refresh_from_db()
    assert one.steps_erased_at is None and str(hold) == "view mine"


def test_view_that_cannot_be_read_holds_everything(ada, lives):
    holding.place(ada, Hold.Place.VIEW, "Case 12.", subject="v", name="lost", query="?run=no such run")
    rule(ada, "steps")
    assert ran(ada)["steps"].left == {reasons.HELD: 2}


def test_rules_of_an_archived_project_rest(ada, lives):
    rule(ada, "steps")
    projects.archive(ada)
    ada.project.refresh_from_db()
    retain()
    assert ran(ada)["steps"].left == {passes.ARCHIVED: 2} and not Tombstone.objects.exists()
    # a hold can be placed in it all the same
    assert holding.place(ada, Hold.Place.PROJECT, "Case 12.").pk


def test_nightly_task_runs_the_rules(ada, lives):
    rule(ada, "steps")
    retain()
    assert Episode.objects.exclude(steps_erased_at=None).count() == 2
    retain()
    assert Tombstone.objects.count() == 1


def test_new_kind_of_rule_is_one_entry_of_the_registry(ada, monkeypatch):
    newest = replace(KINDS["exports"], name="datasets", label="Old datasets", nouns=("dataset", "datasets"))
    monkeypatch.setitem(KINDS, newest.name, newest)
    page = html(as_person(ada).get("/retention/"))
    assert "Old datasets" in page and "Everything is kept" in page
    posted = {"do": "rule", "kind": "datasets", "days": "7", "states": ["done"]}
    assert as_person(ada).post("/retention/", posted).status_code == 302
    assert ran(ada)["datasets"].erased == 0
    assert [*telling.lines_of(ran(ada)["datasets"], done=True)] == ["lab: datasets after 7 days: erased 0 datasets"]


def test_killed_pass_is_continued_by_the_next(ada, lives, monkeypatch):
    monkeypatch.setattr(rule_pass, "STEPS_MAX", 1)
    rule(ada, "steps")
    bury, made = rule_pass.bury, []

    def killed(*given):
        if made:
            raise KeyboardInterrupt
        made.append(given)
        bury(*given)

    monkeypatch.setattr("awmweb.retention.kinds.episodes.bury", killed)
    with pytest.raises(KeyboardInterrupt):
        ran(ada)
    assert Episode.objects.exclude(steps_erased_at=None).count() == 1
    # the batch in which it was killed is as it was
    whole = Episode.objects.get(steps_erased_at=None)
    assert KEPT in str(list(whole.steps.values_list("body"))) or OLD in str(list(whole.steps.values_list("body")))
    monkeypatch.setattr("awmweb.retention.kinds.episodes.bury", bury)
    assert ran(ada)["steps"].erased == 1 and Tombstone.objects.count() == 2


def test_rule_is_set_by_admins_within_bounds(ada):
    for role in ("researcher", "expert"):
        with pytest.raises(Forbidden):
            rule(person(ada.project, role, role), "steps")
    for days, states in ((0, ["finished"]), (40_000, ["finished"]), (3, ["running"])):
        with pytest.raises(Invalid):
            rules.set_rule(ada, "steps", days, states)
    with pytest.raises(Invalid):
        rules.set_rule(ada, "everything", 3, ["finished"])
    rule(ada, "steps", 30, ["finished"])
    rule(ada, "steps", 30, ["finished"])
    assert AuditEntry.objects.filter(verb="retention.changed").count() == 1
    rules.set_rule(ada, "steps", None, [])
    assert not RetentionRule.objects.exists() and AuditEntry.objects.filter(verb="retention.changed").count() == 2
    with pytest.raises(IntegrityError), transaction.atomic():
        RetentionRule.objects.create(project=ada.project, kind="steps", days=0, changed_by="ada")


def test_hold_needs_an_admin_and_a_reason(ada):
    with pytest.raises(Forbidden):
        holding.place(person(ada.project, "rae", "researcher"), Hold.Place.PROJECT, "Case 12.")
    with pytest.raises(Invalid):
        holding.place(ada, Hold.Place.PROJECT, "  ")
    hold = holding.place(ada, Hold.Place.PROJECT, "Case 12.")
    with pytest.raises(Invalid, match="in force already"):
        holding.place(ada, Hold.Place.PROJECT, "Case 13.")
    with pytest.raises(OnHold):
        removing.holding.refuse_any_hold(ada.project)
    holding.release(ada, hold.pk)
    holding.release(ada, hold.pk)
    verbs = list(AuditEntry.objects.filter(verb__startswith="hold.").values_list("verb", flat=True))
    assert sorted(verbs) == ["hold.placed", "hold.released"]


def test_command_without_rules_says_so(ada):
    out = io.StringIO()
    call_command("retention", stdout=out)
    assert out.getvalue() == "No retention rules. Everything is kept.\n"
    with pytest.raises(CommandError, match="not found"):
        call_command("retention", "--project", "none")


def test_admin_sets_rules_and_holds_on_the_page(ada, lives):
    one, _ = lives
    page, address = as_person(ada), f"/projects/{ada.project.slug}/retention/"
    assert "Everything is kept." in html(page.get(address))
    assert as_person(person(ada.project, "eva", "expert")).get(address).status_code == 403
    page.post(address, {"do": "rule", "kind": "steps", "days": "30", "states": ["finished"]})
    assert "1 of 4 retention rules are set." in html(page.get(address))
    assert f"Would erase 2 episodes with {2 * one.last_seq} steps." in html(page.get(address, {"preview": "1"}))
    wrong = page.post(address, {"do": "hold", "place": "episode", "episode": "none", "reason": "Case 12."})
    assert wrong.status_code == 422 and not Hold.objects.exists()
    page.post(address, {"do": "hold", "place": "episode", "episode": one.pk, "reason": "Case 12."})
    shown = html(page.get(address, {"preview": "1"}))
    assert "Left out 1: on legal hold." in shown and "Case 12." in shown
    here = html(page.get(f"/projects/{ada.project.slug}/episodes/{one.pk}/"))
    assert "On hold" in here and "by ada: Case 12." in here and 'data-opens="erase"' not in here
    told = page.post(f"/projects/{ada.project.slug}/episodes/{one.pk}/erase")
    assert told.status_code == 409 and Episode.objects.filter(pk=one.pk).exists()
    ran(ada)
    assert "No rule has erased anything." not in html(page.get(address))
    page.post(address, {"do": "release", "hold": Hold.objects.get().pk})
    assert Hold.objects.get().released_by == "ada"
    for given in ({"do": "rule", "kind": "steps", "days": "x"}, {"do": "hold", "place": "x"}, {"do": "y"}):
        assert page.post(address, given).status_code == 422


def lost_and_emptied(ada):
    """An episode of a loop that fell silent, and whose words a rule erased."""
    start = EpisodeStart(key="silent", task="t")
    episode, _ = recording.start_episode(ada, start)
    steps = [STEP.validate_python({"seq": 1, "kind": "note", "content": OLD})]
    recording.append_steps(ada, episode.pk, steps)
    Episode.every.filter(pk=episode.pk).update(state="failed", fault="worker", ended_at=timezone.now() - LONG_AGO)
    rule(ada, "steps")
    assert ran(ada)["steps"].erased == 1
    return episode


@pytest.mark.parametrize("seq", [1, 2])
def test_emptied_episode_takes_no_step_of_its_loop(ada, seq):
    episode = lost_and_emptied(ada)
    step = STEP.validate_python({"seq": seq, "kind": "note", "content": OLD})
    with pytest.raises(StepsErased, match="erased the words"):
        recording.append_steps(ada, episode.pk, [step])
    with pytest.raises(StepsErased):
        recording.heartbeat(ada, episode.pk)
    episode.refresh_from_db()
    assert (episode.state, episode.last_seq) == ("failed", 1)
    assert OLD not in json.dumps(trajectory.steps_of(episode))


def test_emptied_episode_takes_no_late_span(ada):
    episode = lost_and_emptied(ada)
    episode.refresh_from_db()
    entries = [entry_of({"seq": 2, "kind": "note", "content": OLD}, timezone.now())]
    with pytest.raises(StepsErased), transaction.atomic():
        admitting.add_late(ada, episode, entries[0].code, lines_of(episode.pk, entries), "1 span")
    assert Step.objects.filter(episode=episode).count() == 1

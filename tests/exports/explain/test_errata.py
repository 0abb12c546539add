"""A planted fault of a verifier is traced to every run and row that it changed, and to none besides."""

from __future__ import annotations

import json
import random
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from awmclient.schema import EpisodeStart, Finish, Outcome, RunStart, StepBatch, TrainingStepReport
from awmenv.attesting import sha256_of
from curriculum.record import training
from episodes.models import Episode, Erratum, OutcomeHold, RejudgedEpisode, Step, VerifierOutcome, VerifierVersion
from episodes.record import ending, recording, rejudging
from exports.assembly import datasets, storing
from exports.explain import errata, explaining
from exports.jobs import pushing
from exports.models import Export
from exports.recipe import Recipe
from exports.rules.redaction import Redactor
from exports.select.reading import Reader
from exports.select.selecting import entries_of, matching
from people.access import Actor, system
from reviews.record import court
from runs.models import ShapedReward
from runs.show import errata as errata_of_runs
from runs.show.comparison import compare_run
from tests.browsing import as_person, html
from tests.people_by_name import token
from tests.runs.planned import rows_of_run

TASK = ("planted_1", 1)
CODE = "def verify_task_completion(initial_db_path, final_db_path):\n    return {'result': 'complete'}\n"
STEPS = [
    {"seq": 1, "kind": "message", "role": "user", "content": "Shut it."},
    {"seq": 2, "kind": "message", "role": "assistant", "content": "I look."},
    {"seq": 3, "kind": "tool_call", "name": "look", "arguments": {}, "result": "open"},
    {"seq": 4, "kind": "message", "role": "assistant", "content": "Shut."},
]


def ended(actor: Actor, episode: Episode, *, complete: bool) -> Episode:
    if episode.state == "queued":
        assert recording.begin(episode.pk, "w")
    # words of its own: equal rows are one
    steps = [
        {**step, **({"content": f"{step['content']} {episode.key}"} if "content" in step else {})} for step in STEPS
    ]
    recording.append_steps(actor, episode.pk, StepBatch.model_validate({"steps": steps}).steps)
    ending.finish(actor, episode.pk, Finish(stop_reason="done"))
    found = Outcome(reward_type="complete" if complete else "others", reward=float(complete))
    ending.record_outcome(actor, episode.pk, found)
    return Episode.objects.get(pk=episode.pk)


def planned(actor: Actor, dice: random.Random):
    """A planned run of six tasks in two arms, with outcomes by chance."""
    plan = rows_of_run(actor, 6, scenarios=3, seeds=2)
    for one in Episode.objects.filter(run=plan.pk).order_by("key"):
        ended(system(actor.project), one, complete=dice.random() < 0.5)
    return plan.run


def trained(actor: Actor, complete: bool):
    """An episode of the task at a training step of a run without a plan."""
    run, _ = recording.start_run(actor, RunStart(name="trained"))
    about = {"scenario": TASK[0], "task_idx": TASK[1], "training_step": 3, "run": run.pk}
    one, _ = recording.start_episode(actor, EpisodeStart(key=f"at {run.pk}", task="Task 1", **about))
    return ended(system(actor.project), one, complete=complete)


def export(project, **recipe):
    made = {"format": "sft", "filter": {}, **recipe}
    row = Export(project=project, recipe=made, format=made["format"], state="done", dataset="d" * 64, manifest={})
    row.started_at = timezone.now()
    row.save()
    return row


def repaired(actor: Actor, wrong, code=CODE, task=TASK):
    """End a pass that found another outcome for these episodes of the task, and the same for its others."""
    version = rejudging.add_version(actor, *task, code, "It wanted a comma.")
    one = rejudging.begin(actor, *task, version)
    rows = []
    for episode in rejudging.to_judge(one):
        before = VerifierOutcome.objects.get(episode=episode, source="verifier").reward_type
        after = {"complete": "others", "others": "complete"}[before] if episode.pk in wrong else before
        result = "changed" if episode.pk in wrong else "kept"
        reward = float(after == "complete")
        rows.append(
            RejudgedEpisode(rejudging=one, episode=episode, result=result, before=before, after=after, reward=reward)
        )
    rejudging.keep(rows)
    return rejudging.end(one.pk)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_planted_fault_is_traced_to_every_row_and_none_besides(ada, seed):
    dice = random.Random(seed)
    early = export(ada.project)
    hit, spared = planned(ada, dice), planned(ada, dice)
    single = trained(ada, complete=bool(seed % 2))
    rows = [export(ada.project), export(ada.project, format="raw", include=["duplicates"])]
    of_spared = export(ada.project, filter={"run": [spared.pk]})
    prompts = export(ada.project, format="prompts")
    judged = Episode.objects.filter(run=hit, scenario=TASK[0], task_idx=TASK[1])
    assert judged.count() == 4
    wrong = {single.pk, *dice.sample(sorted(judged.values_list("pk", flat=True)), dice.randint(1, 3))}
    arms = set(judged.filter(pk__in=wrong).values_list("arm", flat=True))
    first = dict(VerifierOutcome.objects.filter(episode__in=wrong).values_list("episode_id", "reward_type"))
    others = list(VerifierOutcome.objects.exclude(episode__in=wrong).order_by("pk").values())
    ShapedReward.objects.create(episode=single, profile="p", total=1, components={})
    with transaction.atomic():
        case = court.doubt(single)
    court.rule(ada, case.pk, "broken", "It wants a comma.")
    assert not repaired(ada, wrong).problem
    assert list(VerifierOutcome.objects.exclude(episode__in=wrong).order_by("pk").values()) == others
    for pk, before in first.items():
        old, new = VerifierOutcome.objects.filter(episode=pk).order_by("pk")
        assert (old.source, old.reward_type, new.source) == ("superseded", before, "verifier")
        assert new.reward_type != before and new.version.number == 2
    made = Erratum.objects.all()
    assert {one.run for one in made if one.run} == {hit, single.run}
    assert {one.export for one in made if one.export} == {one.pk for one in rows}
    untouched = {early.pk, of_spared.pk, prompts.pk}
    assert untouched.isdisjoint({one.export for one in made})
    assert not ShapedReward.objects.exists(), "a reward of another outcome is computed again"
    [of_run] = errata_of_runs.of_run(ada, hit.pk)
    assert {change.what for change in of_run.changes if change.what.startswith("Complete")} == {
        f"Complete {arm}" for arm in arms if nets(judged, wrong, first, arm)
    }
    [of_single] = errata_of_runs.of_run(ada, single.run.pk)
    assert {change.what for change in of_single.changes} == {"Complete in all", "Complete at step 3"}
    lost = {pk for pk, before in first.items() if before == "complete"}
    found = errata.of_exports([one.pk for one in rows])
    [sft], [raw] = (found[one.pk] for one in rows)
    assert (episodes_of(sft.removed), episodes_of(sft.added), sft.changed) == (lost, wrong - lost, [])
    assert episodes_of(raw.changed) == wrong and raw.removed == raw.added == []
    # what a rebuild would hold now is what the erratum says of it
    now = errata.rows_of_exports(ada.project, wrong)[rows[0].pk]
    assert not lost & episodes_of(now) and wrong - lost <= episodes_of(now)


def nets(judged, wrong, first, arm):
    """How many more complete episodes an arm has after the repair."""
    mine = judged.filter(pk__in=wrong, arm=arm).values_list("pk", flat=True)
    return sum(1 if first[pk] == "others" else -1 for pk in mine)


def episodes_of(keys):
    return {key.partition("/")[0] for key in keys}


def test_statement_of_corrected_outcomes_alone_is_withheld(ada):
    """Twelve of twelve repairs in favor of one arm: the first outcomes showed nothing, so the run says no word."""
    plan = rows_of_run(ada, 12, scenarios=4)
    for one in Episode.objects.filter(run=plan.pk):
        ended(system(ada.project), one, complete=False)
    favored = set(Episode.objects.filter(run=plan.pk, arm="expert").values_list("pk", flat=True))
    earlier = compare_run(ada, plan.pk).sentence
    assert earlier.startswith("No difference shown")
    for task in plan.tries.values_list("scenario", "task_idx").distinct():
        repaired(ada, favored, task=task)
    found = compare_run(ada, plan.pk)
    assert found.contrasts[0].verdict == "withheld" and found.contrasts[0].treated_rate == 1.0
    assert found.sentence.startswith(
        "Withheld after an erratum. On the corrected outcomes alone: Better on these 12 tasks"
    )
    shown = html(as_person(ada).get(f"/runs/{plan.pk}/"))
    assert "Errata" in shown and "It wanted a comma." in shown and "0 of 12" in shown


def test_errata_are_not_for_agents_and_blind_reviewers(ada, rita, project):
    one = trained(ada, complete=False)
    repaired(ada, {one.pk})
    agent, _ = token(project, "agent")
    assert errata_of_runs.of_run(agent, one.run.pk) == [] and len(errata_of_runs.of_run(rita, one.run.pk)) == 1
    OutcomeHold.objects.create(episode=one, actor_key=rita.key, by="review")
    assert errata_of_runs.of_run(rita, one.run.pk) == []


def test_second_version_supersedes_the_first(ada):
    one = trained(ada, complete=False)
    repaired(ada, {one.pk})
    done = repaired(ada, {one.pk}, CODE + "# once more\n")
    assert done.version.number == 3
    kinds = VerifierOutcome.objects.filter(episode=one).order_by("pk").values_list("source", "reward_type")
    assert list(kinds) == [("superseded", "others"), ("superseded", "complete"), ("verifier", "others")]
    assert Erratum.objects.filter(run=one.run).count() == 2


def test_snapshot_keeps_the_outcome_that_it_pins(ada):
    one = trained(ada, complete=False)
    recipe = Recipe.read({"format": "raw"})

    def taken():
        return list(entries_of(ada.project, recipe, matching(ada.project, recipe)))

    before = taken()
    repaired(ada, {one.pk})
    after = taken()
    assert [len(entry.outcomes) for entry in (*before, *after)] == [1, 1] and before != after
    reader = Reader(ada.project, Redactor(recipe, salt="s"), authors=False)
    assert [reader.read(taken)[0].results["verified"].reward_type for taken in (before, after)] == [
        "others",
        "complete",
    ]


def meanwhile(monkeypatch, write):
    """Have another process write once, right after the numbers of runs were read for the first time."""
    read, done = rejudging._readings[rejudging.RUN], []

    def elsewhere():
        write()
        connection.close()

    def reading(project, episodes):
        found = read(project, episodes)
        if not done:
            done.append(True)
            with ThreadPoolExecutor(1) as pool:
                pool.submit(elsewhere).result()
        return found

    monkeypatch.setitem(rejudging._readings, rejudging.RUN, reading)


@pytest.mark.django_db(transaction=True)
def test_erratum_has_nothing_that_others_wrote_meanwhile(ada, monkeypatch):
    one = trained(ada, complete=False)
    about = {"scenario": "planted_2", "task_idx": 1, "training_step": 3, "run": one.run.pk}
    late, _ = recording.start_episode(ada, EpisodeStart(key="late", task="Task 2", **about))
    meanwhile(monkeypatch, lambda: ended(system(ada.project), late, complete=True))
    assert not repaired(ada, {one.pk}).problem and VerifierOutcome.objects.filter(episode=late).exists()
    [erratum] = errata_of_runs.of_run(ada, one.run.pk)
    assert {(change.before, change.after) for change in erratum.changes} == {("0 of 1", "1 of 1")}


@pytest.mark.django_db(transaction=True)
def test_pass_ends_though_others_write_its_rows_meanwhile(ada, monkeypatch):
    one = trained(ada, complete=False)
    meanwhile(monkeypatch, lambda: VerifierOutcome.objects.filter(episode=one).update(tier="other"))
    assert not repaired(ada, {one.pk}).problem
    kinds = VerifierOutcome.objects.filter(episode=one).order_by("pk").values_list("source", "reward_type", "tier")
    assert list(kinds) == [("superseded", "others", "other"), ("verifier", "complete", "")]


def test_errata_of_a_run_are_read_in_a_fixed_number_of_queries(ada):
    one = trained(ada, complete=False)

    def queries():
        with CaptureQueriesContext(connection) as found:
            assert len(errata_of_runs.of_run(ada, one.run.pk)) == Erratum.objects.count()
        return len(found)

    repaired(ada, {one.pk})
    queries()  # what is read once for all
    first = queries()
    for number in range(3):
        repaired(ada, {one.pk}, f"{CODE}# {number}\n")
    assert (queries(), Erratum.objects.count()) == (first, 4)


def test_manifest_card_and_push_name_the_repair(ada, tmp_path):
    one, other = trained(ada, complete=False), trained(ada, complete=True)
    made = export(ada.project)
    repaired(ada, {one.pk})
    folder = tmp_path / "rebuilt"
    folder.mkdir()
    plan = datasets.take_snapshot(ada.project, Recipe.read({"format": "sft"}), folder)
    manifest = datasets.build(ada.project, plan, folder, lambda done, rows: True)
    sha256 = sha256_of(CODE)
    assert manifest["repaired_verifiers"] == {"planted_1/1": {"version": 2, "sha256": sha256, "outcomes": 1}}
    assert f"| `planted_1/1` | 2 | `{sha256[:12]}` | 1 |" in (folder / "README.md").read_text()
    for row, files in ((made, folder), (spared := export(ada.project, filter={"id": [other.pk]}), folder)):
        Export.objects.filter(pk=row.pk).update(dataset=row.pk)
        row.dataset = row.pk
        storing.keep(ada.project.pk, row.pk, files)
    with pushing.files_of(made) as pushed:
        said = (pushed / "ERRATA.md").read_text()
    assert f"| `{one.pk}" in said and "1 row to add" in said and other.pk not in said
    assert "comma" not in said, "the reason is a person's word to the project"
    page = html(as_person(ada).get("/exports/"))
    assert page.count("erratum</span>") == 1
    OutcomeHold.objects.create(episode=one, actor_key=ada.key, by="review")
    blind = html(as_person(ada).get("/exports/"))
    assert "erratum</span>" not in blind and "withheld" in blind, "it would show who judges blind what was changed"
    OutcomeHold.objects.all().delete()
    with pushing.files_of(spared) as pushed:
        assert (pushed / "manifest.json").exists() and not (pushed / "ERRATA.md").exists()


def test_quotation_of_a_repaired_verifier_is_left_out(ada, tmp_path):
    kept, quoting = trained(ada, complete=True), trained(ada, complete=True)
    words = "the gate must be shut before the third bell rings at the harbor"
    last = quoting.steps.get(seq=4)
    body = json.dumps({**json.loads(last.body), "content": f"I know: {words}."})
    Step.objects.filter(pk=last.pk).update(body=body)

    def rows(name):
        (folder := tmp_path / name).mkdir()
        plan = datasets.take_snapshot(ada.project, Recipe.read({"format": "sft", "include": ["duplicates"]}), folder)
        manifest = datasets.build(ada.project, plan, folder, lambda done, rows: True)
        return plan.id, manifest["rows"], manifest["left_out"].get("verifier_text", 0)

    first = rows("before")
    # nothing is judged otherwise, so the snapshot stays the same
    repaired(ada, set(), CODE + f"# {words}\n")
    second = rows("after")
    assert first[1:] == (2, 0) and second[1:] == (1, 1), (first, second)
    assert first[0] != second[0], "other rows are another dataset"
    assert explaining._quotations(ada.project, quoting)(words) and not explaining._quotations(ada.project, kept)("shut")


def test_curriculum_page_shows_the_erratum_of_its_curve(ada):
    one = trained(ada, complete=False)
    training.report(ada, one.run.pk, TrainingStepReport(training_step=3))
    repaired(ada, {one.pk})
    shown = html(as_person(ada).get(f"/curriculum/?run={one.run.pk}"))
    assert "Complete at step 3" in shown and "0 of 1" in shown


def test_an_episode_has_one_outcome_per_version(ada):
    one = trained(ada, complete=False)
    done = repaired(ada, {one.pk})
    for more in ({"source": "superseded", "version": done.version}, {"source": "superseded"}, {"source": "verifier"}):
        with pytest.raises(IntegrityError), transaction.atomic():
            VerifierOutcome.objects.create(episode=one, reward_type="complete", **more)
    with pytest.raises(IntegrityError), transaction.atomic():
        VerifierVersion.objects.create(
            project=ada.project,
            scenario="planted_1",
            task_idx=1,
            number=2,
            code="",
            sha256="",
            reason="",
            created_by="",
        )

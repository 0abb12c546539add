"""Forks in a dataset: their pairs are counted, redacted and pinned, and branches are included only by name."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from awmclient.schema import EpisodeStart, Finish, Outcome, StepBatch, ToolSpec
from episodes.models import Episode, Fork, Step, VerifierOutcome
from episodes.record import ending, recording
from episodes.stored import outcomes
from experts.models import Advice, Ask
from exports.assembly import card, datasets
from exports.recipe import Recipe
from exports.select.measured import PinnedFork, measured
from exports.select.selecting import SnapshotEntry, entries_of, matching
from people.rates import wilson
from runs.show import forks, lanes
from runs.statistics import worth
from runs.statistics.forked import ForkArm
from tests.browsing import as_person
from tests.exports.explain.test_errata import repaired

SECRET = "glpat-12345678901234567890"


def root(actor, key="root"):
    """A failed episode: one call, one answer."""
    tools = [ToolSpec(name="merge", input_schema={"type": "object"})]
    place = {"scenario": "desk_1", "task_idx": 3, "split": "train"}
    one, _ = recording.start_episode(actor, EpisodeStart(key=key, task="Merge them.", tools=tools, **place))
    steps = [
        {"seq": 1, "kind": "message", "role": "user", "content": "Merge them."},
        {"seq": 2, "kind": "tool_call", "name": "merge", "arguments": {"id": 7}, "result": "ok", "turn": 1},
        {"seq": 3, "kind": "tool_call", "name": "merge", "arguments": {"id": 8}, "result": "ok", "turn": 2},
        {"seq": 4, "kind": "message", "role": "assistant", "content": "Done.", "turn": 3},
    ]
    recording.append_steps(actor, one.pk, StepBatch.model_validate({"steps": steps}).steps)
    ending.finish(actor, one.pk, Finish(stop_reason="done"))
    ending.record_outcome(actor, one.pk, Outcome(reward_type="others", reward=0.0))
    one.refresh_from_db()
    return one


def forked(actor, one, seq, change, wins=(8, 1), alike=False, **more):
    """A fork with eight ended branches of each arm, this many of them complete, and alike or each in its own words."""
    made = Fork.objects.create(
        project=actor.project, parent=one, seq=seq, change=change, tries=8, knowledge="hindsight", grade="exact",
        created_by="ada",
    )  # fmt: skip
    same = {name: getattr(one, name) for name in ("task", "scenario", "task_idx", "tools", "expert", "split")}
    about = {"policy_kind": "model", "grade": "exact", "knowledge": "hindsight", "ended_at": timezone.now(), **more}
    for arm, good in zip(("treated", "control"), wins, strict=True):
        for number in range(8):
            branch = Episode.every.create(
                project=actor.project, key=f"{made.pk}/{arm}/{number}", origin="branch", state="finished", fork=made,
                branch_arm=arm, branch_seq=seq, last_seq=one.last_seq, **same, **about,
            )  # fmt: skip
            copies = one.steps.exclude(kind="verification").values("seq", "kind", "body", "at")
            Step.objects.bulk_create(Step(episode=branch, **copy) for copy in copies)
            if not alike:
                last = 1 + max(branch.steps.values_list("seq", flat=True))
                own = {"seq": last, "kind": "message", "role": "assistant", "content": f"{number}", "turn": last}
                Step.objects.create(episode=branch, seq=last, kind="message", body=json.dumps(own), at=timezone.now())
            reward_type = "complete" if number < good else "others"
            VerifierOutcome.objects.create(episode=branch, source="verifier", reward_type=reward_type, reward=1.0)
    return made


def rows_of(actor, folder, **recipe):
    folder.mkdir()
    plan = datasets.take_snapshot(actor.project, Recipe.read(recipe), folder)
    manifest = datasets.build(actor.project, plan, folder, lambda _episodes, _rows: True)
    return [json.loads(line) for line in (folder / "data" / "train.jsonl").read_text().splitlines()], manifest


def pinned(actor):
    recipe = Recipe.read({"format": "dpo"})
    return [one for one in entries_of(actor.project, recipe, matching(actor.project, recipe)) if one.forks]


def test_pair_of_a_fork_is_pinned_counted_and_redacted(ada, tmp_path):
    one = root(ada)
    made = forked(ada, one, 2, {"call": {"name": "merge", "arguments": {"id": SECRET}}})
    (entry,) = pinned(ada)
    assert SnapshotEntry.read(entry.line().encode()) == entry and entry.forks[0].fork == made.pk
    (row,), manifest = rows_of(ada, tmp_path / "made", format="dpo")
    assert (row["source"], row["episode_id"], row["fork_id"]) == ("fork", one.pk, made.pk)
    assert [row[name] for name in ("chosen_wins", "chosen_tries", "rejected_wins", "rejected_tries")] == [8, 8, 1, 8]
    assert SECRET not in json.dumps(row) and "[redacted:" in json.dumps(row["chosen"])
    assert manifest["episodes"] == 1, "its branches are no episodes of a dataset"
    shown = entry.forks[0]
    share = manifest["forks"]
    assert {**share, "wrong_low": 0, "wrong_high": 0} == {
        **{"asked": 1, "shown": 1, "asked_in": "project", "wrong": shown.wrong, "wrong_low": 0, "wrong_high": 0}
    }
    assert share["wrong_low"] <= share["wrong"] <= share["wrong_high"]
    text = (tmp_path / "made" / "README.md").read_text()
    assert "1 fork of the project compared two actions; 1 of them show a difference here. Erased forks are not" in text
    assert (row["worth"], row["worth_low"], row["worth_high"]) == (shown.worth, shown.low, shown.high)
    assert 0 < row["worth"] < 0.7, "less than the plain difference of 88 points, which was picked"


def test_snapshot_of_before_keeps_its_line_and_its_worth(ada):
    old = PinnedFork("f", "better", 8, 8, 1, 8, 0.4, 0.97, "exact", "blind")
    entry = SnapshotEntry("e", "t/0", 3, (1,), forks=(old,))
    line = entry.line().encode()
    assert line.rstrip().endswith(b'"exact","blind"]]]') and SnapshotEntry.read(line) == entry
    middle = old._replace(worth=0.3, wrong=0.05, asked=6)
    later = SnapshotEntry("e", "t/0", 3, (1,), forks=(middle, middle._replace(first=[8, 8, 2, 8])))
    line = later.line().encode()
    assert line.rstrip().endswith(b"0.3,0.05,6,[8,8,2,8]]]]") and SnapshotEntry.read(line) == later
    assert b'"blind",0.3,0.05,6],[' in line
    # the share of wrong pairs as its dataset had it
    counts = {"asked": 6, "shown": 2, "wrong": 0.05, "wrong_low": 0.0, "wrong_high": 0.5}
    assert datasets._forks_of(later.forks) == {"forks": counts}
    assert card._forks(counts)[0].startswith("6 forks asked whether one action is better; 2 of them show it. By")


def test_card_calls_a_share_unknown_that_can_be_anything():
    """Of 200 forks in which no change does anything the estimate was 46%."""
    forks = {"asked": 200, "shown": 6, "wrong": 0.46, "wrong_low": 0.0, "wrong_high": 1.0, "asked_in": "project"}
    (words, _) = card._forks(forks)
    assert "the opposite one is not known: 46% (95%: 0% to 100%)." in words and "By estimate" not in words
    (words, _) = card._forks({**forks, "wrong_low": 0.3, "wrong_high": 0.6})
    assert "By estimate 46% of their pairs (95%: 30% to 60%) have no effect" in words


def test_forks_that_show_nothing_are_not_pinned(ada):
    one = root(ada)
    change = {"call": {"name": "merge", "arguments": {"id": 9}}}
    forked(ada, one, 2, change, (5, 4))
    assert pinned(ada) == []
    Fork.objects.all().delete()
    made = forked(ada, one, 2, change)
    assert len(pinned(ada)) == 1
    Episode.every.filter(fork=made, branch_arm="control").update(grade="database")
    assert pinned(ada) == [], "arms that were restored unlike"
    Episode.every.filter(fork=made).update(grade="exact", policy_kind="script")
    assert pinned(ada) == [], "an arm of a script is one observation"
    Episode.every.filter(fork=made).update(policy_kind="model")
    live = Episode.every.filter(fork=made).first()
    Episode.every.filter(pk=live.pk).update(state="running")
    assert pinned(ada) == [], "one of them is live"
    Episode.every.filter(pk=live.pk).update(state="finished")
    Fork.objects.filter(pk=made.pk).update(change={"words": "Mind the order."})
    assert pinned(ada) == [], "words are no action of the agent"


def found_by(actor, made):
    return forks.finding_of(actor, made, list(Episode.every.filter(fork=made)))


def test_difference_of_corrected_outcomes_alone_is_withheld(ada):
    """A repair finds the treated branches complete and the others not: the first outcomes showed nothing."""
    one = root(ada)
    made = forked(ada, one, 2, {"call": {"name": "merge", "arguments": {"id": 9}}}, (4, 4))
    assert found_by(ada, made).sentence.endswith(": not shown.")
    rows = VerifierOutcome.objects.filter(episode__fork=made)
    wrong = rows.filter(episode__branch_arm="treated", reward_type="others") | rows.filter(
        episode__branch_arm="control", reward_type="complete"
    )
    assert not repaired(ada, set(wrong.values_list("episode_id", flat=True)), task=("desk_1", 3)).problem
    found = found_by(ada, made)
    assert (found.treated.complete, found.control.complete, found.verdict) == (8, 0, "")
    assert found.sentence.startswith("Withheld after an erratum. On the corrected outcomes alone: Changed call: 8 of 8")
    assert found.sentence.endswith("so only a new fork can show it.") and pinned(ada) == []


def test_model_that_repeats_itself_shows_nothing(ada):
    """At temperature 0 all branches of an arm are one draw: words that mean nothing were better or worse in a third."""
    one, change = root(ada), {"call": {"name": "merge", "arguments": {"id": 9}}}
    made = forked(ada, one, 2, change, (8, 0), alike=True)
    found = found_by(ada, made)
    assert (found.verdict, found.difference, pinned(ada)) == ("", None, [])
    assert found.sentence == (
        "Changed call: 8 of 8 complete; recorded call: 0 of 8. Its model chose the same in every branch of an arm, so "
        "an arm is one observation: nothing is shown."
    )
    step = Step.objects.filter(episode__fork=made, episode__branch_arm="control", seq=4).first()
    Step.objects.filter(pk=step.pk).update(body=step.body.replace("Done.", "Merged."))
    varied = found_by(ada, made)
    assert (varied.verdict, pinned(ada)) == ("", []) and varied.interval[0] < 0
    assert "13 branches went on exactly like another one" in varied.sentence, "one branch of another kind proves little"
    Fork.objects.filter(pk=made.pk).update(change={"policy": "model:large"})
    made.refresh_from_db()
    assert not found_by(ada, made).verdict, "the other model repeats itself"


def test_half_of_the_branches_alike_are_one_draw(ada):
    """A cache gave five of eight branches of each arm the same play: 8 to 3 was called better."""
    one, change = root(ada), {"call": {"name": "merge", "arguments": {"id": 9}}}
    made = forked(ada, one, 2, change, (8, 3))
    assert found_by(ada, made).verdict == "better" and len(pinned(ada)) == 1
    for branch in Episode.every.filter(fork=made, key__endswith="/4"):
        own = Step.objects.get(episode=branch, seq=5)
        alike = [f"{made.pk}/{branch.branch_arm}/{number}" for number in range(3, 8)]
        Step.objects.filter(episode__key__in=alike, seq=5).update(body=own.body)
    found = found_by(ada, made)
    assert (found.verdict, pinned(ada)) == ("", []) and found.interval[0] < 0
    assert "Counted once: 4 of 4 against 3 of 4" in found.sentence


def test_difference_of_both_readings_is_shown_and_pinned(ada, tmp_path):
    one = root(ada)
    made = forked(ada, one, 2, {"call": {"name": "merge", "arguments": {"id": 9}}}, (8, 1))
    wrong = Episode.every.filter(fork=made, branch_arm="control", outcomes__reward_type="complete").get()
    assert not repaired(ada, {wrong.pk}, task=("desk_1", 3)).problem
    assert found_by(ada, made).verdict == "better"
    (entry,) = pinned(ada)
    assert (entry.forks[0].kept_wins, entry.forks[0].first) == (0, [8, 8, 1, 8])
    assert SnapshotEntry.read(entry.line().encode()) == entry
    _, manifest = rows_of(ada, tmp_path / "made", format="dpo")
    arms = [(ForkArm(8, 8, 8), ForkArm(8, 8, lost)) for lost in (0, 1)]
    both = [worth.worth_of(*each, worth.learned([each])) for each in arms]
    shown = entry.forks[0]
    assert shown.worth == round(both[1].mean, 4) and shown.wrong == round(both[1].wrong, 4)
    ends = min(one.least for one in both), max(one.most for one in both)
    assert (shown.least, shown.most) == tuple(round(each, 4) for each in ends)
    assert (shown.low, shown.high) == (round(min(one.low for one in both), 4), 1.0)
    assert manifest["forks"]["wrong_low"] <= shown.wrong <= manifest["forks"]["wrong_high"]


def test_first_outcomes_of_all_forks_are_read_once(ada, monkeypatch):
    one, reads = root(ada), []
    for number in (8, 9):
        forked(ada, one, 2, {"call": {"name": "merge", "arguments": {"id": number}}}, (8, 1))
    read = outcomes.first_types
    monkeypatch.setattr(outcomes, "first_types", lambda pks: reads.append(1) or read(pks))
    assert measured(Episode.objects.filter(pk=one.pk)) and len(reads) == 1


def test_forks_of_branches_share_the_error_of_their_tree(ada):
    one, change = root(ada), {"call": {"name": "merge", "arguments": {"id": 9}}}
    made = forked(ada, one, 2, change, (8, 4))
    assert found_by(ada, made).verdict == "better" and len(pinned(ada)) == 1
    branch = Episode.every.filter(fork=made).first()
    below = forked(ada, branch, 3, change, (8, 4))
    first, later = found_by(ada, made), found_by(ada, below)
    assert first.verdict == "better" and first.sentence.endswith("error of 5%, of which this one has 4%.")
    assert later.verdict == "" and later.sentence.endswith("error of 5%, of which this one has 0.5%.")
    Episode.every.filter(fork=made).update(ended_at=timezone.now() + timedelta(hours=1))
    for fork in (made, below):
        found = found_by(ada, fork)
        assert found.verdict == "" and found.sentence.endswith("of which this one has 2%."), "asked before one was read"
    assert pinned(ada) == []
    other = forked(ada, root(ada, "other"), 2, change, (8, 4))
    assert found_by(ada, other).verdict == "better", "another tree has an error of its own"


def test_erased_branches_stay_tries_of_their_fork(ada):
    one = root(ada)
    made = forked(ada, one, 2, {"call": {"name": "merge", "arguments": {"id": 9}}}, (8, 5))
    kept = Episode.every.filter(fork=made, branch_arm="control", outcomes__reward_type="complete")
    Episode.every.filter(pk__in=kept.values_list("pk", flat=True)[:4]).delete()
    found = found_by(ada, made)
    assert (found.control.tries, found.control.known, found.control.lost) == (8, 4, 4)
    assert 0.05 < found.p < 0.1 and found.verdict == "", "the erased ones could have been complete"
    assert "4 branches are without an outcome." in found.sentence and pinned(ada) == []
    lane = next(one for one in lanes.lanes_of(ada, one.pk).lanes if one.words == "Recorded call")
    assert (lane.arm.tries, lane.arm.lost) == (8, 4)


def lane_of(actor, one, words):
    return next(lane for lane in lanes.lanes_of(actor, one.pk).lanes if lane.words == words)


def test_lane_counts_branches_that_went_on_alike_once(ada):
    """With a half of them from a cache, its interval held the share in 64% of lanes."""
    one = root(ada)
    made = forked(ada, one, 2, {"call": {"name": "merge", "arguments": {"id": 9}}}, (8, 3))
    apart = lane_of(ada, one, "Changed call")
    assert apart.interval == pytest.approx(wilson(8, 8)) and not apart.why_no_interval
    same = Step.objects.get(episode__key=f"{made.pk}/treated/0", seq=5).body
    Step.objects.filter(episode__key__in=[f"{made.pk}/treated/{n}" for n in range(1, 5)], seq=5).update(body=same)
    half = lane_of(ada, one, "Changed call")
    assert half.arm == apart.arm and half.interval == pytest.approx(wilson(4, 4))
    assert lane_of(ada, one, "Recorded call").interval == pytest.approx(wilson(3, 8))
    Step.objects.filter(episode__fork=made, episode__branch_arm="treated", seq=5).update(body=same)
    whole = lane_of(ada, one, "Changed call")
    assert (whole.interval, whole.why_no_interval) == (None, "branches went on alike, no interval")
    page = as_person(ada).get(f"/projects/{ada.project.slug}/episodes/{one.pk}/tree").content.decode()
    assert "branches went on alike, no interval" in page


def test_lane_whose_branches_read_one_answer_has_no_interval(ada):
    one = root(ada)
    made = forked(ada, one, 2, {"call": {"name": "merge", "arguments": {"id": 9}}}, (8, 3))
    for branch in Episode.every.filter(fork=made, branch_arm="treated").order_by("pk")[:2]:
        about = {"project": ada.project, "episode": branch, "key": "a", "seq": 3, "question": "Which one?"}
        ask = Ask.objects.create(deadline_at=timezone.now(), group="one", **about)
        ask.status = "answered"
        ask.accepted = Advice.objects.create(ask=ask, text="The last.", source="human", author_key="user:1")
        ask.save()
    shared, other = lane_of(ada, one, "Changed call"), lane_of(ada, one, "Recorded call")
    assert (shared.interval, shared.why_no_interval) == (None, "branches read one answer, no interval")
    assert other.interval and not other.why_no_interval
    Episode.every.filter(fork=made).update(policy_kind="script")
    assert lane_of(ada, one, "Recorded call").why_no_interval == "a script repeats itself, no interval"


def test_tree_reads_no_tools_and_as_much_for_more_branches(ada):
    one = root(ada)
    made = forked(ada, one, 2, {"call": {"name": "merge", "arguments": {"id": 9}}})
    browser, few = as_person(ada), [f"{made.pk}/{name}" for name in ("treated/0", "treated/1", "control/0")]
    where = f"/projects/{ada.project.slug}/episodes/{one.pk}/tree"

    def statements():
        with CaptureQueriesContext(connection) as found:
            assert browser.get(where).status_code == 200
        return [each["sql"] for each in found]

    statements()  # what is read once for all
    many = statements()
    Episode.every.filter(fork=made).exclude(key__in=few).delete()
    assert len(statements()) == len(many)
    _, found = forks.members(ada, one.pk)
    for branch in found[1:]:
        assert {"tools", "policy", "world", "final_answer"} <= branch.get_deferred_fields()


def test_branches_are_rows_of_sft_only_by_name(ada, tmp_path):
    one = root(ada)
    forked(ada, one, 2, {"call": {"name": "merge", "arguments": {"id": 9}}})
    rows, manifest = rows_of(ada, tmp_path / "without", format="sft", filter={"scenario": [one.scenario]})
    assert rows == [] and manifest["episodes"] == 1
    recipe = {"format": "sft", "filter": {"scenario": [one.scenario]}, "include": ["branches"]}
    (row,), manifest = rows_of(ada, tmp_path / "with", **recipe)
    assert (row["root_id"], row["origin"], row["privilege"]) == (one.pk, "branch", "hindsight")
    assert manifest["left_out"] == {"not_complete": 8, "one_per_root": 8}
    assert row["loss"] == [0, 0, 0, 1, 0, 1], "not the call with which it begins"
    below = forked(ada, Episode.every.filter(fork__parent=one).first(), 2, {})
    assert below.pk and rows_of(ada, tmp_path / "below", **recipe)[1]["episodes"] == 33

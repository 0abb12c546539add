"""Verdicts and tags in exports: whose count, that a snapshot holds them, that no file repeats a reviewer's words."""

from __future__ import annotations

import json

import pytest

from awmclient.schema import AskOpen, EpisodeStart, Finish, Outcome, StepBatch
from episodes.models import Episode, Privilege
from episodes.record import ending, recording
from experts.record import advising, opening, queue
from experts.record import tagging as questions
from exports.assembly import datasets
from exports.recipe import Recipe
from people import access
from people.access import system
from people.record import members
from reviews.models import Preference, Verdict
from reviews.record import assigning as reviewing
from reviews.record import deciding, preferring
from reviews.record.deciding import Wanted
from reviews.statistics import reports
from reviews.visible.pairs import OVERALL, sides
from tests.people_by_name import person
from tests.reviews.conftest import ended

pytestmark = pytest.mark.django_db
NOTE = "canary-note-of-a-reviewer"


def exported(actor, folder, format_, *include):
    """The rows and the manifest of an export; a folder that has a snapshot keeps it."""
    folder.mkdir(exist_ok=True)
    plan = datasets.take_snapshot(actor.project, Recipe.read({"format": format_, "include": include}), folder)
    manifest = datasets.build(actor.project, plan, folder, lambda _episodes, _rows: True)
    return [json.loads(line) for line in (folder / "data" / "train.jsonl").read_text().splitlines()], manifest


def judged(actor, review, decision="reject", **more):
    lease = reviewing.claim(actor, review.pk)
    return deciding.decide(actor, review.pk, lease.lease_token, Wanted(decision, note=NOTE, **more))


@pytest.fixture
def pair(ada):
    """Two complete episodes of a task that went different ways, the first of them queued for review."""
    one, other = ended(ada, "one", "complete", 1.0), ended(ada, "other", "complete", 1.0, row=9)
    asked = reviewing.create_queue(ada, "Second look", reviews_required=2)
    reviewing.fill(ada, asked.pk, Episode.objects.filter(pk=one.pk))
    return one, other


@pytest.fixture
def review(pair):
    return pair[0].reviews.get()


def test_rejected_episode_is_left_out_as_of_the_snapshot(ada, rita, edo, pair, review, tmp_path):
    (tmp_path / "early").mkdir()
    datasets.take_snapshot(ada.project, Recipe.read({"format": "sft"}), tmp_path / "early")
    judged(rita, review)
    judged(edo, review)
    assert exported(ada, tmp_path / "early", "sft")[1]["left_out"] == {}
    rows, manifest = exported(ada, tmp_path / "late", "sft")
    assert [row["episode_id"] for row in rows] == [pair[1].pk] and manifest["left_out"] == {"rejected": 1}
    assert len(exported(ada, tmp_path / "all", "sft", "rejected")[0]) == 2


def test_rejected_episode_is_the_bad_side_where_asked_for(ada, rita, edo, pair, review, tmp_path):
    judged(rita, review)
    judged(edo, review)
    assert exported(ada, tmp_path / "without", "dpo")[0] == []
    [row], manifest = exported(ada, tmp_path / "dpo", "dpo", "verdicts")
    assert (row["source"], row["episode_id"], row["rejected_episode_id"]) == ("verdict", pair[1].pk, pair[0].pk)
    calls = [row[side][0]["tool_calls"][0]["function"]["arguments"]["id"] for side in ("chosen", "rejected")]
    assert calls == [9, 7]
    assert manifest["opted_in"] == ["verdicts"] and manifest["left_out"] == {}
    labels = {(row["episode_id"], row["label"]) for row in exported(ada, tmp_path / "kto", "kto", "verdicts")[0]}
    assert labels == {(pair[0].pk, False), (pair[1].pk, True)}


def test_no_file_holds_the_words_of_a_verdict(ada, rita, edo, review, tmp_path):
    judged(rita, review)
    judged(edo, review)
    exported(ada, tmp_path / "dpo", "dpo", "verdicts")
    files = [file for file in (tmp_path / "dpo").rglob("*") if file.is_file()]
    assert len(files) > 5
    assert not [file for file in files if NOTE in file.read_text() or rita.name in file.read_text()]


@pytest.mark.parametrize(
    "change", [{"author_kind": "model"}, {"privilege": Privilege.SEES_VERIFIER}, {"is_blind": False}, {"is_late": True}]
)
def test_only_blind_verdicts_of_people_count(ada, rita, pair, review, change):
    said = judged(rita, review)
    assert reports.blind_verdicts(Episode.objects.all()) == {pair[0].pk: "reject"}
    Verdict.objects.filter(pk=said.pk).update(**change)
    assert reports.blind_verdicts(Episode.objects.all()) == {}


def test_gold_and_reviews_that_differ_give_no_verdict(ada, rita, edo, pair, review):
    gold = reviewing.create_queue(ada, "Gold", gold_share=0.5)
    judged(edo, reviewing.add_gold(ada, gold.pk, pair[1].pk, "reject"))
    assert reports.blind_verdicts(Episode.objects.all()) == {}
    judged(rita, review)
    third = reviewing.create_queue(ada, "Third look")
    reviewing.fill(ada, third.pk, Episode.objects.filter(pk=pair[0].pk))
    assert reports.blind_verdicts(Episode.objects.all()) == {pair[0].pk: "reject"}
    judged(edo, pair[0].reviews.get(queue=third), "accept")
    assert reports.blind_verdicts(Episode.objects.all()) == {}


def test_later_tag_of_a_question_changes_no_snapshot(ada, edo, tmp_path):
    start = EpisodeStart(key="asks", task="Merge them.", scenario="desk_1", task_idx=3, expert="plain")
    episode, _ = recording.start_episode(ada, start)
    said = [{"seq": 1, "kind": "message", "role": "assistant", "content": "I look."}]
    recording.append_steps(ada, episode.pk, StepBatch.model_validate({"steps": said}).steps)
    ask = opening.open_ask(ada, AskOpen(key="q", episode=episode.pk, seq=2, question="Into which?"))[0]
    lease = queue.claim(edo, ask.pk)
    advising.answer(edo, lease.assignment_id, lease.lease_token, "The oldest.", "n")
    ending.finish(ada, episode.pk, Finish(stop_reason="done"))
    ending.record_outcome(system(ada.project), episode.pk, Outcome(reward_type="complete", reward=1, source="verifier"))
    questions.tag(edo, ask, "answerable", "no")
    questions.tag(edo, ask, "answerable", "yes")
    questions.tag(edo, ask, "question_needed", "yes")
    (tmp_path / "early").mkdir()
    datasets.take_snapshot(ada.project, Recipe.read({"format": "ask_decision"}), tmp_path / "early")
    questions.tag(edo, ask, "question_needed", "no")

    def tags(folder):
        return [row["tags"] for row in exported(ada, folder, "ask_decision")[0] if row["asked"]]

    assert tags(tmp_path / "early") == [["answerable=yes", "question_needed=yes"]]
    assert tags(tmp_path / "late") == [["answerable=yes", "question_needed=no"]]


@pytest.mark.parametrize(("behind", "left_out"), [("person", {"rejected": 1}), ("script", {}), ("model", {})])
def test_review_token_of_a_person_rejects_like_a_person(ada, pair, review, tmp_path, behind, left_out):
    for number in range(2):
        issued, _ = members.issue_token(ada, f"reviewer {number}", "review", behind=behind)
        judged(access.bearer(issued), review)
    assert exported(ada, tmp_path / "made", "sft")[1]["left_out"] == left_out


@pytest.fixture
def compared(ada):
    """A queue with a pair of two episodes of a task that went different ways, the better one not complete."""

    def made(*outcomes):
        for number, found in enumerate(outcomes):
            ended(ada, f"c{number}", found, float(found == "complete"), row=7 + number)
        asked = reviewing.create_queue(ada, "Pairs", kind="pairwise", reviews_required=3)
        reviewing.fill(ada, asked.pk, Episode.objects.all())
        return asked.reviews.select_related("queue", "episode", "other").get()

    return made


def compare(actor, review, better):
    """Answer a pair with this episode, or with a tie."""
    lease = reviewing.claim(actor, review.pk)
    first = sides(actor, review)[0].pk
    letter = better if better in ("equal", "neither") else "a" if better == first else "b"
    return preferring.prefer(actor, review.pk, lease.lease_token, {OVERALL: letter})


def test_compared_pair_has_the_votes_of_people(ada, rita, edo, compared, tmp_path):
    review = compared("others", "others")
    good, bad = review.other_id, review.episode_id
    third = person(ada.project, "mina", "reviewer")
    for actor, better in ((rita, good), (edo, good), (third, "equal")):
        compare(actor, review, better)
    assert exported(ada, tmp_path / "without", "dpo")[0] == []
    [row], manifest = exported(ada, tmp_path / "dpo", "dpo", "compared")
    assert (row["source"], row["episode_id"], row["rejected_episode_id"]) == ("compared", good, bad)
    assert [row[f"votes_{name}"] for name in ("chosen", "rejected", "tied")] == [2, 0, 1]
    assert row["schema_version"] == "awmweb.pref/6" and manifest["opted_in"] == ["compared"]
    text = "".join(file.read_text() for file in (tmp_path / "dpo").rglob("*") if file.is_file())
    assert rita.name not in text and rita.key not in text
    compare_again = Preference.objects.filter(author_key=third.key)
    compare_again.update(choice="first")
    assert exported(ada, tmp_path / "dpo", "dpo", "compared")[0] == [row], "the snapshot holds the votes"


@pytest.mark.parametrize("change", [{"is_blind": False}, {"author_kind": "model"}, {"privilege": "sees_verifier"}])
def test_pair_that_is_tied_or_not_blind_gives_no_row(ada, rita, edo, compared, tmp_path, change):
    review = compared("others", "others")
    compare(rita, review, review.episode_id)
    compare(edo, review, review.other_id)
    assert exported(ada, tmp_path / "tied", "dpo", "compared")[0] == []
    Preference.objects.filter(author_key=edo.key).update(choice="neither")
    assert len(exported(ada, tmp_path / "one", "dpo", "compared")[0]) == 1
    Preference.objects.filter(author_key=rita.key).update(**change)
    assert exported(ada, tmp_path / "none", "dpo", "compared")[0] == []


def test_pair_compared_against_the_verifier_is_left_out(ada, rita, compared, tmp_path):
    review = compared("others", "complete")
    wrong = next(one for one in (review.episode, review.other) if one.outcomes.get().reward_type == "others")
    compare(rita, review, wrong.pk)
    rows, manifest = exported(ada, tmp_path / "dpo", "dpo", "compared")
    assert [row["source"] for row in rows] == ["sibling"] and manifest["rows_left_out"] == {"contradicted": 1}

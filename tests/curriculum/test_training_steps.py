"""Training steps: what a trainer reports, what is counted from the record, and who may report."""

from __future__ import annotations

import pytest

from curriculum.models import TrainingStep
from tests.curriculum.trainer import Trainer
from tests.people_by_name import token

BAD = {"reward_type": "tool_not_found", "error": "no such tool"}


def test_answer_without_a_call_is_no_format_error_if_complete(train):
    train.play(1, calls=(), complete=True)
    train.play(1, calls=(), complete=False)
    assert train.report(1)[1]["format_errors"] == 1


def test_report_counts_format_errors_from_the_record(train):
    train.play(1, calls=[])
    train.play(1, calls=[BAD, {"reward_type": "invalid_args", "error": "no"}])
    train.play(1, calls=[BAD, {}])
    train.play(1, calls=[{"error": "sold out", "reward_type": "server_error"}])
    train.play(1, calls=[{"result": {"reward_type": "tool_not_found"}}])
    train.play(2, calls=[])
    status, said = train.report(1, losses={"policy": 0.5}, components={"primary": 0.25}, checkpoint="c1")
    assert (status, said["rollouts"], said["format_errors"], said["not_counted"]) == (200, 5, 2, 0)
    assert said["next_phase"] == "scaffold" and said["next_ratio"] == {"group_size": 8, "expert": 6, "solo": 2}
    assert (said["losses"], said["components"], said["checkpoint"]) == ({"policy": 0.5}, {"primary": 0.25}, "c1")


def test_report_leaves_out_faults_and_open_rollouts(train):
    train.play(1, calls=[])
    train.play(1, calls=[], finish="")
    broken = train.play(1, calls=[])
    type(broken).objects.filter(pk=broken.pk).update(fault="environment", state="failed")
    _, said = train.report(1)
    assert (said["rollouts"], said["format_errors"], said["not_counted"]) == (1, 1, 2)


def test_report_twice_is_one_step_and_another_is_refused(train):
    first = train.report(3, checkpoint="c3")
    train.play(3)
    assert train.report(3, checkpoint="c3") == first and TrainingStep.objects.count() == 1
    status, said = train.report(3, checkpoint="other", losses={"policy": 0.5})
    assert (status, said["error"]["code"]) == (409, "step_conflict")
    assert said["error"]["message"] == (
        "Training step 3 was already reported with different values of: losses, checkpoint."
    )


@pytest.mark.parametrize("body", [{"training_step": 0}, {"training_step": 1, "format_errors": 0}, {"losses": {}}])
def test_report_of_strange_body_is_refused(train, body):
    assert train.send("post", f"/runs/{train.run.pk}/steps", body)[0] == 422


def test_report_by_stranger_or_other_scope_is_refused(train, elsewhere, project):
    stranger = Trainer(elsewhere)
    assert train.send("post", f"/runs/{train.run.pk}/steps", {"training_step": 1}, stranger.secret)[0] == 404
    assert train.send("get", f"/runs/{train.run.pk}/steps", None, stranger.secret)[0] == 404
    _, export = token(project, "export")
    assert train.send("post", f"/runs/{train.run.pk}/steps", {"training_step": 1}, export)[0] == 403


def test_report_in_run_with_bad_plan_names_the_field(project):
    trainer = Trainer(project, group_size=1)
    status, said = trainer.report(1)
    assert (status, said["error"]["code"]) == (422, "bad_curriculum") and "group_size" in said["error"]["message"]


def test_steps_are_listed_in_order(train):
    for step in (2, 1, 10):
        train.report(step)
    status, said = train.send("get", f"/runs/{train.run.pk}/steps")
    assert status == 200 and [one["training_step"] for one in said["items"]] == [1, 2, 10]


def test_report_by_expired_token_is_refused(train):
    assert train.send("post", f"/runs/{train.run.pk}/steps", {"training_step": 1}, "nobody")[0] == 401

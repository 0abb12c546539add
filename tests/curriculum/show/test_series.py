"""Training by step: what a trainer reported, rates that the record gives, the drawing and the file."""

from __future__ import annotations

import csv
import io

import pytest
from django.core.management import CommandError, call_command
from tensorboardX.proto.event_pb2 import Event

from curriculum.models import TrainingStep
from curriculum.show import series
from tests.browsing import as_person, html

pytestmark = pytest.mark.usefixtures("shop")


def test_reports_and_counted_rates_stand_by_step(train):
    for complete, finish in ((True, "done"), (False, "max_steps"), (False, "done"), (False, "timeout")):
        train.play(1, complete=complete, finish=finish)
    train.play(1, calls=[{"error": "no", "reward_type": "tool_not_found"}])
    train.report(1, losses={"policy": 0.5}, components={"overall": 0.25, "note": 1})
    train.play(2, complete=True)
    train.report(2, losses={"policy": 0.25}, components={"overall": 0.75})
    found = {one.name: one.points for one in series.of_run(train.run)}
    assert list(found)[:2] == ["reward/note", "reward/overall"] and list(found)[-1] == "loss/policy"
    assert found["reward/overall"] == ((1, 0.25), (2, 0.75)) and found["loss/policy"] == ((1, 0.5), (2, 0.25))
    assert found["episode/success_rate"] == ((1, 0.25), (2, 1.0))
    assert found["episode/timeout_rate"] == ((1, 0.4), (2, 0.0))
    assert found["episode/expert_rate"] == ((1, 0.0), (2, 0.0))
    train.play(3, complete=True, expert="plain")
    train.play(3, complete=False)
    arms = {one.name.rpartition("/")[2]: one.points[-1] for one in series.of_run(train.run) if "success" in one.name}
    assert arms == {"success_rate": (3, 0.5), "solo": (3, 0.0), "with_expert": (3, 1.0)}
    assert series.rates_of(train.run)["episode/expert_rate"][3] == (1, 2)
    tasks = series.tasks_of(train.run)
    assert tasks[""][3] == 1 and tasks["/solo"][3] == tasks["/with_expert"][3] == 1
    so_far = {one.name: one.points for one in series.of_run(train.run) if "completions" in one.name}
    assert so_far["episode/completions"] == ((1, 1.0), (2, 2.0), (3, 3.0))
    assert so_far["episode/completions/solo"] == ((1, 1.0), (2, 2.0), (3, 2.0))
    assert so_far["episode/completions/with_expert"] == ((3, 1.0),)
    assert found["episode/format_error_rate"] == ((1, 0.2), (2, 0.0))


def test_page_draws_series_and_hands_out_a_file(train, ada, elsewhere, max_):
    train.play(1, complete=True)
    train.report(1, components={"=cmd()": 1.0, "<b>odd</b>": 2.0})
    client = as_person(ada)
    page = html(client.get(f"/curriculum/?run={train.run.pk}"))
    assert "Complete rollouts so far" in page and "reward/&lt;b&gt;odd" in page and "<b>odd" not in page
    answer = client.get(f"/curriculum/training.csv?run={train.run.pk}")
    rows = list(csv.DictReader(io.StringIO(answer.content.decode())))
    assert {"training_step": "1", "name": "episode/success_rate", "value": "1.0"} in rows
    for name in ("csv", "tfevents"):
        assert as_person(max_).get(f"/curriculum/training.{name}?run={train.run.pk}").status_code == 404


def scalars(file):
    """Read an event file record by record: length, its checksum, the event, its checksum."""
    found = []
    while file:
        length = int.from_bytes(file[:8], "little")
        event = Event.FromString(file[12 : 12 + length])
        found += [(value.tag, event.step, value.simple_value, event.wall_time) for value in event.summary.value]
        file = file[16 + length :]
    return found


def test_event_file_holds_each_point_at_its_time(train, ada, tmp_path, capsys):
    for step in (1, 2):
        train.report(step, components={"overall": step / 2}, losses={"policy": 0.25})
    file = as_person(ada).get(f"/curriculum/training.tfevents?run={train.run.pk}")
    assert file["Content-Disposition"] == f'attachment; filename="events.out.tfevents.{train.run.pk}"'
    times = [at.timestamp() for at in TrainingStep.objects.order_by("training_step").values_list("at", flat=True)]
    want = [("reward/overall", 1, 0.5), ("reward/overall", 2, 1.0), ("loss/policy", 1, 0.25), ("loss/policy", 2, 0.25)]
    assert [one[:3] for one in scalars(file.content)] == want
    assert [one[3] for one in scalars(file.content)] == times * 2
    call_command("curves", run=train.run.pk, output=tmp_path / "out", project=train.run.project.slug)
    assert "Wrote 2 curves" in capsys.readouterr().out
    assert (tmp_path / "out" / "training.csv").read_text().count("\n") == 5
    assert len(scalars((tmp_path / "out" / f"events.out.tfevents.{train.run.pk}").read_bytes())) == 4


def test_curves_of_a_run_without_training_are_refused(train, tmp_path):
    with pytest.raises(CommandError, match="no training steps"):
        call_command("curves", run=train.run.pk, output=tmp_path, project=train.run.project.slug)

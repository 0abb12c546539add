"""Training by step: what a trainer reported, rates that the record gives, the drawing and the file."""

from __future__ import annotations

import csv
import io

import pytest

from curriculum import series
from curriculum.series import Series
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
    assert found["episode/format_error_rate"] == ((1, 0.2), (2, 0.0))


@pytest.mark.parametrize(
    ("points", "line"),
    [
        (((1, 0.0), (3, 1.0)), "6.0,58.0 294.0,6.0"),
        (((1, 2.0), (2, 2.0)), "6.0,32.0 294.0,32.0"),
        (((7, 2.0),), "6.0,32.0"),
    ],
)
def test_line_spans_the_drawing(points, line):
    assert Series("x", points).line == line


def test_line_of_many_points_is_thinned_to_the_pixels():
    points = tuple((step, float(step % 7)) for step in range(10_000))
    drawn = Series("x", points).line.split()
    assert 250 < len(drawn) <= 300 and drawn[-1].startswith("294.0,")


def test_page_draws_series_and_hands_out_a_file(train, ada, elsewhere, max_):
    train.play(1, complete=True)
    train.report(1, components={"=cmd()": 1.0, "<b>odd</b>": 2.0})
    client = as_person(ada)
    page = html(client.get(f"/curriculum/?run={train.run.pk}"))
    assert "episode/success_rate" in page and "&lt;b&gt;odd" in page and "<b>odd" not in page
    answer = client.get(f"/curriculum/training.csv?run={train.run.pk}")
    rows = list(csv.DictReader(io.StringIO(answer.content.decode())))
    assert {"training_step": "1", "name": "episode/success_rate", "value": "1.0"} in rows
    assert as_person(max_).get(f"/curriculum/training.csv?run={train.run.pk}").status_code == 404

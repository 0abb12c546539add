"""The grammar of charts: styles that differ, labels that keep apart, lines of few points, names without markup."""

from __future__ import annotations

import pytest

from people.text import figures
from people.text.figures import (
    BASELINE,
    EXPERT,
    FIFTH,
    INFORMED,
    SINGLE,
    label,
    spread,
    stretches,
    styles_of,
    thinned,
)


def test_arms_are_told_apart_by_mode_and_never_by_color_alone():
    assert styles_of(["off", "plain", "informed"]) == [BASELINE, EXPERT, INFORMED]
    five = styles_of(["off", "off", "off", "off", "off"])
    assert five == [BASELINE, SINGLE, FIFTH, INFORMED, EXPERT]
    for part in ("color", "dash", "symbol"):
        assert len({getattr(style, part) for style in five}) == (4 if part == "dash" else 5)


@pytest.mark.parametrize(
    ("places", "want"),
    [
        ([], []),
        ([10.0, 50.0], [10.0, 50.0]),
        ([10.0, 12.0, 14.0], [10.0, 20.0, 30.0]),
        ([95.0, 98.0, 100.0], [80.0, 90.0, 100.0]),
    ],
)
def test_labels_move_apart_and_stay_inside(places, want):
    assert spread(places, 10, (0, 100)) == want


def test_thinned_line_keeps_its_ends():
    assert thinned([1, 2, 3], 3) == [1, 2, 3]
    assert thinned(range(101), 5) == [0, 25, 50, 75, 100]


def test_names_are_text_to_plotly_and_cut_to_their_place():
    assert label("<a href=x>&") == "&lt;a href=x&gt;&amp;"
    assert [label(f"march-checkpoint-{step}", 10) for step in (100, 200)] == ["marc…t-100", "marc…t-200"]
    assert label("\u202eevil") == "⟨U+202E⟩evil"


def test_stretches_end_where_the_next_begins():
    assert stretches([]) == []
    assert stretches([(1, "a"), (2, "a"), (4, "b"), (5, "a")]) == [(1, 4, "a"), (4, 5, "b"), (5, 6, "a")]


def test_band_runs_along_the_upper_end_and_back():
    band = figures.band([(1, 0.0), (2, 1.0)], [(1, 5.0), (2, 6.0)], EXPERT)
    assert (band["x"], band["y"]) == ([1, 2, 2, 1], [0.0, 1.0, 6.0, 5.0])
    assert band["fillcolor"] == "--c2/16" and band["hoverinfo"] == "skip"


def test_marks_stand_on_short_lines_alone():
    assert figures.line([(step, 0.0) for step in range(40)], SINGLE, [])["mode"] == "lines+markers"
    assert figures.line([(step, 0.0) for step in range(41)], SINGLE, [])["mode"] == "lines"


def test_chart_keeps_its_name_whatever_it_is_called():
    assert figures.name_of("series", "<b>") == figures.name_of("series", "<b>") != figures.name_of("series", "b")
    assert figures.name_of("series", "\ud800").startswith("series-")

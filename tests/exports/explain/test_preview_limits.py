"""A preview reads a bounded part of the newest episodes, for a bounded time, and says so."""

from __future__ import annotations

import pytest

from exports.errors import PatternTooSlow
from exports.explain import preview
from exports.recipe import Recipe
from exports.rules import redaction
from exports.rules.redaction import Redactor
from people.errors import Invalid
from tests.exports.pages.test_export_pages import episode

FAR = [{"name": "far", "regex": "a(?:.*b)?"}]
"""Reads to the end after each letter: linear for one match, and not for all of them."""


def look(actor, **more):
    return preview.preview(actor, Recipe.read({"format": "sft", **more}))


def test_preview_out_of_time_shows_what_it_has_read(ada, monkeypatch):
    for key in "abcdefg":
        episode(ada, key)
    assert look(ada).is_whole
    monkeypatch.setattr(preview, "PREVIEW_S", -1.0)
    found = look(ada, redact="off")
    assert (found.looked_at, found.matching, found.is_whole) == (1, 7, False) and found.rows


def test_preview_with_a_slow_pattern_is_refused_in_time(ada, monkeypatch):
    monkeypatch.setattr(preview, "PREVIEW_S", 0.05)
    episode(ada, "a", answer="a" * 20_000)
    with pytest.raises(PatternTooSlow):
        look(ada, patterns=FAR)


def test_build_gives_a_pattern_a_bounded_time_for_a_text(monkeypatch):
    monkeypatch.setattr(redaction, "MOST_S", 0.0)
    with pytest.raises(PatternTooSlow):
        Redactor(Recipe.read({"format": "raw", "patterns": FAR})).redact("a" * 50_000)


def test_preview_reads_a_bounded_text(ada, monkeypatch):
    for key in "abc":
        episode(ada, key)
    size = max(
        preview.sizes_of(
            [row["id"] for row in preview.selected(ada, Recipe.read({"format": "sft"})).values("id")]
        ).values()
    )
    monkeypatch.setattr(preview, "TEXT_MAX", 2 * size)
    assert (look(ada).looked_at, look(ada).matching) == (2, 3)
    monkeypatch.setattr(preview, "TEXT_MAX", size - 1)
    with pytest.raises(Invalid, match="too many for a preview"):
        look(ada)

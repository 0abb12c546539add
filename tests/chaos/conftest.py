"""Fixtures that several files of this folder use."""

from tests.runs.faulty import desk, words  # noqa: F401

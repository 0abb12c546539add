"""The reason for an outcome, read from details of any shape."""

from __future__ import annotations

import pytest

from episodes.show.findings import failed_check, found_by

FOUND = {"result": "others", "checks": {"loan_renewed": True, "phone_changed": False, "nothing_else": False}}
LISTED = [{"name": "Loan renewed", "passed": True}, {"name": "Phone <changed>", "passed": False}]


@pytest.mark.parametrize(
    ("details", "words"),
    [
        ({"verify_result": FOUND, "mode": "code"}, "Failed check: phone_changed"),
        ({"verify_result": {"checks": LISTED}}, "Failed check: Phone <changed>"),
        ({"verify_result": {"checks": {"phone": {"passed": False, "got": 3}}}}, "Failed check: phone"),
        ({"verify_result": {"task_completed": False, "reason": "No loan  was\nrenewed."}}, "No loan was renewed."),
        ({"error": "the verifier timed out"}, "the verifier timed out"),
        ({"verify_result": {"result": "others"}, "mode": "code"}, ""),
        ({"llm_judge": {"reasoning": "No loan.", "model": "m", "options": {"think": False}}}, "No loan."),
        ({"reason": "\u202e" + "x" * 400}, "⟨U+202E⟩" + "x" * 291 + "…"),
        (None, ""),
    ],
)
def test_failed_check_is_read_from_common_shapes(details, words):
    assert failed_check(details) == words


@pytest.mark.parametrize("details", [None, [], {"verify_result": "text"}, {"verify_result": {"raw_result": None}}])
def test_found_is_empty_without_a_result(details):
    assert found_by(details) is None


def test_found_is_the_result_without_the_facts_of_the_run():
    assert found_by({"verify_result": {"raw_result": {"result": "others"}, "cpu_ms": 16}}) == {"result": "others"}


def test_failed_check_bears_deep_details():
    deep: object = {"reason": "too deep"}
    for _ in range(500):
        deep = [deep]
    assert failed_check({"verify_result": deep}) == ""

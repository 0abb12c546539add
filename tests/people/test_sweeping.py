"""Periodic tasks: a part that fails ends no other part."""

from __future__ import annotations

import ast

import pytest
from django.db import OperationalError

from experts import tasks
from people.sweeping import run_each
from tests.running import ROOT

ORDERED = {
    "exports/tasks.py": {"build", "push"},
    "awmweb/tasks.py": {"load_demo"},
    "imports/tasks.py": {"read"},
    "runs/tasks.py": {"certify", "campaign"},
}
"""Tasks of one subject, whose steps need those before them."""


def test_part_that_fails_keeps_none_from_running():
    ran = []
    with pytest.raises(ExceptionGroup) as failed:
        run_each(lambda: ran.append(1), lambda: 1 / 0, lambda: ran.append(2), lambda: [][0])
    assert ran == [1, 2] and [type(error) for error in failed.value.exceptions] == [ZeroDivisionError, IndexError]


def test_database_that_is_away_is_waited_for_once():
    def away():
        ran.append(1)
        raise OperationalError

    ran = []
    with pytest.raises(OperationalError):
        run_each(away, away)
    assert ran == [1]


def test_model_works_though_the_sweep_of_asks_fails(monkeypatch):
    worked = []
    for module, name in ((tasks.queue, "find_more_people"), (tasks.ending, "lose_silent")):
        monkeypatch.setattr(module, name, lambda: None)
    monkeypatch.setattr(tasks.closing, "close_due", lambda: 1 / 0)
    monkeypatch.setattr(tasks.llm, "work", lambda: worked.append(True))
    with pytest.raises(ExceptionGroup):
        tasks.sweep()
    assert worked == [True]


def parts_of(function: ast.FunctionDef) -> int:
    """Return how many calls a task makes one after the other."""
    lines = [line for one in function.body for line in ([*one.body] if isinstance(one, ast.If | ast.For) else [one])]
    return sum(isinstance(line, ast.Expr) and isinstance(line.value, ast.Call) for line in lines)


def test_every_task_of_several_parts_runs_each():
    """Use `run_each`, or name the task above."""
    several = {}
    for file in ROOT.glob("*/tasks.py"):
        functions = [one for one in ast.parse(file.read_text()).body if isinstance(one, ast.FunctionDef)]
        named = {
            one.name
            for one in functions
            if "shared_task" in ast.unparse(one).partition("def ")[0] and parts_of(one) > 1
        }
        several |= {str(file.relative_to(ROOT)): named} if named else {}
    assert several == ORDERED

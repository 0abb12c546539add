"""A demo looks alive: it reads, stumbles once, asks where it must, and does what it is told."""

import re

import pytest


def test_a_demo_without_a_question_has_six_to_fourteen_turns_and_one_stumble(quiet_task):
    demo = quiet_task.played["demo"]
    assert 6 <= len(demo.turns) <= 14
    assert 1 <= len(demo.errors) <= 2
    assert max(demo.errors) < 500
    assert "answer" in demo.turns[-1]


def test_a_demo_completes_the_task_unless_it_needed_to_ask_and_did_not(demo_task):
    demo = demo_task.played["demo"]
    expected = "complete" if demo_task.asks or not demo_task.about["needs_expert"] else "others"
    assert demo_task.verify(demo.final, demo.answer) == expected


def test_a_demo_that_asks_fails_without_advice(asking_task):
    alone = asking_task.played["demo without advice"]
    assert "answer" in alone.turns[-1]
    assert asking_task.verify(alone.final, alone.answer) == "others"


def test_a_demo_asks_only_where_the_task_needs_the_expert(asking_task):
    assert asking_task.about["needs_expert"]


def test_each_scenario_has_four_demos_and_one_of_them_asks(tasks, scenario):
    own = [task for task in tasks.values() if task.scenario == scenario]
    assert sum("demo" in task.scripts for task in own) >= 4
    assert any(task.asks for task in own)


@pytest.mark.parametrize(
    ("advice", "name"),
    [
        ("Priya", "priya"),
        ("give it to Priya Raman, please", "priya"),
        ("Not Tomas, it's Priya.", "priya"),
        ("Neither Tomas nor Ines: PRIYA!", "priya"),
        ("Please don't give it to Tomas. Priya.", "priya"),
        ("Tomas's colleague Priya", "priya"),
        ("Let Tomas do it, not Priya", "tomas"),
        ("I have no idea", None),
    ],
)
def test_the_help_desk_demo_understands_a_name_however_it_is_said(tasks, advice, name):
    question = next(turn for turn in tasks["helpdesk_1", 1].scripts["demo"] if "ask" in turn)
    found = re.search(question["listen"]["who"], advice)
    assert (found and found[1].lower()) == name

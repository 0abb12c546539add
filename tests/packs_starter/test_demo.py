"""A demo looks alive: it reads, stumbles once, asks where it must, and does what it is told."""

import re

import pytest


def test_demo_without_ask_has_6_to_14_turns_and_one_error(quiet_task):
    demo = quiet_task.played["demo"]
    assert 6 <= len(demo.turns) <= 14
    assert 1 <= len(demo.errors) <= 2
    assert max(demo.errors) < 500
    assert "answer" in demo.turns[-1]


def test_demo_completes_unless_a_needed_ask_is_missing(demo_task):
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
    ("key", "advice", "heard"),
    [
        (("helpdesk_1", 1), "Priya", "priya"),
        (("helpdesk_1", 1), "give it to Priya Raman, please", "priya"),
        (("helpdesk_1", 1), "Not Tomas, it's Priya.", "priya"),
        (("helpdesk_1", 1), "Neither Tomas nor Ines: PRIYA!", "priya"),
        (("helpdesk_1", 1), "Please don't give it to Tomas. Priya.", "priya"),
        (("helpdesk_1", 1), "Tomas's colleague Priya", "priya"),
        (("helpdesk_1", 1), "Let Tomas do it, not Priya", "tomas"),
        (("helpdesk_1", 1), "I have no idea", None),
        (("library_1", 1), "10", "10"),
        (("library_1", 1), "10 weeks, as always", "10"),
        (("library_1", 1), "Not 3 weeks: they have a 10-week agreement", "10"),
        (("library_1", 1), "3 weeks was the old agreement; now it is 10 weeks.", "10"),
        (("library_1", 1), "They may keep them for a term", None),
        (("library_1", 1), "Reader 8 has 3 copies", None),
        (("trucking_1", 1), "Kestrel", "kestrel"),
        (("trucking_1", 1), "not Polar Lane, take Kestrel Cold Chain", "kestrel"),
        (("trucking_1", 1), "Two Rivers is too slow. Kestrel.", "kestrel"),
        (("trucking_1", 1), "Polar Lane", "polar lane"),
        (("trucking_1", 1), "whoever is cheapest", None),
        (("trucking_1", 4), "3022", "3022"),
        (("trucking_1", 4), "3021 must go, 3022 can wait", "3022"),
        (("trucking_1", 4), "Leave the yoghurt, 3022. Not 3023!", "3022"),
        (("trucking_1", 4), "the dairy", None),
        (("helpdesk_1", 4), "Reopen 1003 and merge the others into it.", "1003"),
        (("helpdesk_1", 4), "into the older open one, 1017", "1017"),
        (("helpdesk_1", 4), "It is not 1021.", None),
        (("helpdesk_1", 3), "Pending ones count as well.", "pending"),
        (("helpdesk_1", 3), "both", "both"),
        (("helpdesk_1", 3), "Open ones only, pending do not count.", None),
        (("repairshop_1", 0), "1", "1"),
        (("repairshop_1", 0), "Not part 2, take part 1.", "1"),
        (("repairshop_1", 0), "the one for 9 speeds", None),
        (("repairshop_1", 5), "No, they are on their way.", None),
        (("repairshop_1", 5), "Leave out the brake cables.", "brake cables"),
        (("repairshop_1", 5), "They are not due again.", "due again"),
        (("trucking_1", 0), "n-14, please", "n-14"),
        (("trucking_1", 0), "Not E-21. N-14!", "n-14"),
        (("trucking_1", 5), "100", "100"),
        (("trucking_1", 5), "80.00 plus 25 % is 100.00.", "100.00"),
        (("trucking_1", 5), "the surcharge comes on top", None),
    ],
)
def test_a_demo_understands_its_answer_however_it_is_said(tasks, key, advice, heard):
    question = next(turn for turn in tasks[key].scripts["demo"] if "ask" in turn)
    (pattern,) = question["listen"].values()
    found = re.search(pattern, advice)
    assert (found and found[1].lower()) == heard


@pytest.mark.parametrize(
    ("key", "advice", "heard"),
    [
        (("helpdesk_1", 5), "Urgent and high ones to Jonas, the others to Aiko.", ["jonas", "aiko"]),
        (("helpdesk_1", 5), "Aiko takes everything", [None, None]),
        (("library_1", 5), "juniors: 3, all others: 1", ["3", "1"]),
        (("library_1", 5), "Children's holds go to branch 3, the rest to Main (1).", ["3", "1"]),
    ],
)
def test_a_demo_hears_both_halves_of_an_answer(tasks, key, advice, heard):
    question = next(turn for turn in tasks[key].scripts["demo"] if "ask" in turn)
    found = [re.search(pattern, advice) for pattern in question["listen"].values()]
    assert [one and one[1].lower() for one in found] == heard


@pytest.mark.parametrize(
    ("advice", "heard"),
    [
        ("28.40, and waive 409", ("28.40", "409")),
        ("24.90 plus 3.50 makes 28.40. Then fine 409 is waived.", ("28.40", "409")),
        ("the price and handling", (None, None)),
    ],
)
def test_demo_of_a_lost_film_hears_sum_and_fine(tasks, advice, heard):
    question = next(turn for turn in tasks["library_1", 4].scripts["demo"] if "ask" in turn)
    found = {name: re.search(pattern, advice) for name, pattern in question["listen"].items()}
    assert tuple(found[name] and found[name][1] for name in ("amount", "fine")) == heard

"""The tables browser: what rows were before and are now, folded over steps. Pure."""

from __future__ import annotations

from episodes.tables import touched


def step(seq, **tables):
    return {"seq": seq, "kind": "tool_call", "state_diff": tables}


def changed(key, before, after):
    return {"changed": [{"key": {"id": key}, "before": before, "after": after}]}


def shown(table):
    return [(row.word, [(cell.before, cell.after) for cell in cells], row.steps) for row, cells in table.rows]


def test_row_changed_twice_shows_first_and_last_values():
    steps = [step(3, tickets=changed(7, {"status": "new"}, {"status": "open"}))]
    steps += [step(5, tickets=changed(7, {"status": "open", "by": None}, {"status": "solved", "by": "Edo"}))]
    [table] = touched(steps)
    assert (table.name, table.columns, table.hidden) == ("tickets", ["id", "status", "by"], 0)
    assert shown(table) == [("changed", [("7", "7"), ("new", "solved"), ("", "Edo")], [3, 5])]


def test_added_removed_and_both_are_told_apart():
    steps = [step(1, notes={"added": [{"id": 1, "text": "a"}, {"id": 2, "text": "b"}], "more": 4})]
    steps += [step(2, notes={"removed": [{"id": 2, "text": "b"}, {"id": 9, "text": "old"}]})]
    steps += [step(3, notes=changed(1, {"text": "a"}, {"text": "c"}))]
    [table] = touched(steps)
    assert table.hidden == 4
    assert shown(table) == [
        ("added", [("", "1"), ("", "c")], [1, 3]),
        ("added and removed", [("", ""), ("", "")], [1, 2]),
        ("removed", [("9", ""), ("old", "")], [2]),
    ]


def test_a_row_that_came_back_is_a_changed_one():
    steps = [step(1, notes={"removed": [{"id": 2, "text": "b"}]}), step(2, notes={"added": [{"id": 2, "text": "z"}]})]
    assert shown(touched(steps)[0]) == [("changed", [("2", "2"), ("b", "z")], [1, 2])]


def test_a_diff_that_is_none_and_hostile_cells_break_nothing():
    steps = [step(1), {"seq": 2, "state_diff": 7}, step(3, t={"added": ["x", {"a": "\x00" + "y" * 500}], "changed": 3})]
    [table] = touched([*steps, {"seq": 4, "state_diff": {"u": [1]}}])
    [(_, [cell])] = table.rows
    assert cell.after.startswith("⟨U+0000⟩y") and cell.after.endswith("…") and cell.told

"""The tables browser: what rows were before and are now, folded over steps. Pure."""

from __future__ import annotations

from django.template.loader import render_to_string

from episodes.show.tables import at_step, touched, with_start


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
    assert shown(table) == [("changed", [("7", "7"), ("new", "solved"), (None, "Edo")], [3, 5])]


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
    assert cell.after.startswith("⟨NUL⟩y") and cell.after.endswith("…") and cell.reported


def test_tables_at_a_step_hold_rows_that_later_steps_change():
    steps = [step(2, tickets=changed(7, {"status": "new"}, {"status": "open"}))]
    steps += [step(4, tickets=changed(8, {"status": "late"}, {"status": "done"}), notes={"added": [{"id": 1}]})]
    steps += [step(6, tickets={"removed": [{"id": 7, "status": "open", "by": "Edo"}]})]
    first, third, last = (at_step(steps, seq) for seq in (1, 3, 9))
    unchanged = [("unchanged", [("7", "7"), ("new", "new"), ("Edo", "Edo")], [])]
    later = [("unchanged", [("8", "8"), ("late", "late"), ("", "")], [])]
    assert [table.name for table in first] == ["tickets"] and shown(first[0]) == unchanged + later
    assert shown(third[0]) == [("changed", [("7", "7"), ("new", "open"), ("Edo", "Edo")], [2]), *later]
    assert shown(last[0])[0] == ("removed", [("7", ""), ("new", ""), ("Edo", "")], [2, 6])
    assert [table.name for table in last] == ["tickets", "notes"] and shown(last[1]) == [("added", [("", "1")], [4])]
    assert at_step([], 1) == []


START = [{"id": 7, "status": "new", "by": "Ann"}, {"id": 8, "status": "new", "by": None}, {"id": 9, "status": "old"}]


def test_start_rows_complete_what_steps_changed():
    steps = [step(2, tickets=changed(7, {"status": "new"}, {"status": "open"}))]
    steps += [step(4, tickets={"removed": [START[2]], "added": [{"id": 20, "status": "fresh", "by": "Edo"}]})]
    first, third, last = (with_start(steps, seq, "tickets", START, ["id"]) for seq in (1, 3, 9))
    assert [(row.key, row.word) for row, _ in first.rows] == [
        ("7", "unchanged"),
        ("8", "unchanged"),
        ("9", "unchanged"),
    ]
    assert [row.word for row, _ in third.rows] == ["changed", "unchanged", "unchanged"]
    assert shown(third)[0] == ("changed", [("7", "7"), ("new", "open"), ("Ann", "Ann")], [2])
    assert [(row.key, row.word) for row, _ in last.rows] == [
        ("20", "added"),
        ("7", "changed"),
        ("9", "removed"),
        ("8", "unchanged"),
    ]


def test_later_page_of_start_rows_leaves_other_changes_out():
    steps = [step(2, tickets=changed(7, {"status": "new"}, {"status": "open"}))]
    later = with_start(steps, 9, "tickets", START[1:], ["id"], is_first=False)
    assert [row.key for row, _ in later.rows] == ["8", "9"]
    assert [row.key for row, _ in with_start(steps, 9, "tickets", START[1:], ["id"]).rows] == ["7", "8", "9"]


def test_row_with_a_key_of_two_columns_is_found_under_both_names():
    steps = [step(1, tags={"changed": [{"key": {"a": 1, "b": 2}, "before": {"n": 1}, "after": {"n": 5}}]})]
    table = with_start(steps, 1, "tags", [{"a": 1, "b": 2, "n": 1}, {"a": 1, "b": 3, "n": 1}], ["a", "b"])
    assert [(row.word, row.steps) for row, _ in table.rows] == [("changed", [1]), ("unchanged", [])]


def test_null_is_told_from_an_empty_text():
    steps = [step(2, tickets=changed(7, {"by": None, "note": ""}, {"by": "", "note": None}))]
    steps += [step(3, tickets={"removed": [{"id": 8, "by": None, "note": ""}], "added": [{"id": 9, "by": None}]})]
    [table] = touched(steps)
    assert [cells for _, cells, _ in shown(table)] == [
        [("7", "7"), (None, ""), ("", None)],
        [("8", ""), (None, ""), ("", "")],
        [("", "9"), ("", None), ("", "")],
    ]
    page = "".join(render_to_string("episodes/step/_rows.html", {"tables": [table]}).split())
    null = '<iclass="dim">null</i>'
    assert page.count(null) == 4 and f"<del>{null}</del>" in page and f"<ins>{null}</ins>" in page
    assert "<del></del>" in page and "<ins></ins>" in page

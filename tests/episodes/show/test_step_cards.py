"""The picture of a step: what came back in words, tables, state changes, advice, and hostile text made harmless."""

from __future__ import annotations

import json
import re

import pytest
from django.template import Context, Template

from episodes.show.json_paths import value_at
from episodes.show.state_lines import diff_lines
from episodes.show.step_cards import argument_of, card_of
from episodes.show.values import json_pieces, table_of, words_of
from tests.browsing import squeezed

CALL = {"seq": 1, "kind": "tool_call", "name": "get_ticket", "arguments": {"ticket_id": 7}}


def drawn(step: dict, **more: object) -> str:
    card = Template("{% load marks %}{% step_card step ended=ended %}")
    return squeezed(card.render(Context({"step": step, "ended": False, **more})))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([{"id": 1}, {"id": 2}], "2 rows"),
        ([1], "1 item"),
        ({"tickets": [{"id": 1}], "total": 1}, "1 ticket"),
        ({"people": [{"id": 1}]}, "1 in people"),
        ({"tickets": [], "total": 0}, "no tickets"),
        ({"tags": [], "id": 7, "subject": "Lift"}, "id 7, subject Lift"),
        ({"ticket": {"id": 7, "status": "new", "tags": []}}, "ticket: id 7, status new"),
        ({"id": 7, "status": "open", "note": None}, "id 7, status open"),
        ({}, "empty object"),
        ("line one\nline two", "line one"),
        ("", "empty text"),
        (True, "true"),
        ({"ok": True, "left": 1.5}, "ok true, left 1.5"),
    ],
)
def test_a_result_is_said_in_one_line(value, words):
    assert words_of(value) == words


def test_json_inside_a_string_is_read_as_json():
    card = card_of({**CALL, "result": '{"id": 7, "status": "open"}'})
    assert card.result.words == "id 7, status open"
    assert ("jk", '"id"') in card.result.pieces


def test_flat_object_list_is_a_table_and_nested_is_not():
    table = table_of({"tickets": [{"id": 1, "status": "open"}, {"id": 2, "by": None}]})
    assert table.columns == ["id", "status", "by"] and table.rows[1] == ["2", "", None]
    assert table_of([{"id": {"deep": 1}}]) is None
    assert table_of([]) is None


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('{"total": 10.10, "most": 1e400, "none": -0.0}', '{\n  "total": 10.10,\n  "most": 1e400,\n  "none": -0.0\n}'),
        ('{"id":1,"id":2}', '{\n  "id": 1,\n  "id": 2\n}'),
        ("[9007199254740993,[ ],{}]", "[\n  9007199254740993,\n  [],\n  {}\n]"),
        ('{"a":"caf\\u00e9, [1] \\"x\\"","b":[NaN]}', '{\n  "a": "café, [1] \\"x\\"",\n  "b": [\n    NaN\n  ]\n}'),
        ('{"a": 10.10', '{"a": 10.10'),
        ("[]", "[]"),
    ],
)
def test_json_in_a_result_keeps_the_values_of_its_text(text, shown):
    assert "".join(piece for _, piece in card_of({**CALL, "result": text}).result.pieces) == shown


def test_rows_of_a_result_keep_the_digits_of_its_text():
    card = card_of({**CALL, "result": '[{"price": 10.10, "sum": 1e400, "id": 9007199254740993}]'})
    assert card.result.table.rows == [["10.10", "1e400", "9007199254740993"]]
    assert card_of({**CALL, "result": '{"id": 7, "total": 10.10}'}).result.words == "id 7, total 10.10"
    assert card_of({**CALL, "result": '[{"id": 1, "id": 2}]'}).result.table is None  # which of the two is unknown


@pytest.mark.parametrize("deep", ["[" * 950 + "]" * 950, '{"a":' * 950 + "1" + "}" * 950, "[" * 90_000])
@pytest.mark.parametrize(
    "step",
    [
        {"kind": "tool_call", "name": "DEEP", "arguments": {"DEEP": "DEEP"}, "result": "DEEP"},
        {"kind": "tool_call", "name": "get", "arguments": {}, "error": "DEEP", "meta": {"traceback": "DEEP"}},
        {"kind": "action", "action": {"body": "DEEP"}, "observation": {"text": "DEEP"}},
        {"kind": "message", "role": "user", "content": "DEEP"},
        {"kind": "ask", "question": "DEEP", "context": "DEEP", "advice": {"source": "human", "text": "DEEP"}},
        {"kind": "verification", "reward_type": "DEEP", "reward": 0.0, "details": {"found": "DEEP"}},
        {"kind": "briefing", "text": "DEEP", "author": "DEEP"},
    ],
    ids=lambda step: step["kind"],
)
def test_text_that_nests_too_deeply_is_shown_as_text(deep, step):
    def filled(value):
        if isinstance(value, dict):
            return {name.replace("DEEP", deep): filled(one) for name, one in value.items()}
        return deep if value == "DEEP" else value

    page = drawn({"seq": 1, **filled(step), "state_diff": {deep: {"added": [{deep: deep}]}}})
    assert deep[:80].replace('"', "&quot;") in page


def test_rows_of_a_step_in_its_cut_form_are_counted_in_full():
    from episodes.stored.truncation import cut_text

    rows = [{"id": n, "note": "x" * 90} for n in range(500)]
    for result, words in ((rows, "500 rows"), ({"orders": rows}, "500 orders")):
        step = json.loads(cut_text(json.dumps({**CALL, "result": result})))
        assert words_in(card_of(step)) == (words, 450)
        del step["cut"]["counts"]  # as it was stored before it had counts
        assert words_in(card_of(step)) == (words.replace("500", "first 100"), 50)


def words_in(card):
    return card.result.words, card.result.table.hidden


def test_a_long_table_says_how_much_it_leaves_out():
    assert table_of([{"id": n} for n in range(80)]).hidden == 30


def test_a_long_argument_is_cut_with_its_size_and_kept_in_full():
    cut = argument_of("note", "x" * 500)
    assert cut.value.endswith("…") and cut.size == "502 B" and len(cut.full) == 502


def test_a_changed_row_is_named_once_and_shows_old_and_new():
    diff = {"tickets": {"changed": [{"key": 7, "before": {"a": 1, "b": 2}, "after": {"a": 3, "b": 4}}]}}
    lines = list(diff_lines(diff))
    assert [(line.sign, line.row, line.new.name, line.old.text, line.new.text) for line in lines] == [
        ("~", "tickets 7", "a", "1", "3"),
        ("", "", "b", "2", "4"),
    ]


def test_added_and_removed_rows_stand_on_one_line_each():
    lines = list(diff_lines({"tags": {"added": [{"id": 1, "t": "x"}], "removed": [{"id": 2, "t": "y"}]}}))
    assert [(line.sign, line.row, [(one.name, one.text) for one in line.fields]) for line in lines] == [
        ("+", "tags 1", [("id", "1"), ("t", "x")]),
        ("−", "tags 2", [("id", "2"), ("t", "y")]),
    ]


def test_values_of_a_long_row_end_where_its_line_is_full():
    (line,) = diff_lines({"t": {"added": [{"id": 1, "a": "x" * 150, "b": "y" * 150, "c": 2}]}})
    assert [len(one.text) for one in line.fields] == [1, 150, 79] and line.fields[-1].text.endswith("y…")


DIFF = {
    "tickets": {
        "changed": [
            5,
            {"key": 7, "before": {"a": None, "b x": 2}, "after": {"a": 3, "b x": "4", "c": [1]}},
            {"key": 8, "columns": {"d": [1, 2], "e": 3}},
        ],
        "added": [{"key": 1, "row": {"id": 1, "note": "n"}}],
        "removed": [{"id": 2, "old\u202e": "y"}],
    }
}


def test_each_value_of_a_change_has_the_path_that_names_it():
    lines = list(diff_lines(DIFF, "$.state_diff"))
    found = {one.path: one.text for line in lines for one in (line.old, line.new, *line.fields) if one.path}
    assert {path: str(value_at({"state_diff": DIFF}, path)).replace("None", "null") for path in found} == found
    assert "$.state_diff.tickets.changed[1].before.c" not in found and len(found) == 11
    rows = ("changed[1]", "changed[2]", "added[0]", "removed[0]")
    assert [line.path for line in lines if line.path] == [f"$.state_diff.tickets.{row}" for row in rows]
    assert not any(line.path or line.new.path for line in diff_lines(DIFF))  # of a whole episode


@pytest.mark.parametrize("diff", [None, [], "x", {"t": None}, {"t": {"changed": "x"}}, {"t": {"added": [1, None]}}])
def test_a_misshapen_diff_draws_nothing_and_breaks_nothing(diff):
    assert list(diff_lines(diff)) == []
    drawn({**CALL, "result": "ok", "state_diff": diff})


def test_an_error_is_the_summary_itself():
    page = drawn({**CALL, "error": "409 Conflict\nOnly open tickets.", "reward": -1.0})
    assert "409 Conflict" in page and "Only open tickets." in page and "reward −1.0" in page and "k-error" in page


def test_ask_without_an_expert_is_drawn_as_no_fault():
    page = drawn({**CALL, "name": "ask_expert", "error": "Unknown tool: ask_expert"})
    assert "No expert in this episode. The agent got: Unknown tool: ask_expert" in page
    assert (
        "err" not in re.findall(r'class="(res[^"]*)"', page)[0] and '"bad"' not in page and "without an expert" in page
    )


def test_markup_and_turned_text_of_an_agent_stay_text():
    page = drawn(
        {"seq": 1, "kind": "message", "role": "assistant", "content": "<script>x</script>\u202eevil\x00\ud800"}
    )
    assert "<script>" not in page and "&lt;script&gt;" in page
    assert "⟨U+202E⟩" in page and "⟨NUL⟩" in page and "⟨U+D800⟩" in page
    page.encode()


def test_hostile_names_and_arguments_are_escaped_too():
    page = drawn(
        {**CALL, "name": "<b>", "arguments": {"<i>": ["</pre><img src=x onerror=alert(1)>"]}, "result": {"<u>": "<s>"}}
    )
    assert "<b><b>" not in page and "<img" not in page and "<u>" not in page and "<s>" not in page


def test_an_open_ask_links_to_its_page_and_pulses():
    page = drawn({"seq": 4, "kind": "ask", "ask": "abc", "question": "Which?"})
    assert "/asks/abc/" in page and "Waiting for advice" in page and 'class="step waits"' in page


def test_an_ask_without_advice_of_an_ended_episode_is_cancelled():
    page = drawn({"seq": 4, "kind": "ask", "ask": "abc", "question": "Which?"}, ended=True)
    assert "a-cancelled" in page and "Waiting for advice" not in page


def test_advice_of_a_person_speaks_serif_and_of_a_model_sans():
    advice = {"text": "Reopen it.", "source": "human", "author": "Edo", "privilege": "blind"}
    step = {"seq": 4, "kind": "ask", "question": "Which?", "advice": advice}
    assert 'class="words voice"' in drawn(step) and "answered, blind" in drawn(step)
    model = drawn({**step, "advice": {**advice, "source": "llm", "privilege": "sees_verifier"}})
    assert 'class="words voice"' not in model and "sees verifier" in model


def test_a_fallback_never_reads_as_advice():
    page = drawn(
        {"seq": 4, "kind": "ask", "question": "?", "advice": {"text": "", "source": "fallback", "reason": "deadline"}}
    )
    assert (
        "No answer before the deadline. No advice was sent." in page
        and "a-fell" in page
        and 'class="words voice"' not in page
    )


def test_a_verification_shows_its_hexagon_and_reward():
    page = drawn({"seq": 9, "kind": "verification", "reward_type": "others", "reward": 0.0, "details": {"a": 1}})
    assert "v-others" in page and "reward 0.0" in page


def test_json_pieces_lose_nothing():
    text = '{\n  "a\\"b": [1.5e3, true, null, "x: \\"y\\""],\n  "c": {}\n}'
    assert "".join(piece for _, piece in json_pieces(text)) == text


def test_rows_beyond_the_limit_of_a_diff_are_counted():
    from episodes.stored.strip import changes_of

    diff = {"logs": {"added": [{"id": 1}], "removed": [], "changed": [], "more": 40}}
    assert [line.more or line.fields[0].text for line in diff_lines(diff)] == ["1", "40 more rows"]
    assert changes_of(diff) == 41


def test_a_key_of_several_columns_names_its_row():
    diff = {"t": {"changed": [{"key": {"a": 1, "b": 2}, "before": {"c": 1}, "after": {"c": None}}]}}
    assert [(line.row, line.new.text) for line in diff_lines(diff)] == [("t 1 2", "null")]


@pytest.mark.parametrize(
    ("role", "content", "hidden"), [("assistant", " \n", True), ("assistant", "so", False), ("user", "", False)]
)
def test_an_empty_message_of_the_agent_makes_no_row(role, content, hidden):
    row = re.search(r"<li[^>]*>", drawn({"seq": 2, "kind": "message", "role": role, "content": content}))[0]
    assert (" hidden" in row) is hidden


def test_returned_rows_draw_null_and_no_empty_text():
    page = drawn({**CALL, "result": [{"id": 1, "by": None, "why": ""}, {"id": 2, "why": "null"}]})
    assert '<td>1</td><td><i class="dim">null</i></td><td></td>' in page
    assert "<td>2</td><td></td><td>null</td>" in page


def test_a_message_that_was_cut_off_says_so():
    cut = {"kind": "message", "seq": 1, "role": "assistant", "content": "", "finish_reason": "length"}
    card = card_of(cut)
    assert card.stopped == "cut off at a limit (finish_reason length)" and not card.is_empty
    assert card_of({**cut, "finish_reason": "stop"}).stopped == ""

"""Comparing episodes: one insertion does not cascade, the first divergence, and the final databases."""

from __future__ import annotations

import random
import time

import pytest

from awmclient.schema import EpisodeStart, Finish, Outcome, RunStart, StepBatch
from episodes.record import ending, recording
from episodes.show.alignment import Act, acts_of, align, differences, divergence, headline
from tests.browsing import as_person, html


def call(name, arguments=None, result="ok", **more):
    return {"kind": "tool_call", "name": name, "arguments": arguments or {}, "result": result, **more}


def steps(*rows):
    return [{"seq": seq, **row} for seq, row in enumerate(rows, 1)]


def kinds(left, right):
    return [pair.kind for pair in align(acts_of(steps(*left)), acts_of(steps(*right)))]


def test_insertion_does_not_cascade():
    one = [call("get", {"id": number}) for number in range(6)]
    other = [*one[:2], call("search", {"q": "x"}), *one[2:]]
    assert kinds(one, other) == ["same", "same", "right", "same", "same", "same", "same"]
    assert kinds(other, one) == ["same", "same", "left", "same", "same", "same", "same"]


def test_same_tool_stands_on_one_line():
    one = [call("get", {"id": 1}), call("put", {"to": "a"}), call("done")]
    other = [call("get", {"id": 1}, "else"), call("look"), call("put", {"to": "b"}), call("done", error="no")]
    assert kinds(one, other) == ["result", "right", "arguments", "result"]


def test_order_of_arguments_is_no_difference():
    assert kinds([call("get", {"a": 1, "b": 2})], [call("get", {"b": 2, "a": 1})]) == ["same"]


def test_asks_and_actions_are_compared_and_talk_is_not():
    said = {"kind": "message", "role": "assistant", "content": "x"}
    ask = {"kind": "ask", "question": "Which?", "advice": {"text": "7", "source": "human"}}
    act = {"kind": "action", "action": {"go": 1}, "observation": {"at": 2}}
    assert kinds([said, ask, act], [ask, said, said, {**act, "observation": {"at": 3}}]) == ["same", "result"]


def test_divergence_is_the_first_line_that_differs():
    one = acts_of(steps(call("a"), call("b"), call("c")))
    assert divergence(align(one, one)) is None
    assert divergence(align(one, acts_of(steps(call("a"), call("c"))))) == 1
    assert divergence(align([], [])) is None


def test_each_action_stands_once_in_any_alignment():
    chance = random.Random(5)
    for _ in range(200):
        sides = [
            acts_of(
                steps(*(call(chance.choice("abc"), {"n": chance.randrange(3)}) for _ in range(chance.randrange(12))))
            )
            for _ in range(2)
        ]
        pairs = align(*sides)
        assert [pair.left for pair in pairs if pair.left] == sides[0]
        assert [pair.right for pair in pairs if pair.right] == sides[1]


def test_long_episodes_are_aligned_in_seconds():
    chance = random.Random(5)
    sides = [acts_of(steps(*(call("get", {"n": chance.randrange(500)}) for _ in range(2000)))) for _ in range(2)]
    began = time.process_time()
    align(*sides)
    assert time.process_time() - began < 5  # 0.1 s where it was written


def changed(seq, table, **kinds_):
    return {"seq": seq, "kind": "tool_call", "state_diff": {table: kinds_}}


def test_final_databases_differ_in_rows_and_columns():
    def moved(status):
        return {"key": {"id": 1}, "before": {"status": "open", "by": "x"}, "after": {"status": status, "by": "x"}}

    left = [changed(1, "tickets", changed=[moved("closed")]), changed(2, "notes", added=[{"id": 5, "text": "a"}])]
    right = [changed(1, "tickets", changed=[moved("merged")]), changed(2, "tags", removed=[{"id": 9, "name": "z"}])]
    found = {(row.table, row.left, row.right): row.cells for row in differences(left, right)}
    assert found == {
        ("tickets", "changed", "changed"): [("status", "closed", "merged")],
        ("notes", "added", "unchanged"): [("id", "5", "no row"), ("text", "a", "no row")],
        ("tags", "unchanged", "removed"): [("id", "9", "no row"), ("name", "z", "no row")],
    }
    assert differences(left, left) == []


def test_ask_is_shown_without_its_markdown():
    act = Act(1, "ask", "Is **this** it?\n\n```\nmerge(7)\nclose()\n```", "`yes`")
    assert (act.shown_given, act.shown_came) == ("Is this it? merge(7) …", "yes")


def test_row_that_comes_back_is_no_difference():
    there = {"key": {"id": 1}, "before": {"n": 1}, "after": {"n": 2}}
    back = {"key": {"id": 1}, "before": {"n": 2}, "after": {"n": 1}}
    assert differences([changed(1, "t", changed=[there]), changed(2, "t", changed=[back])], []) == []


@pytest.fixture
def played(ada):
    def add(key, *rows, diff=None, **more):
        start = EpisodeStart(key=key, task="Sort the desk.", scenario="desk_1", task_idx=3, **more)
        one, _ = recording.start_episode(ada, start)
        recording.append_steps(ada, one.pk, StepBatch.model_validate({"steps": steps(*rows)}).steps)
        ending.finish(ada, one.pk, Finish(stop_reason="done", final_answer=f"answer of {key}"))
        found = Outcome(reward_type="others" if diff is None else "complete", reward=1.0, state_diff=diff or {})
        ending.record_outcome(ada, one.pk, found)
        return one

    return add


@pytest.mark.django_db
def test_page_shows_the_first_divergence_of_two(ada, played):
    one = played("one", call("get"), call("put", {"to": "<b>a"}), diff={"tags": {"added": [{"id": 1, "n": "x"}]}})
    other = played("two", call("get"), call("look"), call("put", {"to": "b"}), diff={"tags": {"added": [{"id": 2}]}})
    page = html(as_person(ada).get(f"/episodes/compare/?episode={one.pk}&episode={other.pk}"))
    assert "They differ from step 2 on: only the second called look." in page
    assert "Actions: 1 of 3 the same" in page and "&lt;b&gt;a" in page
    assert f'href="/projects/lab/episodes/{other.pk}/replay/?step=2"' in page
    assert "Final databases: 2 different rows" in page
    assert "answer of one" in page and "answer of two" in page


REFUSED = call("ask_expert", {"question": "Which?"}, result=None, error="Unknown tool: ask_expert")
FELL = {"source": "fallback", "reason": "deadline"}


def ask(question="Which?", advice=None):
    return {"kind": "ask", "question": question, "advice": advice or {"text": "7", "source": "human"}}


@pytest.mark.parametrize(
    ("left", "right", "words"),
    [
        (REFUSED, ask(), "from step 2 on: the ask of baseline was refused, that of expert was answered."),
        (REFUSED, ask("What?"), "from step 2 on: the ask of baseline was refused, that of expert was answered."),
        (ask(advice=FELL), ask(), "from step 2 on: the ask of baseline fell back, that of expert was answered."),
        (ask(), ask(advice={"text": "8", "source": "llm"}), "from step 2 on: different answers to one question."),
        (None, ask(), "from step 2 on: only expert asked, and its ask was answered."),
        (REFUSED, None, "from step 2 on: only baseline asked, and its ask was refused."),
        (call("put", {"to": "a"}), call("put", {"to": "b"}), "from step 2 on: different arguments."),
        (None, call("look"), "from step 2 on: only expert called look."),
    ],
)
def test_first_divergence_says_what_each_arm_did(left, right, words):
    pairs = align(*(acts_of(steps(*[call("get"), *([one] if one else []), call("done")])) for one in (left, right)))
    said = headline(pairs[divergence(pairs)], ("baseline", "expert"))
    assert said == f"They differ {words}"


@pytest.mark.django_db
def test_columns_of_two_arms_have_their_names(ada, played):
    one = played("one", call("get"), REFUSED, arm="baseline")
    other = played("two", call("get"), call("look"), arm="expert<b>")
    page = html(as_person(ada).get(f"/episodes/compare/?episode={one.pk}&episode={other.pk}"))
    assert "<th>baseline</th>" in page and "<th>expert&lt;b&gt;</th>" in page and "First" not in page
    assert "only in expert&lt;b&gt;" in page and "Unknown tool" not in page
    assert "<th>First</th>" in html(
        as_person(ada).get(f"/episodes/compare/?episode={one.pk}&episode={played('x', call('get')).pk}")
    )


@pytest.mark.django_db
def test_page_shows_several_as_small_multiples(ada, played):
    march = recording.start_run(ada, RunStart(name="march <1>"))[0]
    made = [played(f"e{number}", call("get"), seed=number, run=march.pk) for number in range(4)]
    page = html(as_person(ada).get(f"/episodes/compare/?with={made[0].pk}"))
    assert page.count("<article") == 4 and "4 episodes of desk_1 / 3" in page
    assert ", seed 3, march &lt;1&gt;</p>" in page
    assert f'href="?episode={made[0].pk}&amp;episode={made[3].pk}"' in page
    same = html(as_person(ada).get(f"/episodes/compare/?episode={made[0].pk}&episode={made[1].pk}"))
    assert "Both episodes took the same 1 action." in same


@pytest.mark.django_db
def test_selection_leads_to_the_comparison(ada, played):
    ids = [played("one", call("get")).pk, played("two", call("get")).pk]
    answer = as_person(ada).post("/episodes/selected", {"act": "compare", "episode": ids})
    assert answer.url == f"/projects/lab/episodes/compare/?episode={ids[0]}&episode={ids[1]}"
    assert as_person(ada).get(answer.url).status_code == 200


@pytest.mark.django_db
def test_comparison_of_too_few_or_of_strangers_is_refused(ada, max_, played):
    one, other = played("one", call("get")), played("two", call("get"))
    assert as_person(ada).get(f"/episodes/compare/?episode={one.pk}").status_code == 422
    for query in (f"episode={one.pk}&episode={other.pk}", f"with={one.pk}"):
        assert as_person(max_).get(f"/episodes/compare/?{query}").status_code == 404


@pytest.mark.django_db
def test_columns_of_one_arm_have_the_seeds_of_a_task(ada, played):
    one = played("one", call("get"), call("put"), arm="baseline", seed=0)
    other = played("two", call("get"), call("look"), arm="baseline", seed=1)
    page = html(as_person(ada).get(f"/episodes/compare/?episode={one.pk}&episode={other.pk}"))
    assert "<th>Seed 0</th>" in page and "<th>Seed 1</th>" in page and "First" not in page
    assert "from step 2 on: only seed 0 called put." in page

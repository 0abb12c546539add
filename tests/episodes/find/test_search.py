"""Search: the words of steps are found once they were read, and no step is lost on the way."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from awmclient.schema import AskOpen, EpisodeStart, Finish, Outcome, StepBatch
from episodes.find import in_episode, lists, search
from episodes.find.narrowing import matching
from episodes.find.search import hits
from episodes.find.search_text import FOUND_CHARS, matches, text_of
from episodes.models import Episode, EpisodeFacts, EpisodeWords, SearchMark, Step, StepWords
from episodes.record import ending, indexing, recording
from episodes.visible.lens import EVERYTHING
from experts.record import advising, opening, queue
from people.errors import Invalid

pytestmark = pytest.mark.django_db


def started(actor, key, **more):
    return recording.start_episode(actor, EpisodeStart(key=key, task="Sort the desk.", **more))[0]


def add(actor, episode, *steps):
    episode.refresh_from_db()
    rows = [{"seq": episode.last_seq + number, **step} for number, step in enumerate(steps, 1)]
    recording.append_steps(actor, episode.pk, StepBatch.model_validate({"steps": rows}).steps)


def call(name, **more):
    return {"kind": "tool_call", "name": name, "arguments": {}, **more}


def said(text):
    return {"kind": "message", "role": "assistant", "content": text}


def keys(actor, **filters):
    found = lists.episodes(actor, {name: [value] for name, value in filters.items()}, "", 50).items
    return [one.key for one in found]


@pytest.fixture
def ask(ada):
    def open_(episode, question, text=None):
        episode.refresh_from_db()
        plan = AskOpen(key=question, episode=episode.pk, seq=episode.last_seq + 1, question=question)
        one, _ = opening.open_ask(ada, plan)
        if text is not None:
            lease = queue.claim(ada, one.pk)
            advising.answer(ada, lease.assignment_id, lease.lease_token, text, "n")
        return one

    return open_


def test_words_of_every_kind_of_step_are_found(ada, ask):
    one = started(ada, "one", expert="plain")
    add(
        ada, one, said("quince"), call("requeue_run", arguments={"where": {"plum": [1, "fig"]}}, result={"pear": 7}),
        call("other", error="HTTP 429: rate limit"),
        {"kind": "action", "action": {"kiwi": 1}, "observation": {"x": "lime"}},
    )  # fmt: skip
    ask(one, "May I peel?", "Only the lemon.")
    assert keys(ada, q="quince") == []
    assert indexing.work() == 5
    words = ("quince", "QUINCE", "requeue_run", "plum", "fig", "pear", "kiwi", "lime", '"rate limit"', "peel", "lemon")
    assert [word for word in words if keys(ada, q=word) != ["one"]] == []
    assert keys(ada, q="rate -limit") == keys(ada, q='"limit rate"') == keys(ada, q="durian") == []


def test_verifier_is_not_found(ada):
    one = started(ada, "one")
    add(ada, one, said("x"))
    ending.finish(ada, one.pk, Finish(stop_reason="done"))
    ending.record_outcome(ada, one.pk, Outcome(reward_type="others", reward=0.0, details={"why": "pomelo"}))
    indexing.work()
    assert keys(ada, q="pomelo") == [] and StepWords.objects.count() == 1


def test_answer_that_comes_later_is_found(ada, ask):
    one = started(ada, "one", expert="plain")
    asked = ask(one, "May I?")
    indexing.work()
    assert EpisodeFacts.objects.get().waiting == [1] and keys(ada, asked="human") == []
    lease = queue.claim(ada, asked.pk)
    advising.answer(ada, lease.assignment_id, lease.lease_token, "Take the melon.", "n")
    add(ada, one, said("thanks"))
    indexing.work()
    assert keys(ada, q="melon") == keys(ada, asked="human") == ["one"]
    assert EpisodeFacts.objects.get().waiting == []


def test_no_step_is_lost_to_order_or_crash(ada, monkeypatch):
    episodes = [started(ada, f"e{number}") for number in range(3)]
    for one in episodes:
        add(ada, one, *(said(f"apple {number}") for number in range(5)))
    monkeypatch.setattr(indexing, "STEPS", 4)
    real = indexing._store_words

    def breaks(*given):
        real(*given)
        raise OSError("the worker is killed")

    monkeypatch.setattr(indexing, "_store_words", breaks)
    with pytest.raises(OSError):
        indexing.work()
    assert not StepWords.objects.exists()
    monkeypatch.setattr(indexing, "_store_words", real)
    indexing.work()
    add(ada, episodes[0], said("late"))
    ending.finish(ada, episodes[1].pk, Finish(stop_reason="done"))
    indexing.work()
    assert StepWords.objects.count() == 16
    assert [row.done for row in EpisodeFacts.objects.order_by("episode__key")] == [False, True, False]


def test_old_episodes_and_those_that_grew_are_swept(ada):
    one = started(ada, "one")
    add(ada, one, said("apple"))
    Episode.objects.update(created_at="2020-01-01T00:00:00Z", state="finished")
    indexing.work()
    assert keys(ada, q="apple") == ["one"]
    Episode.objects.update(state="running")
    add(ada, one, said("pear"))
    indexing.work()
    assert keys(ada, q="pear") == []
    SearchMark.objects.update(swept_at="2020-01-01T00:00:00Z")
    indexing.work()
    assert keys(ada, q="pear") == ["one"]


@pytest.mark.parametrize(("made", "is_found"), [(timedelta(days=1), True), (timedelta(days=3), False)])
def test_most_sweeps_look_at_the_episodes_of_two_days(ada, made, is_found):
    hour = timezone.now().replace(minute=10, second=0, microsecond=0)
    one, two = started(ada, "one"), started(ada, "two")
    add(ada, one, said("apple"))
    indexing.work()
    Episode.objects.filter(pk=one.pk).update(state="finished")
    indexing.work()
    EpisodeFacts.objects.filter(pk=two.pk).delete()
    Episode.objects.update(created_at=hour - made, state="running")
    add(ada, one, said("pear"))
    for minutes, sweeps in ((2, is_found), (65, True)):
        SearchMark.objects.update(swept_at=hour)
        indexing._note_new(hour + timedelta(minutes=minutes))
        assert EpisodeFacts.objects.filter(pk=two.pk).exists() == sweeps
        assert EpisodeFacts.objects.get(pk=one.pk).done != sweeps


def test_mark_says_up_to_when_steps_are_found(ada):
    assert search.read_until() is None
    one = started(ada, "one")
    add(ada, one, said("apple"))
    indexing.work()
    one.refresh_from_db()
    assert search.read_until() > one.heartbeat_at


def test_mark_does_not_move_while_steps_are_left(ada, monkeypatch):
    one = started(ada, "one")
    add(ada, one, said("apple"), said("pear"))
    monkeypatch.setattr(indexing, "STEPS", 1)
    indexing.work(seconds=-1)
    assert search.read_until().year == 2000 and StepWords.objects.count() == 1


def test_few_steps_are_read_in_one_look(ada, monkeypatch):
    """A look reads all episodes of the last ten minutes: it costs more than what it finds."""
    one, looks, batch = started(ada, "one"), [], indexing._one_batch
    add(ada, one, said("apple"))
    ending.finish(ada, one.pk, Finish(stop_reason="done"))
    monkeypatch.setattr(indexing, "_one_batch", lambda: [looks.append(1), batch()][1])
    indexing.work()
    facts = EpisodeFacts.objects.get()
    assert len(looks) == 1 and (facts.done, facts.joined_seq) == (True, 1) and keys(ada, q="apple") == ["one"]


@pytest.mark.parametrize(("name", "most"), [("JOINED_MOST", 2), ("EPISODES", 1), ("STEPS", 1)])
def test_all_is_read_and_joined_whatever_a_batch_takes(ada, monkeypatch, name, most):
    monkeypatch.setattr(indexing, name, most)
    for key in ("one", "two"):
        one = started(ada, key)
        add(ada, one, *(said(f"apple{number}") for number in range(5)))
        ending.finish(ada, one.pk, Finish(stop_reason="done"))
    indexing.work()
    assert set(EpisodeFacts.objects.values_list("done", "read_seq", "joined_seq")) == {(True, 5, 5)}


def test_step_that_is_never_read_holds_nothing_up(ada):
    one = started(ada, "one")
    add(ada, one, said("apple"), said("pear"))
    Step.objects.filter(seq=2).update(kind="verification")
    indexing.work()
    assert EpisodeFacts.objects.get().read_seq == 2 and search.read_until().year > 2000


def test_first_32_kb_of_a_step_are_found(ada):
    one = started(ada, "one")
    add(ada, one, said("early " + "x " * (FOUND_CHARS // 2) + "late"))
    indexing.work()
    assert (keys(ada, q="early"), keys(ada, q="late")) == (["one"], [])


def test_hostile_text_is_read(ada):
    one = started(ada, "one")
    wide = {str(number): "\ud800\x00" * 10 for number in range(20_000)}
    add(ada, one, call("a\x00b", result=wide), said("plum" + "y" * 3_000_000), said("\x1b[2J<script>kiwi</script>"))
    indexing.work()
    assert EpisodeFacts.objects.get().tools == ["a?b"]
    assert keys(ada, q="kiwi") == ["one"]
    assert search.hits([Episode.objects.get()], "kiwi")
    for words in ("'", '"', "a & | !", "\\", "((", ":*", "-", "\x01"):
        keys(ada, q=words)
        search.hits([Episode.objects.get()], words)


def test_parts_of_names_and_paths_are_found(ada):
    one = started(ada, "one")
    add(ada, one, call("requeue_run", result="see https://erp-gateway.example.org/jobs/rate_limit.py?x=plum"))
    indexing.work()
    for words in ("requeue", "gateway", "erp-gateway", "jobs", "rate_limit", "limit.py", "plum", '"jobs rate"'):
        assert keys(ada, q=words) == ["one"], words
    assert keys(ada, q="limit_rate") == []


def test_text_of_a_step_needs_no_recursion():
    deep = json.loads("[" * 100 + '"core"' + "]" * 100)
    assert text_of({"kind": "note", "content": "a", "result": deep, "meta": {"hidden": "no"}}) == "a core"


def test_facts_are_filters(ada, ask):
    one, two = started(ada, "one", expert="plain"), started(ada, "two")
    add(ada, one, call("get"), call("get", error="no"), call("put"))
    add(ada, two, call("get"), *(said("x") for _ in range(6)))
    ask(one, "May I?", "Yes.")
    indexing.work()
    assert keys(ada, tool="put") == keys(ada, error="any") == keys(ada, asked="human") == ["one"]
    assert keys(ada, error="none") == keys(ada, asked="never") == keys(ada, length="6-15") == ["two"]
    assert keys(ada, tool="get") == keys(ada, length="1-") == ["two", "one"]
    for name, value in (("asked", "often"), ("error", "1"), ("length", "six"), ("length", "1")):
        with pytest.raises(Invalid, match=name):
            keys(ada, **{name: value})


def test_hit_is_shown_with_its_words_marked(ada):
    one = started(ada, "one")
    add(ada, one, said("nothing"), call("requeue", result="first " * 30 + "<b>rate</b> limit " + "last " * 30))
    add(ada, one, said("the rate again \ue000 \u202e"))
    indexing.work()
    one.refresh_from_db()
    hit = search.hits([one], "rate")[one.pk]
    assert (hit.seq, hit.name, hit.more) == (2, "requeue", 1)
    assert ("rate", True) in hit.parts and len("".join(text for text, _ in hit.parts)) < 250
    assert search.hits([], "rate") == search.hits([one], " ") == search.hits([one], "absent") == {}


def test_hits_of_long_episodes_come_from_the_index(ada, monkeypatch):
    one, two = started(ada, "one"), started(ada, "two")
    add(ada, one, said("apple"), said("pear"), said("apple pear"))
    add(ada, two, said("pear"))
    indexing.work()
    found = list(Episode.objects.all())
    short = search.hits(found, "pear")
    monkeypatch.setattr(search, "READ_THROUGH", 3)
    assert search.hits(found, "pear") == short
    assert {pk: (hit.seq, hit.more) for pk, hit in short.items()} == {one.pk: (2, 1), two.pk: (1, 0)}


def test_another_project_finds_nothing(ada, max_):
    add(ada, (one := started(ada, "one")), said("apple"))
    indexing.work()
    assert keys(max_, q="apple") == [] and keys(ada, q="apple") == [one.key]


def test_frequent_word_is_gathered_from_the_index_once(ada):
    """Asked of each episode instead, a word in a few of a hundred steps took seconds."""
    plan = matching(ada, {"q": ["ticket"]}).order_by("-created_at")[:50].explain()
    assert "hashed SubPlan" in plan and "Materialize" not in plan


def test_words_not_joined_are_read_by_their_episodes(db):
    """Gathered from the index of all steps instead, a frequent word took seconds while steps came in."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT prosrc FROM pg_proc WHERE proname = 'episodes_with_words'")
        body = cursor.fetchone()[0].replace("wanted)", "$1)").replace("query)", "$2)").replace("= first", "= $3")
        cursor.execute("SET LOCAL enable_seqscan = off; SET LOCAL plan_cache_mode = force_generic_plan")
        cursor.execute(f"PREPARE searched(text, text, text) AS {body}")
        cursor.execute("EXPLAIN EXECUTE searched('ticket', 'ticket', '')")
        plan = "".join(line for (line,) in cursor.fetchall())
        cursor.execute("DEALLOCATE searched")
    assert "words_of_episodes" in plan and "words_by_episode" in plan and "words_of_steps" not in plan


def test_words_are_joined_at_the_end_and_after_many_steps(ada, monkeypatch):
    monkeypatch.setattr(indexing, "JOINED", 3)
    ended, long, short = (started(ada, key) for key in ("ended", "long", "short"))
    add(ada, ended, said("apple"))
    ending.finish(ada, ended.pk, Finish(stop_reason="done"))
    add(ada, long, said("apple"), said("pear fig"), said("apple plum"))
    add(ada, short, said("apple"), said("plum"))
    indexing.work()
    rows = EpisodeFacts.objects.order_by("episode__key").values_list("joined_seq", flat=True)
    assert list(rows) == [1, 3, 0] and EpisodeWords.objects.count() == 2
    add(ada, long, said("lime"))
    indexing.work()
    assert keys(ada, q="apple") == ["short", "long", "ended"] and keys(ada, q="plum") == ["short", "long"]
    assert keys(ada, q="lime") == keys(ada, q="pear fig") == keys(ada, q='"pear fig"') == ["long"]
    assert keys(ada, q="apple pear") == keys(ada, q='"fig pear"') == keys(ada, q="pear -fig") == []
    assert keys(ada, q="apple -plum") == ["short", "long", "ended"]


def test_answer_to_a_joined_ask_is_found(ada, ask, monkeypatch):
    monkeypatch.setattr(indexing, "JOINED", 1)
    one = started(ada, "one", expert="plain")
    asked = ask(one, "May I?")
    indexing.work()
    assert EpisodeFacts.objects.get().joined_seq == 1
    advising.answer(ada, (lease := queue.claim(ada, asked.pk)).assignment_id, lease.lease_token, "Take the melon.", "n")
    add(ada, one, said("thanks"))
    indexing.work()
    assert keys(ada, q="melon") == ["one"]


def test_steps_read_before_words_were_joined_are_found(ada, monkeypatch):
    for number in range(5):
        add(ada, (one := started(ada, f"e{number}")), said("apple"), said(f"pear{number}"))
        ending.finish(ada, one.pk, Finish(stop_reason="done"))
    monkeypatch.setattr(indexing, "_join", lambda: 0)
    indexing.work()
    assert len(keys(ada, q="apple")) == 5 and not EpisodeWords.objects.exists()
    monkeypatch.undo()
    monkeypatch.setattr(indexing, "JOINED_MOST", 3)
    indexing.work()
    assert EpisodeWords.objects.count() == 5 and not EpisodeFacts.objects.exclude(joined_seq=2).exists()
    assert len(keys(ada, q="apple")) == 5 and keys(ada, q="pear3") == ["e3"]


def test_more_words_than_a_vector_takes_are_joined(ada):
    one = started(ada, "one")
    for step in range(6):
        wide = (f"{step}\U00010450" + "\U00010450" * 50 + str(number) for number in range(600))
        add(ada, one, *[said(f"{step} " + " ".join(wide))] * 12)
    ending.finish(ada, one.pk, Finish(stop_reason="done"))
    indexing.work()
    assert EpisodeWords.objects.count() > 3
    assert keys(ada, q="5") == ["one"]


def test_many_episodes_are_read_in_few_statements(ada, django_assert_max_num_queries):
    for number in range(30):
        add(ada, started(ada, f"e{number}"), said("apple"), call("get"))
    with django_assert_max_num_queries(25):
        assert indexing.work() == 60


@pytest.mark.parametrize(
    ("text", "found", "other"),
    [
        ("请为订单1003退款，谢谢", ["退款", "订单", "订单1003", "款", "请为订单"], ["单订", "退谢", "发"]),
        ("注文のキャンセルをお願いします", ["キャンセル", "注文", "お願い", "願"], ["文注", "配送"]),
        ("ฉันต้องการคืนเงินสำหรับคำสั่งซื้อ", ["คืนเงิน", "คำสั่งซื้อ"], ["จัดส่ง"]),
        ("주문을 환불해 주세요", ["환불", "주문"], ["배송"]),
        ("le café fermé", ["café", "cafe\u0301", '"café fermé"'], ["cafe"]),
        ("le cafe\u0301 ferme\u0301", ["café", "cafe\u0301"], ["ferme"]),
    ],
)
def test_words_in_sentences_without_spaces_are_found(ada, text, found, other):
    add(ada, started(ada, "one"), said(text))
    indexing.work()
    for words in found:
        assert keys(ada, q=words) == ["one"] and matches(text_of(said(text)), words), words
        [episode] = Episode.objects.all()
        assert any(marked for _, marked in hits([episode], words)[episode.pk].parts), words
    for words in other:
        assert keys(ada, q=words) == [] and not matches(text_of(said(text)), words), words


def test_find_in_an_episode_looks_at_what_its_page_shows(ada):
    one = started(ada, "one")
    steps = [
        {"kind": "message", "role": "user", "content": "Le café\n est ouvert", "turn": 1},
        {
            "kind": "tool_call",
            "name": "get",
            "arguments": {"id": [1, "x"]},
            "result": '{"name":"caf\\u00e9","n":10.10}',
        },
        {"kind": "tool_call", "name": "put", "arguments": {}, "result": {"state": "open"}, "turn": 2},
        {"kind": "action", "action": {"go": "退款"}, "observation": {"text": "\x1b[31m"}},
    ]
    add(ada, one, *steps)

    def where(text):
        return in_episode.holding(EVERYTHING, one, text)[0]

    assert where("content") == where("turn") == where("kind") == where("seq") == []
    assert where("cafe\u0301") == [1, 2] and where("EST ouvert") == [1] and where("退款") == [4]
    assert where('"name": "café"') == where("10.10") == where('[1, "x"]') == [2]
    assert where('"state": "open"') == [3] and where("\\u001b[31m") == [4] and where("observation") == []

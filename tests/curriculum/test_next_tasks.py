"""Next tasks: one snapshot, one seed, the same tasks; what is locked, held out, pinned or skipped; who sees rates."""

from __future__ import annotations

import pytest

from curriculum import counting, next_tasks, snapshots
from curriculum.models import LevelOpened, Snapshot, TrainingStep
from curriculum.record import steering, taking
from curriculum.rules.ratio import CUSUM, LAST_STEP
from episodes.models import Episode
from episodes.record import pinning
from people.errors import Forbidden, Invalid, NotFound
from reviews.record import court
from runs.models import Probe
from runs.taskset import probes
from tests.browsing import as_person, html
from tests.curriculum.trainer import Trainer
from tests.people_by_name import token

pytestmark = pytest.mark.usefixtures("shop")


def names(answer):
    return [one["task"] for one in answer["tasks"]]


def content(train):
    return snapshots.content_of(taking.current(train.run))


def states(train):
    return {row["task"]: row["state"] for row in content(train)["tasks"]}


def test_next_is_the_same_for_snapshot_and_seed(train):
    train.report(1)
    status, first = train.next(5, seed=3)
    assert status == 200 and len(set(names(first))) == 5 and first["run"] == train.run.pk
    assert train.next(5, seed=3)[1] == first and Snapshot.objects.count() == 1
    assert names(train.next(5, seed=4)[1]) != names(first)
    train.report(2)
    assert train.next(5, seed=3)[1]["snapshot"] != first["snapshot"]
    assert train.next(5, seed=3, snapshot=first["snapshot"], run=train.run.pk)[1] == first


def test_next_never_serves_held_out_tasks(train, ada):
    assert not {"shop/12", "shop/13"} & set(names(train.next(1000, run=train.run.pk)[1]))
    frozen = steering.decide(ada, train.run, "freeze", "", "Compare two trainers.")
    pinning.pin(ada, "later", unit="task", seed=2, train=[], val=["shop/3"])
    later = train.next(1000, run=train.run.pk)[1]
    assert later["snapshot"] == frozen.subject and "shop/3" not in names(later) and len(later["tasks"]) == 11


def test_next_serves_ruled_tasks_only_where_pinned(train, ada):
    train.report(1)
    first = train.next(12)[1]["snapshot"]
    case = court.doubt(train.play(1, "shop/4"))
    court.rule(ada, case.pk, "too_strict", "It wants a comma.")
    after = train.next(1000)[1]
    assert after["snapshot"] != first and "shop/4" not in names(after) and states(train)["shop/4"] == "ruled"
    steering.decide(ada, train.run, "pin", "shop/4", "See what it does.")
    assert names(train.next(3)[1])[0] == "shop/4"


def test_next_serves_tasks_that_a_probe_passed_only_where_pinned(train, ada, monkeypatch):
    pinning.pin(ada, "desk", unit="task", seed=1, train=["helpdesk_1/0", "helpdesk_1/1"], val=[])
    train.report(1)
    first = train.next(12)[1]["snapshot"]
    Probe.objects.create(scenario="helpdesk_1", task_idx=0, state="trivial", verifier="a" * 64)
    monkeypatch.setattr(probes, "_held", lambda *_place: "a" * 64)
    after = train.next(1000)[1]
    assert after["snapshot"] != first and "helpdesk_1/0" not in names(after)
    assert states(train)["helpdesk_1/0"] == "unfit" and states(train)["helpdesk_1/1"] == "served"
    steering.decide(ada, train.run, "pin", "helpdesk_1/0", "See what it does.")
    assert names(train.next(3)[1])[0] == "helpdesk_1/0"


def test_next_without_training_run_asks_for_one(train):
    status, said = train.next(1)
    assert (status, said["error"]["code"]) == (404, "no_run")
    assert train.next(1, run=train.run.pk)[0] == 200
    assert train.next(0, run=train.run.pk)[0] == train.next(1001, run=train.run.pk)[0] == 422


def test_next_tells_rates_to_those_who_see_outcomes(train, project):
    for _ in range(4):
        train.play(1, "shop/0", complete=True)
    train.report(1)
    agent = train.next(12)[1]
    about = {"task", "scenario", "task_idx", "split", "pinned"}
    assert all(set(one) == about for one in agent["tasks"]) and "recommended" not in agent
    _, export = token(project, "export")
    seen = {one["task"]: one for one in train.next(12, secret=export)[1]["tasks"]}
    assert (seen["shop/0"]["solo"], seen["shop/0"]["solo_solved"], seen["shop/0"]["level"]) == (4, 4, "easy")


def test_next_of_another_project_is_not_found(train, elsewhere):
    stranger = Trainer(elsewhere)
    assert stranger.next(1, run=train.run.pk)[0] == 404
    mine = taking.current(train.run)
    assert stranger.next(1, run=stranger.run.pk, snapshot=mine)[0] == 404


def play_level(train, step, task, solved, episodes=4):
    for number in range(episodes):
        train.play(step, task, complete=number < solved)


def test_level_stays_locked_until_the_gate_opens_it_for_good(train, ada):
    for number in range(10):
        play_level(train, 1, f"shop/{number}", 1)
    play_level(train, 1, "shop/10", 3)
    play_level(train, 1, "shop/11", 0)
    found = states(train)
    assert found["shop/10"] == "served" and found["shop/0"] == found["shop/11"] == "locked"
    assert found["shop/12"] == "held_out"
    for step in range(2, 15):
        train.play(step, "shop/10", complete=True)
    train.report(14)
    assert states(train)["shop/0"] == "locked", "0.4 and 13 times 0.65 are not 9"
    assert "Evidence for the next level: 8.9 of 9." in html(as_person(ada).get("/curriculum/"))
    train.play(15, "shop/10", complete=True)
    train.report(15)
    found = states(train)
    assert found["shop/0"] == "served" and found["shop/11"] == "locked"
    LevelOpened.objects.create(run=train.run, level="hard", training_step=15)
    train.report(16)
    assert states(train)["shop/11"] == "served"


def test_gate_opens_the_next_level_that_holds_a_task(train):
    for number in range(10):
        for step in (1, 2):
            play_level(train, step, f"shop/{number}", 4, 5)
    play_level(train, 1, "shop/11", 0)
    opened = {one["name"]: one["open"] for one in content(train)["levels"]}
    assert opened == {"easy": True, "medium": True, "hard": True}


def test_agent_that_does_nothing_is_not_locked_out(train):
    """Three tasks pass untouched: they are the whole easy level, and were served alone for ever."""
    for number in range(12):
        play_level(train, 1, f"shop/{number}", 4 if number < 3 else 0)
    train.report(1)
    served = {row["task"] for row in content(train)["tasks"] if row["state"] == "served"}
    assert served == {f"shop/{number}" for number in range(12)}


def test_regret_without_helped_rollouts_is_refused(project):
    other = Trainer(project, method="regret", strategy="baseline")
    status, said = other.next(3, run=other.run.pk)
    assert (status, said["error"]["code"]) == (422, "bad_curriculum") and "regret needs rollouts" in str(said)


def test_easiest_level_with_a_task_is_open(train):
    for number in range(12):
        play_level(train, 1, f"shop/{number}", 0)
    assert {row["level"] for row in content(train)["tasks"] if row["state"] == "served"} == {"hard"}


@pytest.mark.parametrize(("source", "counts"), [("verifier", 4), ("attested", 4), ("reported", 0)])
def test_rates_count_what_a_verifier_proved(train, source, counts):
    for _ in range(4):
        train.play(1, "shop/0", complete=True, source=source)
    assert {row["task"]: row["solo"] for row in content(train)["tasks"]}["shop/0"] == counts


def test_rates_leave_out_excluded_outcomes_and_held_out_tasks(train):
    for task in ("shop/0", "shop/12"):
        episode = train.play(1, task, complete=True)
    excluded = train.play(1, "shop/1")
    excluded.outcomes.create(source="verifier", reward_type="judge_error", reward=0.0)
    assert episode.task_idx == 12
    assert {row["task"]: row["solo"] for row in content(train)["tasks"] if row["solo"]} == {"shop/0": 1}


def test_briefed_rollout_counts_as_helped(train):
    train.play(1, complete=True, calls=({"kind": "briefing", "text": "Sell at 9."}, {}))
    train.play(1, complete=False)
    (known,) = counting.rates(counting.counted(train.run)).values()
    assert (known.solo, known.solo_solved, known.helped, known.helped_solved) == (1, 0, 1, 1)


def test_pin_comes_first_and_skip_not_at_all_until_undone(train, ada):
    first = steering.decide(ada, train.run, "pin", "shop/7", "Its verifier is new.")
    skipped = steering.decide(ada, train.run, "skip", "shop/2", "Broken data.")
    said = train.next(12, run=train.run.pk)[1]
    assert names(said)[0] == "shop/7" and said["tasks"][0]["pinned"] and "shop/2" not in names(said)
    assert steering.undo(ada, first.pk).undone_at == steering.undo(ada, first.pk).undone_at
    steering.undo(ada, skipped.pk)
    said = train.next(12, run=train.run.pk)[1]
    assert not any(one["pinned"] for one in said["tasks"]) and len(said["tasks"]) == 12


def test_override_moves_the_ratio_and_names_the_person(train, ada):
    train.play(1)
    train.report(1)
    assert train.next(1)[1]["phase"] == "scaffold"
    steering.decide(ada, train.run, "override", "independence", "New tools.", until="step", until_step=2)
    said = train.next(1)[1]
    assert (said["phase"], said["decided_by"], said["ratio"]["expert"]) == ("independence", "person", 2)
    train.play(2)
    train.report(2)
    said = train.next(1)[1]
    assert (said["phase"], said["decided_by"], said["format_error_rate"]) == ("scaffold", "rule", 0.0)


def test_steps_and_snapshots_of_an_earlier_version_are_read(train, ada):
    TrainingStep.objects.create(run=train.run, training_step=1, rollouts=8, format_errors=0, rule=LAST_STEP)
    coming = train.next(3)[1]
    assert coming["phase"] == "independence"
    after = content(train)
    assert after.pop("rule") == CUSUM and all(level.pop("evidence") == 0 for level in after["levels"])
    earlier = Snapshot.objects.create(run=train.run, basis="0", training_step=1, digest="0" * 64, content=after)
    assert train.next(3, snapshot=earlier.pk)[1]["phase"] == "independence"
    assert earlier.pk in html(as_person(ada).get("/curriculum/"))
    train.report(2)
    assert train.next(3)[1]["phase"] == "independence"


def test_decision_needs_reason_right_and_a_training_task(train, ada, edo, max_):
    with pytest.raises(Invalid, match="reason"):
        steering.decide(ada, train.run, "pin", "shop/1", "  ")
    with pytest.raises(Invalid, match="shop/12"):
        steering.decide(ada, train.run, "pin", "shop/12", "Please.")
    with pytest.raises(Invalid, match="phase"):
        steering.decide(ada, train.run, "override", "free", "Please.")
    with pytest.raises(Invalid, match="after 0"):
        steering.decide(ada, train.run, "override", "balanced", "Please.", until="step", until_step=0)
    with pytest.raises(Forbidden):
        steering.decide(edo, train.run, "pin", "shop/1", "Please.")
    made = steering.decide(ada, train.run, "pin", "shop/1", "Please.")
    with pytest.raises(NotFound):
        steering.undo(max_, made.pk)


def test_plan_gives_group_method_and_limits_of_levels(project, ada, monkeypatch):
    monkeypatch.setattr("curriculum.next_tasks.packs.packs", lambda: [])
    levels = [
        {"name": "warm", "above": 0.5, "max_steps": 5, "tools": ["sell"], "hint": "Sell."},
        {"name": "rest", "above": -1},
    ]
    train = Trainer(project, group_size=16, method="regret", strategy="mixed", levels=levels)
    play_level(train, 1, "shop/0", 4)
    train.report(1)
    said = train.next(12)[1]
    assert said["ratio"] == {"group_size": 16, "expert": 8, "solo": 8} and said["method"] == "regret"
    task = {one["task"]: one for one in said["tasks"]}["shop/0"]
    assert "level" not in task
    assert ("warm", task["max_steps"], task["tools"], task["hint"]) == ("warm", 5, ["sell"], "Sell.")


@pytest.mark.parametrize("own", [{"reference": "r" * 20}, {"levels": [{"name": "all", "above": -1}]}])
def test_levels_and_reference_need_the_right_to_launch(project, train, own):
    run = {"name": "spy", "metadata": {"curriculum": own}}
    status, said = train.send("post", "/runs", run)
    assert (status, said["error"]["code"]) == (403, "scope")
    _, launch = token(project, "launch")
    assert train.send("post", "/runs", run, secret=launch)[0] == 201
    assert train.send("post", "/runs", {"name": "own", "metadata": {"curriculum": {"group_size": 4}}})[0] == 201


def test_reference_run_decides_the_levels(train, project):
    play_level(train, 1, "shop/0", 0)
    learner = Trainer(project, reference=train.run.pk)
    play_level(learner, 1, "shop/0", 4)
    assert {row["task"]: row["level"] for row in content(learner)["tasks"]}["shop/0"] == "hard"


def test_episodes_of_a_replaced_version_count_in_no_rate(train, monkeypatch):
    old = train.play(1, "shop/4", complete=True)
    train.report(1)
    Episode.objects.filter(pk=old.pk).update(scenario_digest="1" * 64)
    monkeypatch.setattr(counting.packs, "scenario_digest", lambda scenario: "2" * 64)
    train.play(2, "shop/5", complete=True)
    train.report(2)
    rows = {row["task"]: row for row in content(train)["tasks"]}
    assert (rows["shop/4"]["solo"], rows["shop/4"]["other_versions"]) == (0, 1)
    assert rows["shop/5"]["solo"] == 1 and "other_versions" not in rows["shop/5"]


def test_next_offers_fewer_tools_if_the_plan_says_so(project, monkeypatch):
    monkeypatch.setattr(next_tasks.packs, "packs", lambda: [])
    monkeypatch.setattr(taking.own_tools, "needed_by", lambda scenario, idx: ["sell"] if idx else [])
    train = Trainer(project, tools={"per_task": 3})
    served = {one["task_idx"]: one.get("offered") for one in train.next(12, seed=3, run=train.run.pk)[1]["tasks"]}
    assert served.pop(0) is None and len(served) == 11
    assert all(one["per_task"] == 3 and one["own"] == ["sell"] for one in served.values())
    monkeypatch.setattr(taking.own_tools, "needed_by", lambda *_: ["ship", "find", "sell"])
    for one in train.next(12, seed=3, run=train.run.pk)[1]["tasks"]:
        assert one["offered"]["own"] == ["find", "sell", "ship"], "the order of the calls is the solution's"
    assert len({one["draw"] for one in served.values()}) == 11

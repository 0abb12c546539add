"""Limits of runs, arms and model endpoints, and the share of the workers of runs that wait side by side."""

from __future__ import annotations

import os
from collections import Counter, deque

import pytest
from django.db.models import Q
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from awmclient.choosing.chat import EndpointConfig
from awmclient.schema import AT_WORK_STATES, LIVE_STATES
from awmweb.variables import limits as limits_set
from episodes.models import Episode
from episodes.record import ending, recording
from people import access
from people.errors import AppError
from people.record import members
from runs.launch import feeding, launching, planning
from runs.models import Plan, PlannedTry
from runs.plan import limits
from runs.plan.limits import LiveTries, RunLoad
from runs.show.comparison import compare_run
from tests.browsing import as_person, html
from tests.people_by_name import person
from tests.runs.planned import document, end, end_unverified, launched

pytestmark = pytest.mark.django_db(transaction=True)
TWO = [{"name": "off", "policy": "model"}, {"name": "tuned", "policy": "model:tuned"}]


@pytest.fixture
def calls(monkeypatch):
    """Calls for workers in their order; only the test plays."""
    called = deque()
    monkeypatch.setattr(launching, "wake_worker", lambda pk, delay_s=0: called.append(pk))
    return called


@pytest.fixture
def models(settings):
    at = "http://127.0.0.1:9/v1"
    settings.AGENT_ENDPOINTS = {name: EndpointConfig(at, name) for name in ("agent", "tuned")}
    return settings


def busy(**of):
    return Episode.objects.filter(state__in=["queued", "running"], planned__called_at__isnull=False, **of).count()


class Workers:
    """Threads that take calls in their order, as Celery's do, and hold each episode for this many rounds."""

    def __init__(self, calls, threads):
        self.calls, self.threads, self.held = calls, threads, {}
        self.ended, self.most = Counter(), Counter()

    def round(self, lasts):
        for pk in [pk for pk, left in self.held.items() if left <= 1]:
            del self.held[pk]
            end_unverified(pk)
            self.ended[Episode.objects.get(pk=pk).run_id] += 1
        self.held = {pk: left - 1 for pk, left in self.held.items()}
        while self.calls and len(self.held) < self.threads:
            pk = self.calls.popleft()
            if not feeding.is_held(Episode.objects.get(pk=pk)) and recording.begin(pk, "w"):
                run = Episode.objects.get(pk=pk).run_id
                self.held[pk] = lasts(run)
                feeding.begun(Episode.objects.get(pk=pk))
        at_work = Counter(Episode.objects.filter(pk__in=self.held).values_list("run_id", flat=True))
        self.most = self.most | at_work


def test_share_is_that_of_runs_that_wait():
    mine = RunLoad(1000, {"a": LiveTries(at_work=16, called=900, has_uncalled=True)})
    other = RunLoad(8, {"a": LiveTries(has_uncalled=True)})
    assert limits.share(mine, [other]) == 8 + limits.SURPLUS
    assert limits.share(mine, []) is None and limits.share(mine, [RunLoad(8, {"a": LiveTries(at_work=3)})]) is None
    full = RunLoad(8, {"a": LiveTries(at_work=6, parked=2, has_uncalled=True)})
    assert limits.share(mine, [full]) is None, "a run at its own limit waits for no worker"
    assert limits.share(RunLoad(8, {"a": LiveTries(at_work=3)}), [other]) is None


def test_full_arm_or_model_holds_up_no_other():
    waiting = [("1", "a"), ("2", "b"), ("3", "a"), ("4", "b"), ("5", "c")]
    assert limits.chosen(waiting, 9, {"a": 1}, {}, {}) == ["1", "2", "4", "5"]
    assert limits.chosen(waiting, 9, {}, {"a": "m", "b": "m"}, {"m": 1}) == ["1", "5"]
    assert limits.chosen(waiting, 2, {"a": 0}, {"b": "m"}, {"m": 9}) == ["2", "4"]


def test_settings_read_limits_of_agent_models(monkeypatch):
    monkeypatch.setenv("AWMWEB_AGENT_TUNED_PARALLEL", "3")
    assert limits_set(0, ["agent", "tuned", "free"]) == {"tuned": 3}
    monkeypatch.setenv("AWMWEB_AGENT_TUNED_PARALLEL", "many")
    with pytest.raises(SystemExit, match="AWMWEB_AGENT_TUNED_PARALLEL"):
        limits_set(2, ["agent", "tuned"])


def test_run_of_many_leaves_workers_to_one_of_few(ada, calls):
    """A run with a limit of 72 has four threads; a later one waits behind few calls, then both take turns."""
    first = launched(ada, seeds=6, parallel=72)
    assert len(calls) == limits.AHEAD
    workers = Workers(calls, threads=4)
    workers.round(lambda run: 1)
    second = launched(ada, parallel=8)
    while workers.ended[second.pk] < 8:
        workers.round(lambda run: 1)
    assert workers.ended[first.pk] <= limits.AHEAD + 4 + 16, dict(workers.ended)
    while Plan.objects.filter(state="running").exists():
        workers.round(lambda run: 1)
    assert workers.ended == {first.pk: 72, second.pk: 12}


def test_slow_run_does_not_take_the_threads_of_a_fast_one(ada, calls):
    fast, slow = launched(ada, seeds=6, parallel=72), launched(ada, seeds=3, parallel=36)
    workers = Workers(calls, threads=16)
    for _ in range(8):
        workers.round(lambda run: 50 if run == slow.pk else 1)
    assert workers.most[slow.pk] <= 8 + limits.SURPLUS and workers.ended[fast.pk] >= 20, dict(workers.ended)


def test_arm_has_a_limit_of_its_own(ada, rita, calls, models):
    plan = launched(ada, arms=[{"name": "a"}, {"name": "b", "parallel": 2}], parallel=8)
    assert (busy(arm="a"), busy(arm="b")) == (6, 2)
    assert limits.waits(plan) == [
        "8 of 8 episodes are live, the limit of this run.",
        "Arm b: 2 of 2 episodes are live, the limit of this arm.",
    ]
    page = html(as_person(rita).get(f"/runs/{plan.pk}/"))
    assert "Arm b: 2 of 2 episodes are live, the limit of this arm." in page
    end(PlannedTry.objects.filter(arm__name="a", called_at__isnull=False).first().episode_id)
    assert busy(arm="b") == 2 and limits.waits(Plan.objects.get())[-1].startswith("Arm b")


def test_limits_of_one_speak_of_one_episode(ada, calls, models):
    models.AGENT_LIMITS = {"tuned": 1}
    plan = launched(ada, arms=[{"name": "a", "policy": "model:tuned", "parallel": 1}], parallel=1)
    assert limits.waits(plan) == [
        "1 of 1 episode is live, the limit of this run.",
        "Arm a: 1 of 1 episode is live, the limit of this arm.",
        "Model tuned: 1 of 1 episode asks it.",
    ]


def test_model_endpoint_has_a_limit_across_runs(ada, calls, models):
    models.AGENT_LIMITS = {"tuned": 3}
    first, second = launched(ada, arms=TWO, parallel=12), launched(ada, arms=TWO, parallel=12)
    tuned = {"planned__arm__policy": "model:tuned"}
    assert busy(**tuned) == 3 and busy(run=second.run, **tuned) == 0
    assert "Model tuned: 3 of 3 episodes ask it, 3 of them of other runs." in limits.waits(second)
    workers, both = Workers(calls, threads=16), False
    while Plan.objects.filter(state="running").exists():
        workers.round(lambda run: 2)
        assert busy(**tuned) <= 3
        both = both or (busy(run=first.run, **tuned) > 0 and busy(run=second.run, **tuned) > 0)
    assert both, "a place that is free goes to the run with fewer"
    assert workers.ended == {first.pk: 12, second.pk: 12}


def counted():
    """The loads of all running runs, from the state of every one of their tries."""
    found = {}
    tries = PlannedTry.objects.filter(plan__state="running", episode__state__in=LIVE_STATES)
    for one in tries.select_related("plan", "arm", "episode"):
        state, has_call = one.episode.state, one.called_at is not None
        load = LiveTries(state in AT_WORK_STATES, state == "parked", state == "queued" and has_call)
        load += LiveTries(has_uncalled=state == "queued" and not has_call)
        arms = found.setdefault(one.plan_id, RunLoad(one.plan.parallel)).arms
        arms[one.arm.name] = arms.get(one.arm.name, LiveTries()) + load
    return found


ACTS = ["begin", "begin", "end", "end", "kill", "break", "pause", "resume", "retry", "seeds", "lose", "rival", "cancel"]
EXAMPLES = int(os.environ.get("RUN_MACHINE_EXAMPLES", "4"))


class Number:
    now = 0


@settings(max_examples=EXAMPLES, phases=[Phase.generate])
@given(acts=st.lists(st.sampled_from(ACTS), min_size=15, max_size=30))
def test_any_order_ends_each_try_once_within_limits(calls, limited_models, acts):
    """Worker threads begin and lose episodes, runs come, are cancelled and go; no limit is passed, and every try ends
    once."""
    Number.now += 1
    ada = person(members.ensure_project(f"lab{Number.now}", "Lab"), f"ada{Number.now}", "admin")
    calls.clear()
    arms = [{"name": "a", "policy": "model", "parallel": 2}, {"name": "b", "policy": "model:tuned"}]
    plan, _ = planning.launch(ada, document(arms=arms, tasks={"limit": 3}, parallel=4))
    mine, worker = Episode.objects.filter(run=plan.run), f"w{Number.now}"
    for act in acts:
        running = list(mine.filter(state="running").values_list("pk", flat=True)[:1])
        try:
            if act == "begin" and calls:
                pk = calls.popleft()
                if not feeding.is_held(Episode.objects.get(pk=pk)) and recording.begin(pk, worker):
                    feeding.begun(Episode.objects.get(pk=pk))
            elif act == "end" and running:
                end_unverified(running[0])
            elif act == "break" and running:
                ending.fail(access.system(ada.project), running[0], "environment", "gone")
            elif act == "kill":
                ending.lose_of_worker(worker)
            elif act == "lose":
                calls.clear()
                feeding.feed_all()
            elif act == "seeds" and plan.tries.count() < 18:
                planning.add_seeds(ada, plan.pk, 1)
            elif act == "rival" and Plan.objects.filter(run__project=ada.project).count() < 4:
                planning.launch(ada, document(arms=arms, tasks={"limit": 1}))
            elif act == "cancel":
                for rival in Plan.objects.filter(run__project=ada.project, state="running").exclude(pk=plan.pk):
                    planning.cancel(ada, rival.pk)
            elif act in ("pause", "resume", "retry"):
                getattr(planning, act)(ada, plan.pk)
        except AppError:
            pass  # refused in this state, which must change nothing
        assert limits.loads() == counted()
        called = PlannedTry.objects.filter(plan=plan, called_at__isnull=False)
        live = called.filter(episode__state__in=["queued", "running"])
        assert live.count() <= 4 and live.filter(arm__name="a").count() <= 2
        assert Episode.objects.filter(planned__arm__policy="model:tuned", state="running").count() <= 3
    _through(ada, plan)
    assert mine.filter(planned__isnull=False, state="finished").count() == plan.tries.count()
    found = compare_run(ada, plan.pk).tries
    assert len({(one.task, one.arm, one.seed) for one in found}) == len(found) == plan.tries.count()


def _through(ada, plan):
    """Bring all runs of a project to their end."""
    for _ in range(200):
        planning.retry(ada, plan.pk)
        for one in Plan.objects.filter(run__project=ada.project, state="paused"):
            planning.resume(ada, one.pk)
        feeding.feed_all()
        # one that was called before a pause can begin on that call, and then has none of its own
        called = Q(state="queued", planned__called_at__isnull=False)
        for one in Episode.objects.filter(called | Q(state="running"), project=ada.project):
            recording.begin(one.pk, "x")
            end_unverified(one.pk)
        if not Plan.objects.filter(run__project=ada.project, state="running").exists():
            return
    raise AssertionError("the runs do not end")


@pytest.fixture
def limited_models(models):
    models.AGENT_LIMITS = {"tuned": 3}

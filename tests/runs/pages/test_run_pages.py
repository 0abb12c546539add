"""The pages of runs: launched by form, changed by buttons, read by whoever may read, and blind where a review is."""

from __future__ import annotations

import re
from datetime import timedelta
from itertools import pairwise

import pytest
from django.utils import timezone

from awmclient.choosing.chat import EndpointConfig
from awmclient.schema import EpisodeStart, Finish, RunStart
from episodes.models import Episode, OutcomeHold
from episodes.record import ending, recording
from episodes.stored import run_sizes
from episodes.stored.packs import find_pack
from episodes.stored.run_sizes import RunSize
from people.access import SESSION_PROJECT
from runs.launch import launching
from runs.models import Plan, Probe
from runs.show import comparison, overview
from runs.taskset import probes
from tests.browsing import as_person, html
from tests.people_by_name import person
from tests.runs.planned import end, launched

pytestmark = pytest.mark.django_db(transaction=True)
FORM = {"name": "Does <i>advice help?", "arm": ["baseline", "expert"], "policy": "script:oracle", "seeds": "1"}


@pytest.fixture(autouse=True)
def calls(monkeypatch):
    called = []
    monkeypatch.setattr(launching, "wake_worker", lambda pk, delay_s=0: called.append(pk))
    return called


def test_form_launches_a_run_and_opens_it(ada):
    client = as_person(ada)
    assert "No runs yet." in html(client.get("/runs/"))
    preview = client.get("/runs/preview", FORM | {"tasks": "helpdesk_1/0 library_1/0"})
    assert "2 tasks × 2 arms × 1 seed: 4 episodes." in html(preview)
    assert "2 tasks" in html(client.get("/runs/preview", FORM | {"tasks": "helpdesk_1/0, library_1/0;"}))
    page = html(client.post("/runs/", FORM | {"tasks": "helpdesk_1/0 library_1/0"}, follow=True))
    assert "Does &lt;i&gt;advice help?" in page and "0 of\n" in page and "helpdesk_1" in page
    plan = Plan.objects.get()
    assert plan.state == "running" and plan.tries.count() == 4
    assert "Cancel the run Does &lt;i&gt;advice help?</h2>" in page, "one question mark"
    said = client.get(f"/runs/{plan.pk}/plan.yaml")
    assert said.headers["Content-Disposition"].startswith("attachment") and "script:oracle" in html(said)


def test_form_gives_single_arms_a_policy_and_who_answers(ada, settings):
    settings.EXPERT_ENDPOINTS = {"expert": EndpointConfig("http://127.0.0.1:1", "small-1", "")}
    client, form = as_person(ada), FORM | {"tasks": "helpdesk_1/0", "arm": ["expert", "other-policy"]}
    assert "Select a policy for the arm other-policy." in html(client.get("/runs/preview", form))
    form |= {"policy_other-policy": "script:demo", "people_expert": "0.5", "policy_informed": "model"}
    refused = html(client.post("/runs/", form | {"seeds": "0"}))
    assert '<option value="0.5" selected>' in re.sub(r"\s+", " ", refused) and not Plan.objects.exists()
    client.post("/runs/", form)
    arms = [(one["name"], one["policy"], one["people"]) for one in Plan.objects.get().document["arms"]]
    assert arms == [("expert", "", 0.5), ("other-policy", "script:demo", None)]


def test_form_gives_models_their_options(ada, settings):
    settings.AGENT_ENDPOINTS = {"agent": EndpointConfig("http://127.0.0.1:9", "m")}
    form = FORM | {"tasks": "helpdesk_1/0", "policy": "model", "options": '{"max_tokens": 64}'}
    wrong = html(as_person(ada).post("/runs/", form | {"options_expert": "{max_tokens: 1}"}))
    assert "Options of expert: options are a JSON object" in wrong and "{max_tokens: 1}" in wrong
    as_person(ada).post("/runs/", form | {"options_expert": '{"temperature": 0}'})
    document = Plan.objects.get().document
    assert document["options"] == {"max_tokens": 64}
    assert [arm["options"] for arm in document["arms"]] == [None, {"temperature": 0}]


def test_form_offers_further_environment_servers(ada, settings):
    assert "Environment server" not in html(as_person(ada).get("/runs/"))
    settings.ENVIRONMENTS = {"lab<b>": {"url": "http://127.0.0.1:9"}}
    page = html(as_person(ada).get("/runs/"))
    assert "Environment server" in page and '<option value="lab&lt;b&gt;"' in re.sub(r"\s+", " ", page)
    form = FORM | {"tasks": "helpdesk_1/0", "environment": "lab<b>"}
    as_person(ada).post("/runs/", form)
    assert Plan.objects.get().document["environment"] == "lab<b>"
    assert "names no server" in html(as_person(ada).get("/runs/preview", form | {"environment": "other"}))


def test_recipe_fills_the_plan(ada):
    page = html(as_person(ada).get("/runs/?launch=1&recipe=pr428"))
    assert "name: pr428" in page and "max_asks: 3" in page
    assert "name: pr" not in html(as_person(ada).get("/runs/?launch=1&recipe=../plans"))


def test_bad_form_keeps_what_was_typed(ada):
    answer = as_person(ada).post("/runs/", FORM | {"tasks": "nowhere/0", "seeds": "2"})
    page = html(answer)
    assert answer.status_code == 404 and "nowhere/0" in page and 'value="2"' in page and not Plan.objects.exists()
    assert "Select at least one arm." in html(as_person(ada).post("/runs/", FORM | {"arm": []}))


def test_buttons_pause_resume_extend_and_cancel(ada, calls):
    client, plan = as_person(ada), launched(ada, tasks={"limit": 2})
    for name, body, state in (("pause", {}, "paused"), ("resume", {}, "running"), ("seeds", {"seeds": "1"}, "running")):
        assert client.post(f"/runs/{plan.pk}/{name}", body).status_code == 302
        plan.refresh_from_db()
        assert plan.state == state
    assert plan.seeds == 2 and plan.tries.count() == 8
    assert "seeds: a number" in html(client.post(f"/runs/{plan.pk}/seeds", {"seeds": "-1"}, follow=True))
    assert "Cancelled." in html(client.post(f"/runs/{plan.pk}/cancel", {"back": "runs"}, follow=True))
    assert client.post(f"/runs/{plan.pk}/explode").status_code == 404


def test_link_to_a_run_works_from_another_chosen_project(ada, max_, elsewhere):
    plan = launched(ada, tasks={"limit": 1})
    person(elsewhere, "ada", "admin")
    client = as_person(ada)
    session = client.session
    session[SESSION_PROJECT] = elsewhere.slug
    session.save()
    pages = ("", "plan.yaml", "costs", "tables/tries.csv", "charts/rewards")
    assert [client.get(f"/runs/{plan.pk}/{page}").status_code for page in pages] == [200] * 5
    client.post(f"/runs/{plan.pk}/pause")
    assert Plan.objects.get().state == "paused"
    stranger = as_person(max_)
    assert [stranger.get(f"/runs/{plan.pk}/{page}").status_code for page in pages] == [404] * 5


def test_run_page_shows_arms_marks_and_the_finding(ada, rita):
    plan = launched(ada, tasks={"limit": 6})
    for one in plan.tries.select_related("arm", "episode"):
        end(one.episode_id, complete=one.arm.name == "expert")
    page = html(as_person(rita).get(f"/runs/{plan.pk}/"))
    assert "<h1>Better on these 6 tasks" in page and page.count('class="try complete"') == 6
    assert 'aria-label="6 complete, 0 not complete, 0 left out, 0 live of 6"' in page
    assert page.count(': not complete"') == 12 and ': others"' not in page  # title and label of six marks
    assert "Pause" not in page and "Add seeds" not in page  # a reviewer reads
    assert "Ended" in html(as_person(rita).get("/runs/?state=finished"))
    assert "No run is &lt;b&gt;." in html(as_person(rita).get("/runs/?state=<b>"))
    held = plan.tries.get(arm__name="expert", position=0).episode
    OutcomeHold.objects.create(episode=held, actor_key=rita.key, by="r")
    refused = as_person(rita).get(f"/runs/{plan.pk}/")
    assert refused.status_code == 409 and "Better" not in html(refused) and "Go to Review" in html(refused)
    tasks = {f"{one.scenario}/{one.task_idx}" for one in plan.tries.all()}
    of_held = f"{held.scenario}/{held.task_idx}"
    same, other = (launched(ada, tasks=[task]) for task in (of_held, min(tasks - {of_held})))
    for one in (same, other):  # only the run of the episode itself is withheld
        assert as_person(rita).get(f"/runs/{one.pk}/").status_code == 200
    assert comparison._earlier(rita, same) == dict.fromkeys(tasks, (0, 1))
    alone = plan.tries.get(arm__name="baseline", scenario=held.scenario, task_idx=held.task_idx).episode
    with_hold = OutcomeHold.objects.create(episode=alone, actor_key=rita.key, by="r")
    assert of_held not in comparison._earlier(rita, same)  # how hard its task is would tell of it
    with_hold.delete()
    listed = html(as_person(rita).get("/runs/"))
    assert 'aria-label="5 complete, 0 not complete, 1 left out, 0 live of 6"' in listed


def test_list_leaves_out_what_a_probe_before_the_launch_passed(ada):
    plan = launched(ada, tasks={"limit": 3})
    for one in plan.tries.all():
        end(one.episode_id)
    task = plan.tries.first()
    verifier = probes.digest(find_pack(task.scenario), task.scenario, task.task_idx)
    Probe.objects.create(scenario=task.scenario, task_idx=task.task_idx, state="trivial", verifier=verifier)
    client = as_person(ada)
    assert html(client.get("/runs/")).count('aria-label="3 complete, 0 not complete, 0 left out, 0 live of 3"') == 2
    later = launched(ada, tasks={"limit": 3}, name="later")
    for one in later.tries.all():
        end(one.episode_id)
    for path in ("/runs/", f"/runs/{later.pk}/"):
        assert html(client.get(path)).count('aria-label="2 complete, 0 not complete, 1 left out, 0 live of 3"') == 2


def test_running_run_says_how_much_time_is_left(ada):
    plan, client = launched(ada, tasks={"limit": 6}, parallel=12), as_person(ada)
    tries = list(plan.tries.all())
    for one in tries[:4]:
        end(one.episode_id)
    assert " left" not in re.sub("left out", "", html(client.get("/runs/")))
    end(tries[4].episode_id)
    Plan.objects.update(changed_at=timezone.now() - timedelta(seconds=600))
    # 5 ended in 600 s and 7 are open: 840 s, and a little more for the time that the requests take
    for path in ("/runs/", f"/runs/{plan.pk}/"):
        assert re.search(r"about 14:[0-5]\d left", html(client.get(path)))
    Episode.objects.filter(planned__plan=plan, state="finished").update(ended_at=timezone.now() - timedelta(hours=1))
    assert "about" not in html(client.get("/runs/")), "they ended before the run was resumed"
    client.post(f"/runs/{plan.pk}/pause")
    assert "about" not in html(client.get(f"/runs/{plan.pk}/"))


def test_run_with_many_tries_shows_counts_that_open_episodes(ada, monkeypatch):
    monkeypatch.setattr(overview, "MARKS_SHOWN", 11)
    plan = launched(ada, tasks={"limit": 6})
    first = plan.tries.select_related("arm").order_by("scenario", "task_idx").get(arm__name="expert", position=0)
    end(first.episode_id)
    page = html(as_person(ada).get(f"/runs/{plan.pk}/"))
    assert 'class="try' not in page and page.count(">0 of 0</a>") == 11
    where = f"?run={plan.pk}&amp;arm=expert&amp;scenario={first.scenario}&amp;task_idx={first.task_idx}"
    assert re.search(rf'href="/projects/lab/episodes/{re.escape(where)}"\s*>1 of 1</a>', page)
    listed = html(as_person(ada).get(f"/episodes/{where.replace('&amp;', '&')}"))
    assert listed.count(f"/episodes/{first.episode_id}/") >= 1


def test_run_page_with_many_tasks_says_how_many_more(ada, monkeypatch):
    monkeypatch.setattr(overview, "TASKS_SHOWN", 2)
    page = html(as_person(ada).get(f"/runs/{launched(ada, tasks={'limit': 6}).pk}/"))
    assert "4 more tasks are not shown." in page and page.count('class="try open"') == 4


def test_strangers_and_readers_change_nothing(ada, rita, max_):
    plan = launched(ada, tasks={"limit": 1})
    for path in ("", "plan.yaml"):
        assert as_person(max_).get(f"/runs/{plan.pk}/{path}").status_code == 404
    assert as_person(max_).post(f"/runs/{plan.pk}/cancel").status_code == 404
    assert as_person(rita).post(f"/runs/{plan.pk}/cancel").status_code == 403
    assert as_person(rita).post("/runs/", FORM).status_code == 403
    assert as_person(ada, enforce_csrf_checks=True).post(f"/runs/{plan.pk}/cancel").status_code == 403
    plan.refresh_from_db()
    assert plan.state == "running"


def test_run_of_an_external_loop_opens_its_episodes(ada, project):
    run = recording.start_run(ada, RunStart(name="theirs"))[0]
    answer = as_person(ada).get(f"/runs/{run.pk}/")
    assert answer.headers["Location"] == f"/projects/lab/episodes/?run={run.pk}"
    assert "theirs" in html(as_person(ada).get("/runs/"))


def test_episodes_of_a_run_are_counted_up_to_a_bound(ada, monkeypatch):
    run = recording.start_run(ada, RunStart(name="theirs"))[0]
    for number in range(3):
        start = EpisodeStart(key=f"e{number}", task="t", run=run.pk, training_step=number)
        one, _ = recording.start_episode(ada, start)
        if number:
            ending.finish(ada, one.pk, Finish(stop_reason="done"))
    empty = recording.start_run(ada, RunStart(name="empty", key="empty"))[0]
    monkeypatch.setattr(run_sizes, "COUNTED", 3)
    assert run_sizes.sizes_of([run.pk, empty.pk]) == {run.pk: RunSize(3, 2, 1), empty.pk: RunSize()}
    page = " ".join(html(as_person(ada).get("/runs/")).split())
    assert "1 live of 3 episodes" in page and "0 episodes" in page and "Training, step 2" in page
    monkeypatch.setattr(run_sizes, "COUNTED", 2)
    page = " ".join(html(as_person(ada).get("/runs/")).split())
    assert "1 live of more than 2 episodes" in page


@pytest.mark.django_db
def test_run_is_counted_by_any_id():
    odd = "it's {one}% -- of; them"
    assert run_sizes.sizes_of([odd]) == {odd: RunSize()} and run_sizes.states_of([odd]) == {odd: {}}


def test_live_external_runs_are_active_and_told_apart(ada):
    """Also runs of one name: by their order, in the list and wherever a run is chosen."""
    first, second = (recording.start_run(ada, RunStart(name="theirs", key=key))[0] for key in "ab")
    client = as_person(ada)
    assert "No run is active." in html(client.get("/runs/"))
    live, _ = recording.start_episode(ada, EpisodeStart(key="e", task="t", run=second.pk))
    for path in ("/runs/", "/runs/?state=running"):
        page = " ".join(html(client.get(path)).split())
        assert "1 run is active." in page and "theirs #2" in page and "1 live of 1 episode" in page
        assert page.index("theirs #2") > page.index('id="h-active"')
    assert "theirs #1" in html(client.get("/runs/"))
    for path in ("/exports/", f"/episodes/?run={second.pk}"):
        assert "theirs #2" in html(client.get(path)), path
    ending.finish(ada, live.pk, Finish(stop_reason="done"))
    assert "No run is active." in html(client.get("/runs/"))


def test_run_page_leads_to_runs_beside_it_and_to_comparison(ada, rita):
    plans = [launched(ada, name=name, tasks={"limit": 2}) for name in "abc"]
    recording.start_run(ada, RunStart(name="of a loop"))
    client = as_person(ada)
    seen = [html(client.get(f"/runs/{one.pk}/")) for one in plans]
    beside = [
        dict(re.findall(r'data-act="run-(before|after)"\s+href="/projects/lab/runs/(\w+)/"', one)) for one in seen
    ]
    first, second, third = (one.pk for one in plans)
    assert beside == [{"before": second}, {"before": third, "after": first}, {"after": second}]
    assert f'href="/projects/lab/exports/?run={second}"' in seen[1]
    assert "/exports/" not in html(as_person(rita).get(f"/runs/{second}/"))
    rows = re.findall(r'data-row="compare"\s+href="([^"]+)"', seen[1])
    assert len(rows) == 2
    assert client.get(rows[0].replace("&amp;", "&")).status_code == 200
    tried = plans[1].tries.values_list("episode_id", flat=True)
    assert len([pk for pk in tried if pk in rows[0]]) == 2


def test_parts_of_a_bar_differ_in_height(ada):
    plan = launched(ada, tasks={"limit": 3})
    for one in plan.tries.select_related("arm"):
        end(one.episode_id, complete=one.arm.name == "expert")
    page = html(as_person(ada).get("/runs/"))
    heights = dict(re.findall(r'class="(ok|no)"[^>]*?height="(\d+)"', page))
    assert heights["ok"] != heights["no"]


@pytest.mark.parametrize(
    ("arms", "seeds", "compared"),
    [(["baseline", "expert"], "1", "arms"), (["baseline"], "2", "seeds"), (["baseline"], "1", "")],
)
def test_matrix_names_what_is_compared_of_a_task(ada, arms, seeds, compared):
    client = as_person(ada)
    client.post("/runs/", FORM | {"tasks": "helpdesk_1/0", "arm": arms, "seeds": seeds})
    plan = Plan.objects.get()
    for one in plan.tries.all():
        end(one.episode_id)
    page = re.sub(r"\s+", " ", html(client.get(f"/runs/{plan.pk}/")))
    assert "Every task in all arms" in page
    assert re.findall(r"Compare the (\w+) of a task", page) == [compared][: len(compared)]
    levels = [int(level) for level in re.findall(r"<h(\d)", page.partition("<main")[2])]
    assert all(below - level <= 1 for level, below in pairwise(levels)), levels

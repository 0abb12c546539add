"""The page `/metrics`: who opens it, what it counts, and that it says nothing of what people wrote."""

from __future__ import annotations

import httpx
import pytest
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from awmclient.schema import EpisodeStart
from awmweb import asgi
from awmweb.metrics import page, processes, stored
from episodes.record import ending, recording
from experts.record import closing, queue
from people import measures
from people.errors import Invalid
from people.models import Project, TokenScope
from people.record import members
from tests.asking import asked
from tests.awmweb.test_environment_page import stats
from tests.browsing import Browser, as_person
from tests.people_by_name import token
from tests.running import free_ports

__all__ = ["asked", "stats"]


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """Figures are read again for each scrape, and this process starts without any of its own, which it reports when
    told.
    """
    measures._ending.set()
    monkeypatch.setattr(page.KEPT, "_fresh_s", 0.0)
    monkeypatch.setattr(page.KEPT, "_until", 0.0)
    monkeypatch.setattr(measures, "_counts", {})
    monkeypatch.setattr(measures, "_known", {})


def scrape(project, scope="metrics", address="/metrics"):
    return Browser().get(address, headers={"Authorization": f"Bearer {token(project, scope)[1]}"})


def figures(project):
    """All samples of the page, by name and the values of their labels."""
    answer = scrape(project)
    assert answer.status_code == 200
    families = text_string_to_metric_families(answer.content.decode())
    return {
        (one.name, *(one.labels[name] for name in sorted(one.labels))): one.value
        for family in families
        for one in family.samples
    }


def test_page_of_metrics_opens_for_its_tokens_alone(project, ada, max_):
    assert Browser().get("/metrics").status_code == 401
    assert as_person(ada).get("/metrics").status_code == 401
    assert Browser().get("/metrics", headers={"Authorization": "Bearer awm_unknown"}).status_code == 401
    refused = {scope: scrape(project, scope).status_code for scope in TokenScope.values if scope != "metrics"}
    assert refused == dict.fromkeys(refused, 403)
    assert scrape(project, address="/projects/lab/metrics").status_code == 404
    assert scrape(project).status_code == 200


def test_metrics_token_opens_nothing_else(project, asked):
    ask = asked()
    bearer = {"Authorization": f"Bearer {token(project, 'metrics')[1]}"}
    of_objects = f"asks/{ask.pk}", f"episodes/{ask.episode_id}"
    for call in ("episodes", "runs", "asks", "reviews?queue=q", "exports", *of_objects):
        assert Browser().get(f"/api/v1/{call}", headers=bearer).status_code in (403, 404, 405), call


def test_only_the_operator_issues_a_metrics_token(ada):
    with pytest.raises(Invalid, match="operator"):
        members.issue_token(ada, "prometheus", "metrics")


def test_metrics_count_asks_leases_and_episodes_by_project(project, ada, edo, elsewhere, asked):
    first, second = asked(), asked()
    queue.claim(edo, first.pk)
    type(second).objects.filter(pk=second.pk).update(deadline_at=timezone.now())
    recording.start_episode(ada, EpisodeStart(key="alone", task="nothing to ask"))
    said = figures(project)
    assert said["awmweb_asks_open", "lab"] == 2 and said["awmweb_asks_open", "elsewhere"] == 0
    assert said["awmweb_asks_open_by_tier", "lab", "people"] == 2
    assert said["awmweb_asks_overdue", "lab"] == 1
    assert 0 < said["awmweb_asks_oldest_wait_seconds", "lab"] < 600
    assert said["awmweb_leases_held", "ask", "lab"] == 1 and said["awmweb_leases_held", "review", "lab"] == 0
    assert said["awmweb_episodes_live", "lab", "running"] == 1
    assert said["awmweb_episodes_live", "lab", "waiting"] == 2


def test_metrics_hold_no_word_of_people_and_no_id(project, asked):
    ask = asked(question="my secret question", task="a secret task")
    text = scrape(project).content.decode()
    assert "awmweb_asks_open{" in text
    for word in ("secret", ask.pk, ask.episode_id, project.pk):
        assert word not in text


def test_metrics_are_read_once_for_many_scrapes(project, django_assert_num_queries):
    kept = stored.LastScrape(stored.read)
    with django_assert_num_queries(5):
        first = kept.figures()
    with django_assert_num_queries(0):
        assert kept.figures() is first


def test_metrics_fold_projects_beyond_the_limit(project, asked, monkeypatch):
    asked()
    Project.objects.create(slug="newest", name="Newest")
    monkeypatch.setattr(stored, "MOST_PROJECTS", 2)
    assert figures(project)["awmweb_asks_open", "newest"] == 0
    Project.objects.filter(slug="newest").update(created_at=timezone.now() - timezone.timedelta(days=1))
    monkeypatch.setattr(stored, "MOST_PROJECTS", 1)
    folded = figures(project)
    assert folded["awmweb_asks_open", "newest"] == 0 and folded["awmweb_asks_open", stored.OTHERS] == 1
    assert ("awmweb_asks_open", "lab") not in folded


def test_counts_of_all_processes_are_added_up(project):
    before = figures(project)
    for process in ("web", "worker"):
        measures.count("awmweb_ingest_steps_total", by=20)
        measures.observe("awmweb_hub_lag_seconds", 0.02)
        measures.observe("awmweb_hub_lag_seconds", 99.0)
        assert measures.send(process)
    after = figures(project)

    def more(*name):
        return after[name] - before.get(name, 0)

    assert more("awmweb_ingest_steps_total") == 40
    assert more("awmweb_hub_lag_seconds_bucket", "0.01") == 0
    assert more("awmweb_hub_lag_seconds_bucket", "0.025") == more("awmweb_hub_lag_seconds_bucket", "30.0") == 2
    assert more("awmweb_hub_lag_seconds_bucket", "+Inf") == more("awmweb_hub_lag_seconds_count") == 4
    assert more("awmweb_hub_lag_seconds_sum") == pytest.approx(198.04)
    # one process of the operating system reports under both names here
    assert after["awmweb_processes", "web"] == after["awmweb_processes", "worker"] == 1
    assert after["awmweb_processes", "beat"] == 0 and after["awmweb_valkey_up",] == 1


def test_tasks_that_wait_are_counted_by_queue(project):
    before = figures(project)
    with measures.client(processes._broker_url()) as broker:
        broker.rpush("rollouts", "a task")
        after = figures(project)
        broker.lrem("rollouts", 1, "a task")
    assert after["awmweb_tasks_queued", "rollouts"] - before["awmweb_tasks_queued", "rollouts"] == 1
    assert after["awmweb_tasks_queued", "default"] == before["awmweb_tasks_queued", "default"]


def test_process_that_reports_no_more_is_gone(project, monkeypatch):
    measures.send("beat")
    assert figures(project)["awmweb_processes", "beat"] == 1
    monkeypatch.setattr(processes, "SILENT_S", 0.0)
    assert figures(project)["awmweb_processes", "beat"] == 0
    assert not [name for name in measures.connection().hkeys(measures.PROCESSES) if name.startswith(b"beat ")]


def test_counts_wait_while_valkey_is_away(project, monkeypatch):
    there, before = measures.connection, figures(project)
    nowhere = measures.client(f"redis://127.0.0.1:{free_ports(1)[0]}/0")
    for module in (measures, processes):
        monkeypatch.setattr(module, "connection", lambda: nowhere)
    measures.count("awmweb_hub_gaps_total")
    assert not measures.send("web")
    measures.count("awmweb_hub_gaps_total")
    assert figures(project)["awmweb_valkey_up",] == 0
    for module in (measures, processes):
        monkeypatch.setattr(module, "connection", there)
    assert measures.send("web")
    assert figures(project)["awmweb_hub_gaps_total",] - before["awmweb_hub_gaps_total",] == 2


def test_labels_beyond_the_limit_are_counted_together(monkeypatch):
    monkeypatch.setattr(measures, "MOST_SERIES", 2)
    for task in ("a", "b", "c", "d", "a"):
        measures.count("awmweb_tasks_total", task, "success")
    counted = {labels: by for (_, _, labels), by in measures._counts.items()}
    assert counted == {("a", "success"): 2, ("b", "success"): 1, ("other", "other"): 2}


def test_ends_of_asks_and_episodes_are_counted(ada, asked, django_capture_on_commit_callbacks):
    ask, late = asked(), asked()
    type(late).objects.filter(pk=late.pk).update(deadline_at=timezone.now())
    with django_capture_on_commit_callbacks(execute=True):
        closing.cancel(ada, ask.pk, "words of its agent")
        closing.close_due()
        ending.cancel(ada, ask.episode_id, "enough")
    counted = {(name, *labels): by for (name, part, labels), by in measures._counts.items() if part == ""}
    assert counted["awmweb_asks_closed_total", "cancelled", ""] == 1
    assert counted["awmweb_asks_closed_total", "fell_back", "deadline"] == 1
    assert counted["awmweb_episodes_ended_total", "cancelled", ""] == 1


async def test_requests_are_counted_by_template_and_never_by_address():
    async with httpx.AsyncClient(transport=httpx.ASGITransport(asgi.application), base_url="http://127.0.0.1") as web:
        for path in ("/login", "/nothing/of/mine", "/static/none.js"):
            await web.get(path)
        await web.request("BREW", "/login")
    counted = {labels for (name, _, labels) in measures._counts if name == "awmweb_requests_total"}
    assert counted == {("GET", "login", "200"), ("GET", "", "404"), ("GET", "static", "404"), ("other", "login", "403")}


def test_metrics_have_the_figures_of_the_environment_server(project, stats, settings):
    times = {"bounds": [0.5, 1.0], "counts": [3, 1, 1], "sum": 4.5}
    stats["body"] = {**stats["body"], "verifications": 5, "verify_seconds": times}
    said = figures(project)
    assert said["awmweb_environment_up",] == 1 and said["awmweb_sessions_open",] == 2
    assert said["awmweb_environment_verifications_total",] == said["awmweb_verify_seconds_count",] == 5
    assert said["awmweb_verify_seconds_bucket", "1.0"] == 4
    settings.AWMENV_URL = f"ws://127.0.0.1:{free_ports(1)[0]}/ws"
    assert figures(project)["awmweb_environment_up",] == 0

"""Every oracle of the starter pack can be made again exactly, and what differs is told with its first difference."""

from __future__ import annotations

import json

import pytest
from django.core.management import CommandError, call_command

from awmenv.packs import load_pack
from episodes.models import Certificate, Episode
from episodes.show import durability
from episodes.stored.packs import scenario_digest
from people.record import projects
from people.record.members import issue_token
from runs import tasks
from runs.launch import launching
from runs.play import certifying
from tests.awmenv.conftest import ROOT, OpenFolders, start_server

pytest.importorskip("time_machine")
pytestmark = pytest.mark.django_db(transaction=True)
STARTER = ROOT / "packs" / "starter"


@pytest.fixture(scope="module")
def server():
    folders = OpenFolders()
    running = start_server(folders.mktemp("awmenv"), STARTER, own_zygotes=False)
    yield running
    running.stop()
    folders.remove()


@pytest.fixture
def environment(server, settings):
    settings.AWMENV_URL = server.url


def test_starter_pack_oracles_are_all_exact(environment, tmp_path, capsys):
    report = tmp_path / "report.jsonl"
    call_command("certify", report=report)
    rows = [json.loads(line) for line in report.read_text().splitlines()]
    assert {row["grade"] for row in rows} == {"exact"}
    assert len(rows) == Certificate.objects.filter(grade="exact").count() == 24
    assert all(row["checked"] == row["calls"] > 0 for row in rows)
    assert all(row["scenario_digest"] == scenario_digest(row["scenario"]) for row in rows)
    assert "Certified 24: 24 exact, 0 refused (100%)" in capsys.readouterr().out
    Certificate.objects.filter(scenario="helpdesk_1").update(scenario_digest="f" * 64)
    assert durability.replays().tasks == 18, "a certificate of a replaced version does not count"


def test_certificate_names_the_first_difference(environment, ada):
    task = certifying.tasks("helpdesk_1")[0]
    episode = Episode.objects.create(project=ada.project, key="k", body_digest="", task="t", scenario=task.scenario)
    with pytest.raises(CommandError, match="1 of 1 cannot be replayed"):
        call_command("certify", episode=episode.pk)
    certificate = Certificate.objects.get(episode=episode)
    assert (certificate.grade, certificate.difference) == ("refused", "The world was not recorded.")


def test_certify_of_an_archived_episode_is_refused(ada):
    episode = Episode.objects.create(
        project=ada.project, key="k", body_digest="", task="t", scenario="helpdesk_1", state="finished"
    )
    projects.archive(ada)
    with pytest.raises(CommandError, match="archived and read-only"):
        call_command("certify", episode=episode.pk)
    assert not Certificate.objects.exists()


def certified_over_http(client, token, episode):
    return client.post(f"/api/v1/episodes/{episode.pk}/certify", headers={"authorization": f"Bearer {token}"})


def test_certify_by_api_needs_a_launch_right_and_an_end(environment, ada, client, monkeypatch):
    called = []
    monkeypatch.setattr(launching, "certify_later", called.append)
    episode = Episode.objects.create(project=ada.project, key="k", body_digest="", task="t", scenario="helpdesk_1")
    Episode.objects.filter(pk=episode.pk).update(scenario_digest="d" * 64)
    secret = {scope: issue_token(ada, scope, scope)[1] for scope in ("agent", "launch")}
    assert certified_over_http(client, secret["agent"], episode).status_code == 403
    live = certified_over_http(client, secret["launch"], episode)
    assert (live.status_code, live.json()["error"]["code"], called) == (409, "still_live", [])
    Episode.objects.filter(pk=episode.pk).update(state="finished")
    asked = certified_over_http(client, secret["launch"], episode)
    assert (asked.status_code, asked.json()["certificate"], called) == (202, None, [episode.pk])
    tasks.certify.apply([episode.pk], throw=True)
    again = certified_over_http(client, secret["launch"], episode).json()["certificate"]
    assert (again["grade"], again["difference"]) == ("refused", "The world was not recorded.")
    assert again["scenario_digest"] == "d" * 64


def test_certify_without_a_server_says_so(settings, ada):
    settings.AWMENV_URL = "http://127.0.0.1:9"
    with pytest.raises(CommandError, match="Cannot reach the environment server"):
        call_command("certify", scenario="helpdesk_1")


def test_starter_pack_has_an_oracle_for_every_task():
    pack = load_pack(STARTER)
    assert len(certifying.tasks()) == sum(pack.scenario(name).task_count for name in pack.scenarios)

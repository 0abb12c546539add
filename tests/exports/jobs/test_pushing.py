"""Pushes to the Hub, against a local server that speaks its protocol: files, progress, refusals, rights."""

from __future__ import annotations

import io
import signal
import threading

import huggingface_hub.constants
import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from exports import tasks
from exports.assembly import storing
from exports.jobs import hub_commits, pushing, turns
from exports.management.commands import push as push_command
from exports.models import Export, Push
from people.errors import Busy
from people.models import AuditEntry
from people.record import jobs
from tests.browsing import as_person, html
from tests.exports.hub_server import TOKEN, hub
from tests.exports.pages.test_export_pages import built, data_of, episode, store
from tests.people_by_name import person

__all__ = ["store"]


@pytest.fixture
def server(settings, monkeypatch, tmp_path):
    """The Hub on this machine, with a token that may write."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_DISABLE_XET", True)
    with hub() as running:
        settings.HUB_ENDPOINT, settings.HUB_TOKEN = running.url, TOKEN
        yield running


def pushed(export):
    """The newest push of an export, after a worker's command."""
    push = export.pushes.latest("created_at")
    call_command("push_export", push.pk)
    push.refresh_from_db()
    return push


def test_page_pushes_a_dataset_as_one_commit(ada, store, server, monkeypatch):
    episode(ada, "a")
    export, page = built(ada), as_person(ada)
    seen = []
    progress = jobs.progress

    def watched(push, **fields):
        seen.append((fields.get("bytes_done"), fields.get("bytes_total")))
        return progress(push, **fields)

    monkeypatch.setattr(jobs, "progress", watched)
    assert page.post(f"/exports/{export.pk}/push", {"repo": "lab/rows"}).status_code == 302
    assert "waiting for a worker" in html(page.get(f"/exports/{export.pk}/"))
    push = pushed(export)
    assert (push.state, push.problem, server.commits) == ("done", "", 1)
    assert set(server.files) == {path for path, _ in storing.files_of(export.project_id, export.dataset)}
    assert server.files["data/train.jsonl"] == data_of(export)
    assert server.made["lab/rows"]["visibility"] == "private"
    total = sum(len(content) for content in server.files.values())
    assert seen[0] == (0, total) and seen[-1] == (total, total) and push.bytes_done == total
    shown = html(page.get(f"/exports/{export.pk}/"))
    assert f'href="{server.url}/datasets/lab/rows/commit/abc"' in shown and TOKEN not in shown
    line = AuditEntry.objects.get(verb="export.pushed")
    assert (line.actor, line.target) == ("ada", export.pk) and "lab/rows" in line.reason
    call_command("push_export", push.pk)
    assert server.commits == 1, "a finished push is not claimed again"


def test_command_pushes_a_folder_or_an_export(ada, store, server, tmp_path):
    episode(ada, "a")
    export, out = built(ada), io.StringIO()
    call_command("push", export.dataset[:10], "--repo", "lab/rows", "--public", "--project", "lab", stdout=out)
    assert "Pushed 1 row to" in out.getvalue() and server.made["lab/rows"]["visibility"] == "public"
    first = dict(server.files)
    folder = f"{tmp_path}/folder/"
    call_command("export", "--format", "sft", "--project", "lab", "--output", folder, verbosity=0)
    call_command("push", folder, "--repo", "lab/rows", "--project", "lab", stdout=out)
    assert server.files == first


def test_command_waits_for_its_turn_and_is_seen_by_others(ada, store, server, monkeypatch, tmp_path):
    episode(ada, "a")
    export = built(ada)
    folder = f"{tmp_path}/folder/"
    call_command("export", "--format", "sft", "--project", "lab", "--output", folder, verbosity=0)
    page = pushing.request(ada, done(ada.project).pk, "lab/rows", private=True)
    pushing.claim(page.pk)
    waited, seen, upload = [], [], hub_commits.push

    def wait(_seconds):
        waited.append(Push.objects.filter(state="pushing").count())
        pushing.finish(Push.objects.get(pk=page.pk), "")

    def watched(*given, **named):
        other = pushing.request(ada, done(ada.project).pk, "lab/rows", private=True)
        seen.append((Push.objects.filter(state="pushing").count(), pushing.claim(other.pk)))
        Push.objects.filter(pk=other.pk).delete()
        return upload(*given, **named)

    monkeypatch.setattr(push_command.time, "sleep", wait)
    monkeypatch.setattr(hub_commits, "push", watched)
    for dataset in (export.pk, folder):
        call_command("push", dataset, "--repo", "lab/rows", "--project", "lab", stdout=io.StringIO())
    assert waited == [1] and seen == [(1, None), (1, None)], "no one else in this project pushes meanwhile"
    ended = Push.objects.exclude(pk=page.pk).order_by("created_at")
    assert [(one.export_id, one.state) for one in ended] == [(export.pk, "done"), (None, "done")]
    assert all(one.bytes_done == one.bytes_total > 0 and one.address for one in ended)


def test_command_ends_after_the_time_of_a_push(ada, store, server, monkeypatch):
    episode(ada, "a")
    export = built(ada)
    before = signal.getsignal(signal.SIGALRM)
    monkeypatch.setattr(Push, "MOST_S", 0.05)
    monkeypatch.setattr(hub_commits, "push", lambda *_given, **_named: threading.Event().wait())
    with pytest.raises(CommandError, match="Stopped: the push took more than"):
        call_command("push", export.pk, "--repo", "lab/rows", "--project", "lab")
    push = Push.objects.get()
    assert push.state == "failed" and "took more than" in push.problem and server.commits == 0
    assert signal.getsignal(signal.SIGALRM) == before, "the earlier timer runs again"


def test_command_that_is_stopped_is_not_pushed_by_a_worker(ada, store, server, monkeypatch, tmp_path):
    episode(ada, "a")
    folder = f"{tmp_path}/folder/"
    call_command("export", "--format", "sft", "--project", "lab", "--output", folder, verbosity=0)

    def interrupted(*_given, **_named):
        raise KeyboardInterrupt

    monkeypatch.setattr(hub_commits, "push", interrupted)
    with pytest.raises(KeyboardInterrupt):
        call_command("push", folder, "--repo", "lab/rows", "--project", "lab")
    push = Push.objects.get()
    assert (push.state, push.problem) == ("failed", "Stopped: KeyboardInterrupt.")
    # killed before it could say so: its folder is no longer known
    Push.objects.update(state="pushing", heartbeat_at=None)
    call_command("push_export", push.pk)
    push.refresh_from_db()
    assert push.state == "failed" and "Run it again" in push.problem


def test_missing_or_refused_token_names_the_setting(ada, store, server, settings):
    episode(ada, "a")
    export, page = built(ada), as_person(ada)
    settings.HUB_TOKEN = "hf_wrong"
    page.post(f"/exports/{export.pk}/push", {"repo": "lab/rows"})
    push = pushed(export)
    assert push.state == "failed" and "refused the token (401). Set AWMWEB_HUB_TOKEN" in push.problem
    assert "hf_wrong" not in push.problem and server.files == {}
    settings.HUB_TOKEN = ""
    assert "No Hub token is set." in html(page.get(f"/exports/{export.pk}/"))
    with pytest.raises(CommandError, match="Set AWMWEB_HUB_TOKEN"):
        call_command("push", export.pk, "--repo", "lab/rows", "--project", "lab")


def test_unreachable_hub_is_told_with_its_address(ada, store, server, settings):
    episode(ada, "a")
    export = built(ada)
    settings.HUB_ENDPOINT = "http://127.0.0.1:9"
    with pytest.raises(CommandError, match=r"Cannot push to the Hub at http://127\.0\.0\.1:9\. Check HF_ENDPOINT"):
        call_command("push", export.pk, "--repo", "lab/rows", "--project", "lab")


def test_only_admins_push_and_names_are_checked(ada, store, server):
    episode(ada, "a")
    export = built(ada)
    researcher = person(ada.project, "rob", "researcher")
    assert as_person(researcher).post(f"/exports/{export.pk}/push", {"repo": "lab/rows"}).status_code == 403
    assert "Push to the Hub" not in html(as_person(researcher).get(f"/exports/{export.pk}/"))
    page = as_person(ada)
    answer = page.post(f"/exports/{export.pk}/push", {"repo": "../rows"}, follow=True)
    assert "use owner/name" in html(answer) and not Push.objects.exists()


def test_push_whose_worker_died_is_claimed_again(ada, store, server):
    episode(ada, "a")
    push = pushing.request(ada, built(ada).pk, "lab/rows", private=True)
    first = pushing.claim(push.pk)
    assert pushing.claim(push.pk) is None, "its worker was heard just now"
    Push.objects.update(heartbeat_at=timezone.now() - 2 * Push.SILENT_AFTER)
    second = pushing.claim(push.pk)
    pushing.fail(first, "too late")
    push.refresh_from_db()
    assert (second.attempt, push.state) == (2, "pushing")


def done(project):
    return Export.objects.create(
        project=project, recipe={"format": "sft"}, format="sft", state="done", dataset="d" * 64
    )


def test_pushes_of_a_project_are_one_at_a_time(ada, elsewhere, server, monkeypatch):
    started = []
    monkeypatch.setattr(jobs, "run_aside", lambda _command, job_id, _most: started.append(job_id))
    first, second = (pushing.request(ada, done(ada.project).pk, "lab/rows", private=True) for _ in range(2))
    other = Push.objects.create(project=elsewhere, export=done(elsewhere), repo="they/rows")
    assert pushing.claim(first.pk) is not None and pushing.claim(second.pk) is None
    tasks.push(second.pk)
    assert started == [] and jobs.next_one(Push) == other.pk and pushing.claim(other.pk) is not None
    pushing.finish(Push.objects.get(pk=first.pk), "https://hub.test/lab/rows")
    assert jobs.next_one(Push) == second.pk
    tasks.push(second.pk)
    assert started == [second.pk]


def test_project_cannot_fill_the_queue_of_pushes(ada, server):
    export = done(ada.project)
    for number in range(turns.WAITING_MAX):
        Push.objects.create(project=ada.project, export=export, repo=f"lab/rows-{number}")
    with pytest.raises(Busy, match="20 pushes of this project are not done yet"):
        pushing.request(ada, export.pk, "lab/more", private=True)

"""Projects beside the first one: creating, archiving, roles, the audit log, tokens with an end, and commands on a wrong
data folder."""

from __future__ import annotations

import csv
import io
import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.utils import timezone

from people import access, audit_trail
from people.access import system
from people.errors import Invalid
from people.models import ApiToken, AuditEntry, Membership, Project
from people.record import audit, members, projects
from people.text.zones import midnight
from tests.browsing import as_person, html

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.django_db
def test_a_project_is_made_once_and_by_a_slug(capsys):
    call_command("createproject", "night-shift", name="Night shift")
    assert capsys.readouterr().out.splitlines()[-1] == "night-shift"
    assert Project.objects.get(slug="night-shift").name == "Night shift"
    assert AuditEntry.objects.filter(verb="created project", target="night-shift").exists()
    for slug, words in (("night-shift", "already"), ("Night", "lower-case"), ("", "lower-case"), ("a" * 61, "60")):
        with pytest.raises(CommandError, match=words):
            call_command("createproject", slug)


@pytest.mark.django_db
def test_a_login_link_opens_the_project_that_it_was_made_for(client):
    for slug in ("first", "second"):
        members.create_project(slug)
    for slug in ("first", "second", "first"):
        secret = members.link_for(access.system_actor(slug), "mina", "researcher")
        assert client.get(f"/login/once/{secret}").status_code == 302
        assert client.session["project"] == slug


@pytest.mark.django_db
@pytest.mark.parametrize(("said", "days"), [("%Y-%m-%d", 3), ("%Y-%m-%dT%H:%M+00:00", 2)])
def test_a_token_has_the_end_that_is_asked_for(project, said, days):
    """A day ends before the next one begins."""
    then = timezone.now() + timedelta(days=2)
    end = then.strftime(said)
    call_command("createtoken", "--project", project.slug, "--scope", "agent", "--expires", end, "loop")
    assert timedelta(days=2, minutes=-2) < ApiToken.objects.get().ends_at - timezone.now() <= timedelta(days=days)


def test_token_page_shows_the_day_that_was_asked_for(ada):
    call_command("createtoken", "--project", ada.project.slug, "--scope", "agent", "--expires", "2199-12-01", "loop")
    assert ApiToken.objects.get().ends_at.isoformat() == "2199-12-01T23:59:59.999999+00:00"
    page = html(as_person(ada).get("/api-tokens/"))
    assert "Dec 1, 2199" in page and "Dec 2" not in page


@pytest.mark.django_db
@pytest.mark.parametrize("said", ["tomorrow", "2026-13-01", "2020-01-01"])
def test_an_end_that_is_none_is_refused(project, said):
    with pytest.raises(CommandError):
        call_command("createtoken", "--project", project.slug, "--scope", "agent", "--expires", said, "loop")


OWN = {path.stem for path in ROOT.glob("*/management/commands/[!_]*.py")}
WITHOUT_PRODUCT = {"up", "backup", "restore", "read_traces", "model"}
"""Commands that start it, or its database, or need neither."""


@pytest.mark.parametrize("command", [*sorted(OWN - WITHOUT_PRODUCT), "shell", "createsuperuser"])
def test_command_without_running_product_fails_without_writing(command, tmp_path):
    environment = {**os.environ, "AWMWEB_VAR": str(tmp_path / "var"), "DATABASE_URL": ""}
    done = subprocess.run(
        [sys.executable, "manage.py", command, "x"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    said = f"Nothing is running on {tmp_path / 'var'}. Is AWMWEB_VAR set? Start it with `make run`.\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", said)
    assert not (tmp_path / "var").exists()


def test_admin_creates_renames_archives_and_restores_project(ada):
    client = as_person(ada)
    client.post("/projects/", {"do": "create", "slug": "night-shift", "name": "Night shift"})
    assert "admin in <b>Night shift</b>" in html(client.get("/members/"))
    client.post("/projects/", {"do": "rename", "project": "night-shift", "name": "Nights"})
    page = html(client.get("/projects/"))
    assert "You have 2 active projects." in page and "Nights" in page
    client.post("/projects/", {"do": "archive", "project": "night-shift"})
    page = html(client.get("/projects/"))
    assert "1 active project and 1 archived." in page and "read-only" in page
    assert '<a href="/projects/night-shift/" aria-current="true">' not in page and 'value="restore"' in page
    client.post("/projects/", {"do": "restore", "project": "night-shift"})
    assert "You have 2 active projects." in html(client.get("/projects/"))
    verbs = list(AuditEntry.objects.filter(actor=ada.name).values_list("verb", flat=True))
    assert verbs == ["created project", "renamed project", "archived project", "restored project"]
    assert "4 entries in the audit log." in html(client.get("/audit/"))


def test_admin_turns_recorded_clocks_off_and_on(ada, edo):
    client = as_person(ada)
    assert "Use real clocks in Lab?" in html(client.get("/projects/"))
    for command, is_real in (("real_clocks", True), ("real_clocks", True), ("recorded_clocks", False)):
        assert client.post("/projects/", {"do": command, "project": "lab"}).status_code == 302
        assert Project.objects.get(slug="lab").real_clocks is is_real
        page = html(client.get("/projects/"))
        assert ("<small>real clocks</small>" in page) is ("Use recorded clocks in Lab?" in page) is is_real
    audit = AuditEntry.objects.filter(actor=ada.name).values_list("verb", "target")
    assert list(audit) == [("turned recorded clocks off", "lab"), ("turned recorded clocks on", "lab")]
    assert as_person(edo).post("/projects/", {"do": "real_clocks", "project": "lab"}).status_code == 422
    assert not Project.objects.get(slug="lab").real_clocks


def test_archived_project_is_read_only(ada, client):
    _, secret = members.issue_token(ada, "loop", "agent")
    bearer = {"headers": {"Authorization": f"Bearer {secret}"}, "content_type": "application/json"}
    started = client.post("/api/v1/episodes", {"key": "a", "task": "t"}, **bearer).json()["id"]
    with pytest.raises(Invalid, match="1 episode is still live"):
        projects.archive(ada)
    assert client.post(f"/api/v1/episodes/{started}/finish", {"stop_reason": "done"}, **bearer).status_code == 200
    projects.archive(ada)
    refused = client.post("/api/v1/episodes", {"key": "b", "task": "t"}, **bearer)
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "project_archived")
    assert client.get(f"/api/v1/episodes/{started}", **bearer).status_code == 200
    page = as_person(ada).post("/members/", {"do": "invite", "name": "Mina", "role": "expert"})
    assert page.status_code == 422 and "archived and read-only" in html(page)


def test_archived_project_takes_no_member_by_command(ada, edo, capsys):
    projects.archive(ada)
    slug, name = ada.project.slug, edo.person.get_username()
    for who, role in (("bob", "viewer"), ("bob", None), (name, "viewer")):
        with pytest.raises(CommandError, match="archived and read-only"):
            call_command("loginlink", who, project=slug, role=role)
    assert not Membership.objects.filter(user__username="bob").exists()
    for role in (None, "expert"):
        call_command("loginlink", name, project=slug, role=role)
        assert "/login/once/" in capsys.readouterr().out
    assert Membership.objects.get(user=edo.person, project=ada.project).role == "expert"


def test_only_admins_manage_projects_and_read_the_audit_log(edo, ada):
    client = as_person(edo)
    assert 'value="create"' not in html(client.get("/projects/"))
    for body in ({"do": "create", "slug": "mine"}, {"do": "archive", "project": edo.project.slug}):
        assert client.post("/projects/", body).status_code == 422
    assert client.get("/audit/").status_code == 403 and "/audit/" not in html(client.get("/members/"))
    assert "/audit/" in html(as_person(ada).get("/members/"))


def test_role_change_ends_sessions_and_returns_a_login_link(ada, edo):
    theirs = Membership.objects.get(user=edo.person, project=edo.project)
    before = as_person(edo)
    page = as_person(ada).post("/members/", {"do": "role", "membership": theirs.pk, "role": "viewer"})
    link = re.search(r'id="link" readonly value="[^"]+(/login/once/[^"]+)"', html(page))[1]
    assert before.get("/queue/").status_code == 403
    before.get(link)
    assert "viewer in <b>" in html(before.get("/members/"))
    assert AuditEntry.objects.filter(verb="changed role of", reason="from expert to viewer").exists()


def test_the_last_admin_keeps_the_role(ada, edo):
    mine, theirs = (Membership.objects.get(user=one.person, project=ada.project) for one in (ada, edo))
    client = as_person(ada)
    for role, words in (("viewer", "last admin"), ("admin", "already has")):
        page = client.post("/members/", {"do": "role", "membership": mine.pk, "role": role})
        assert page.status_code == 422 and words in html(page)
    client.post("/members/", {"do": "role", "membership": theirs.pk, "role": "admin"})
    page = client.post("/members/", {"do": "role", "membership": mine.pk, "role": "viewer"})
    assert "change your own role" in html(page)
    assert Membership.objects.get(pk=mine.pk).role == "admin"


def test_audit_log_filters_pages_and_exports_safe_csv(ada, elsewhere, monkeypatch):
    monkeypatch.setattr("people.audit_trail.PAGE_ROWS", 2)
    for reason in ("=cmd|' /C calc'!A0", " +1", "-minus", "@mention", "\ttab", "plain"):
        audit.record(ada, "tried", "formula", reason)
    audit.record(system(elsewhere), "tried", "formula", "theirs")
    client = as_person(ada)
    page = html(client.get("/audit/?verb=tried"))
    assert "6 entries match." in page and "plain" in page and "-minus" not in page and "theirs" not in page
    older = re.search(r'href="(\?[^"]*before=\d+)"', page)[1].replace("&amp;", "&")
    assert "@mention" in html(client.get(f"/audit/{older}"))
    assert "No entries match" in html(client.get("/audit/?verb=tried&until=2001-01-01"))
    wrong = client.get("/audit/?since=soon")
    assert wrong.status_code == 422 and "0 entries match." in html(wrong)
    download = client.get("/audit/?verb=tried&csv=1")
    assert download["Content-Disposition"].startswith("attachment")
    rows = list(csv.reader(io.StringIO(download.content.decode())))
    assert rows[0] == ["at", "actor", "verb", "target", "reason"]
    assert [row[4] for row in rows[1:]] == ["plain", "'\ttab", "'@mention", "'-minus", "' +1", "'=cmd|' /C calc'!A0"]


def test_audit_page_shows_codes_as_words_and_ids_to_copy(ada):
    audit.record(ada, "export.requested", "1m87s7hh1q2ns559g43r", "sft")
    audit.record(ada, "issued token", "t-expert")
    page = html(as_person(ada).get("/audit/"))
    assert "<td>requested export</td>" in page and 'value="export.requested"' in page
    assert page.count("data-copy-text") == 1 and 'data-copy-text="1m87s7hh1q2ns559g43r"' in page


@pytest.mark.django_db
def test_days_and_midnight_are_those_of_the_reader(ada):
    """The browser says its zone in a cookie; a wrong one counts as none."""
    client = as_person(ada)
    assert "since midnight, UTC" in html(client.get("/")) and "From (UTC)" in html(client.get("/audit/"))
    client.cookies["zone"] = "Asia/Kolkata"
    assert "since midnight, Asia/Kolkata" in html(client.get("/")) and "From (Asia/Kolkata)" in html(
        client.get("/audit/")
    )
    for wrong in ("Moon/Base", "../../etc/passwd", "x" * 999, "/etc/passwd", "Europe"):
        client.cookies["zone"] = wrong
        assert "since midnight, UTC" in html(client.get("/")), wrong


def test_midnight_is_the_readers():
    late = datetime(2026, 11, 26, 22, 0, tzinfo=UTC)
    assert midnight(late, ZoneInfo("Asia/Kolkata")) == datetime(2026, 11, 26, 18, 30, tzinfo=UTC)
    assert midnight(late, UTC) == datetime(2026, 11, 26, tzinfo=UTC)


@pytest.mark.django_db
def test_an_expiry_ends_with_the_readers_day(ada):
    client = as_person(ada)
    client.cookies["zone"] = "Asia/Kolkata"
    client.post("/members/", {"do": "invite", "name": "Zoe", "role": "viewer", "ends": "2199-01-31"})
    ends = ada.project.memberships.get(user__first_name="Zoe").ends_at
    assert ends == datetime(2199, 1, 31, 18, 29, 59, tzinfo=UTC)
    assert f'datetime="{ends.isoformat()}"' in html(client.get("/members/"))


@pytest.mark.django_db
def test_audit_table_and_tooltips_name_their_zone(ada):
    audit.record(ada, "issued token", "x")
    page = html(as_person(ada).get("/audit/"))
    assert re.search(
        r'<time [^>]*title="\w{3} \d+, \d{4}, [\d:]{8} UTC" data-time="minute" data-utc>[^<]+ UTC</time>', page
    )
    assert "Time <small data-zone>UTC</small>" in page
    days = audit_trail.Filters.read({"since": "2026-11-26", "until": "2026-11-26"}, ZoneInfo("Asia/Kolkata"))
    AuditEntry.objects.update(at=datetime(2026, 11, 25, 18, 31, tzinfo=UTC))
    assert days.rows(ada).count() == 1
    AuditEntry.objects.update(at=datetime(2026, 11, 26, 18, 31, tzinfo=UTC))
    assert days.rows(ada).count() == 0

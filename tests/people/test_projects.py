"""Projects beside the first one: making them, getting in, tokens with an end, and commands on the wrong data folder."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.utils import timezone

from people import members
from people.models import ApiToken, AuditEntry, Project

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.django_db
def test_a_project_is_made_once_and_by_a_slug(capsys):
    call_command("createproject", "night-shift", name="Night shift")
    assert capsys.readouterr().out.splitlines()[-1] == "night-shift"
    assert Project.objects.get(slug="night-shift").name == "Night shift"
    assert AuditEntry.objects.filter(verb="made the project", target="night-shift").exists()
    for slug, words in (("night-shift", "already"), ("Night", "lower-case"), ("", "lower-case"), ("a" * 61, "60")):
        with pytest.raises(CommandError, match=words):
            call_command("createproject", slug)


@pytest.mark.django_db
def test_a_login_link_opens_the_project_that_it_was_made_for(client):
    for slug in ("first", "second"):
        members.create_project(slug)
    for slug in ("first", "second", "first"):
        secret = members.link_for(members.house_actor(slug), "mina", "researcher")
        assert client.get(f"/login/once/{secret}").status_code == 302
        assert client.session["project"] == slug


@pytest.mark.django_db
@pytest.mark.parametrize(("said", "days"), [("%Y-%m-%d", 3), ("%Y-%m-%dT%H:%M+00:00", 2)])
def test_a_token_has_the_end_that_is_asked_for(project, said, days):
    """A day ends at its midnight."""
    then = timezone.now() + timedelta(days=2)
    end = then.strftime(said)
    call_command("createtoken", "--project", project.slug, "--scope", "agent", "--expires", end, "loop")
    assert timedelta(days=2, minutes=-2) < ApiToken.objects.get().ends_at - timezone.now() <= timedelta(days=days)


@pytest.mark.django_db
@pytest.mark.parametrize("said", ["tomorrow", "2026-13-01", "2020-01-01"])
def test_an_end_that_is_none_is_refused(project, said):
    with pytest.raises(CommandError):
        call_command("createtoken", "--project", project.slug, "--scope", "agent", "--expires", said, "loop")


@pytest.mark.parametrize("command", ["loginlink", "createtoken", "createproject", "rollout", "export", "shell"])
def test_a_command_on_a_folder_where_nothing_runs_says_so_and_writes_nothing(command, tmp_path):
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

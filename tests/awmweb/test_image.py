"""The Dockerfile's steps, done one after the other in a fresh folder, give something that runs.

Its own `/app` and `/data` are folders there, and a fresh virtual environment takes the place of the base image.
"""

import os
import pwd
import signal
import subprocess
import threading
from pathlib import Path

import httpx
import pytest

from awmweb.embedded.processes import Identity
from tests.awmweb.accounts import ROOT, free_port, interpreter_for, processes_of, wait_until
from tests.awmweb.containers import copy_context, steps
from tests.product.test_traces import Collector


class Image:
    """What the steps so far have made."""

    def __init__(self, folder: Path, python: str) -> None:
        self.folder = folder
        self.workdir = folder
        self.user = ""
        self.command: list[str] = []
        subprocess.run([python, "-m", "venv", folder / "python"], check=True)
        self.environment = {
            "PATH": f"{folder / 'python' / 'bin'}:/usr/sbin:/usr/bin:/sbin:/bin",
            **{name: value for name, value in os.environ.items() if name.startswith("PIP_") or "proxy" in name.lower()},
        }

    def inside(self, text: str) -> str:
        for name in ("app", "data", "backups"):
            text = text.replace(f"/{name}", str(self.folder / name))
        return text

    def do(self, name: str, value: str, words: list[str]) -> None:
        if name == "ENV":
            self.environment |= dict(self.inside(word).split("=", 1) for word in words)
        elif name == "WORKDIR":
            self.workdir = Path(self.inside(value))
            self.workdir.mkdir(parents=True)
        elif name == "COPY" and words == [".", "."]:
            copy_context(ROOT, self.workdir)
        elif name == "COPY":
            for source in words[:-1]:
                (self.workdir / source).write_bytes((ROOT / source).read_bytes())
        elif name == "RUN":
            subprocess.run(
                ["/bin/sh", "-c", self.inside(value)], cwd=self.workdir, env=self.environment, check=True, timeout=900
            )
        elif name == "USER":
            self.user = value
        elif name == "CMD":
            self.command = words
        else:
            assert name in ("ARG", "FROM", "LABEL", "VOLUME", "EXPOSE", "STOPSIGNAL"), f"the test does not know {name}"

    def start(self, **settings: str) -> subprocess.Popen:
        entry = pwd.getpwnam(self.user)
        who = Identity(user=entry.pw_uid, group=entry.pw_gid, extra_groups=[]) if os.geteuid() == 0 else Identity()
        return subprocess.Popen(
            self.command,
            cwd=self.workdir,
            env=self.environment | settings,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            **who,
        )


@pytest.mark.image
@pytest.mark.timeout(1200)
def test_dockerfile_steps_build_a_working_product(own_folder):
    python = interpreter_for(pwd.getpwnam("nobody").pw_uid)
    if python is None or os.geteuid() != 0:
        pytest.skip("the steps change owners, which only root may")
    image = Image(own_folder, python)
    for step in steps(ROOT / "Dockerfile"):
        image.do(step.name, step.value, step.words if step.name in ("ENV", "COPY", "CMD") else [])
    assert not (image.workdir / "tests").exists() and not (image.workdir / "var").exists()
    port, collector = free_port(), Collector()
    threading.Thread(target=collector.serve_forever, daemon=True).start()
    ports = {"AWMWEB_PORT": str(port), "AWMENV_PORT": str(free_port())}
    process = image.start(**ports, AWMWEB_DEMO="0", AWMWEB_TRACES_TO=collector.url)
    said: list[str] = []
    reader = threading.Thread(target=lambda: said.extend(iter(process.stdout.readline, "")), daemon=True)
    reader.start()
    try:
        wait_until(lambda: any("awmweb ready" in line for line in said) or process.poll() is not None, 120, "ready")
        assert said[-1].startswith(f"awmweb ready: http://127.0.0.1:{port}/login/once/"), "".join(said)
        assert (own_folder / "data" / "postgres" / "PG_VERSION").exists()
        assert (own_folder / "backups").stat().st_uid == pwd.getpwnam(image.user).pw_uid
        assert httpx.get(f"http://127.0.0.1:{port}/login").status_code == 200
        wait_until(lambda: "GET login" in {one["name"] for one in collector.spans()}, 30, "the span of a request")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)
        collector.shutdown()
    wait_until(lambda: not processes_of(own_folder), 10, "the end of every process")

"""The wheels of `make wheels`: what they hold, and an installed one that starts in an empty environment."""

import json
import os
import pwd
import signal
import subprocess
import threading
import tomllib
import zipfile

import pytest

from tests.awmweb.accounts import ROOT, free_port, interpreter_for, processes_of, wait_until

BUILT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def components(name):
    """Return the names of a bill of materials."""
    return {one["name"].lower() for one in json.loads((ROOT / "dist" / f"{name}.cdx.json").read_text())["components"]}


def test_wheel_names_every_package_of_the_product():
    held = BUILT["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests", "tools", "examples", "bench"}
    assert packages <= set(held)
    assert {"templates", "static", "manage.py", "packs/starter"} <= set(held)
    assert [name for name in held if not (ROOT / name).exists()] == []


@pytest.mark.image
@pytest.mark.timeout(1200)
def test_installed_wheel_starts_without_the_checkout(own_folder):
    python = interpreter_for(pwd.getpwnam("nobody").pw_uid)
    if python is None or os.geteuid() != 0:
        pytest.skip("the steps change owners, which only root may")
    subprocess.run(["make", "wheels"], cwd=ROOT, check=True, timeout=600)
    wheel, client = (next((ROOT / "dist").glob(f"{name}-*.whl")) for name in ("awmweb", "awmclient"))
    held = zipfile.ZipFile(wheel).namelist()
    for name in ("templates/base.html", "static/tokens.css", "packs/starter/gen_scenario.jsonl", "manage.py"):
        assert f"awmweb_home/{name}" in held
    assert not [name for name in held if "/tests/" in name or "/var/" in name or name.endswith(".pyc")]
    parts = {name: components(name) for name in ("awmweb", "awmweb-image", "awmclient")}
    assert {"django", "celery", "openenv"} <= parts["awmweb"] < parts["awmweb-image"]
    assert parts["awmweb-image"] >= {"opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http"}
    assert parts["awmclient"] == {"httpx", "pydantic"}
    subprocess.run([python, "-m", "venv", own_folder / "python"], check=True)
    pip = [own_folder / "python" / "bin" / "python", "-m", "pip", "install", "-q", "--no-deps"]
    subprocess.run([*pip, "--require-hashes", "-r", ROOT / "requirements.lock"], check=True, timeout=900)
    subprocess.run([*pip, wheel, client], check=True, timeout=300)
    nobody = pwd.getpwnam("nobody")
    home, port = own_folder / "home", free_port()
    home.mkdir(exist_ok=True)
    os.chown(home, nobody.pw_uid, nobody.pw_gid)
    settings = {"AWMWEB_PORT": str(port), "AWMENV_PORT": str(free_port()), "AWMWEB_DEMO": "0"}
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(home), **settings}
    command = str(own_folder / "python" / "bin" / "awmweb")
    who = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": [], "cwd": home, "env": environment}
    process = subprocess.Popen([command, "up"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **who)
    said: list[str] = []
    threading.Thread(target=lambda: said.extend(iter(process.stdout.readline, "")), daemon=True).start()
    try:
        wait_until(lambda: any("awmweb ready" in line for line in said) or process.poll() is not None, 180, "ready")
        assert said[-1].startswith(f"awmweb ready: http://127.0.0.1:{port}/login/once/"), "".join(said)
        assert (home / ".local" / "share" / "awmweb" / "postgres" / "PG_VERSION").exists()
        made = subprocess.run(
            [command, "createtoken", "loop", "--project", "demo", "--scope", "agent"],
            **who, capture_output=True, text=True, check=True, timeout=120,
        )  # fmt: skip
        assert made.stdout.split()
        queued = subprocess.run(
            [command, "rollout", "--scenario", "helpdesk_1", "--task-idx", "0", "--policy", "script:demo"],
            **who, capture_output=True, text=True, check=True, timeout=120,
        )  # fmt: skip
        assert "episode" in queued.stdout.lower()
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
    wait_until(lambda: not processes_of(own_folder), 10, "the end of every process")

"""The supervisor starts everything, brings back what dies, stops everything; our services are stand-ins here."""

import configparser
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import psutil
import pytest

from awmweb.embedded import processes
from awmweb.embedded.gate import StartGate
from awmweb.embedded.supervisor import Kept
from tests.awmweb.accounts import ROOT, STAND_IN, Person, as_self, free_port, processes_of, wait_until
from tests.documented import proves

NAMES = {"postgres", "valkey", "env", "web", "worker", "rollouts", "beat"}


class Run:
    """A running supervisor, what it printed so far, and its children."""

    def __init__(self, person: Person, **environment: str) -> None:
        self.person = person
        self.port, self.env_port = free_port(), free_port()
        self.environment = environment
        self.lines: list[str] = []

    def start(self, **changed: object) -> "Run":
        options = {
            "base": str(self.person.folder),
            "var": str(self.person.var),
            "host": "127.0.0.1",
            "port": self.port,
            "env_port": self.env_port,
            "preload": "json",  # services are forked, as those of the product are
        }
        self.lines = []
        command = ["-m", "awmweb.embedded.supervisor", json.dumps(options | changed)]
        self.process = self.person.start(*command, **self.environment)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        return self

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self.lines.append(line.rstrip())

    @property
    def output(self) -> str:
        return "\n".join(self.lines)

    def until_ready(self) -> "Run":
        wait_until(lambda: "awmweb ready" in self.output or self.process.poll() is not None, 60, "the ready line")
        assert self.process.poll() is None, self.output
        return self

    def pids(self) -> dict[str, int]:
        return {name: pid for name, (pid, _) in json.loads((self.person.var / "children.json").read_text()).items()}

    def stop(self, number: int = signal.SIGTERM) -> float:
        began = time.monotonic()
        self.process.send_signal(number)
        self.process.wait(180)
        self.reader.join(5)
        return time.monotonic() - began

    def wait_ended(self) -> None:
        self.process.wait(60)
        self.reader.join(5)


@pytest.fixture
def run(person):
    """A supervisor over the stand-in, ended with everything it started."""
    for part in STAND_IN.iterdir():
        if part.name == "__pycache__":
            continue
        (shutil.copytree if part.is_dir() else shutil.copy)(part, person.folder / part.name)
    running = Run(person)
    yield running
    if hasattr(running, "process") and running.process.poll() is None:
        running.stop()
    wait_until(lambda: not processes_of(person.folder), 60, "the end of every child")


def test_ready_line_means_all_services_run_and_stop(run):
    run.start().until_ready()
    assert run.lines[-1] == f"awmweb ready: http://127.0.0.1:{run.port}/login/once/abc"
    assert set(run.pids()) == NAMES
    assert all(psutil.pid_exists(pid) for pid in run.pids().values())
    assert run.stop() < 20
    assert run.process.returncode == 0
    assert run.lines[-1].endswith("stopped")


@as_self
def test_progress_is_said_with_the_seconds_that_passed(run):
    run.person.have_started_before()
    run.start().until_ready()
    said = [line for line in run.lines if re.match(r"\[ +\d+\.\d s\] ", line)]
    for word in ("database: PostgreSQL 18", "queue: Valkey", "packs: none", "web: ready", "env: ready"):
        assert any(word in line for line in said), (word, run.output)
    run.stop(signal.SIGINT)


def test_every_child_comes_back_after_kill_9(run):
    run.person.have_started_before()
    run.start().until_ready()
    for name in sorted(NAMES):
        before = run.pids()[name]
        psutil.Process(before).kill()
        wait_until(lambda name=name, before=before: run.pids().get(name, before) != before, 90, f"a new {name}")
        wait_until(lambda name=name: f"{name} restarted" in run.output, 60, f"news of {name}")
    assert set(run.pids()) == NAMES
    assert run.stop() < 20


@pytest.mark.long
def test_killed_supervisor_ends_children_and_restart_recovers(run):
    run.person.have_started_before()
    run.start().until_ready()
    pids = run.pids()
    run.process.kill()
    run.process.wait()
    services = [pid for name, pid in pids.items() if name not in {"postgres", "valkey"}]
    wait_until(lambda: not any(psutil.pid_exists(pid) for pid in services), 60, "the end of the services")
    run.start().until_ready()
    assert not set(run.pids().values()) & set(pids.values())


@as_self
def test_service_ignoring_sigterm_is_killed_within_20_s(run):
    run.person.have_started_before()
    run.environment = {"STAND_IN_STUBBORN": "1"}
    run.start().until_ready()
    assert run.stop() < 20
    assert not processes_of(run.person.folder)


@as_self
def test_a_second_start_on_the_same_folder_is_refused(run):
    run.person.have_started_before()
    run.start().until_ready()
    second = Run(run.person).start()
    second.wait_ended()
    assert second.process.returncode == 1
    assert f"already runs on {run.person.var} (process {run.process.pid})" in second.output


@as_self
@pytest.mark.parametrize(("name", "setting"), [("port", "AWMWEB_PORT"), ("env_port", "AWMENV_PORT")])
def test_a_port_in_use_names_the_setting_before_anything_starts(run, name, setting):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        run.start(**{name: taken.getsockname()[1]}).wait_ended()
    assert run.process.returncode == 1
    assert setting in run.output and str(taken) not in run.output
    assert not (run.person.var / "postgres").exists()


@as_self
def test_failing_service_shows_its_log_and_stops_startup(run):
    run.person.have_started_before()
    run.environment = {"STAND_IN_WEB_FAILS": "1"}
    run.start().wait_ended()
    assert run.process.returncode == 1
    assert "no module named nothing" in run.output and "web keeps exiting" in run.output
    assert str(run.person.var / "logs" / "web.log") in run.output


@as_self
def test_a_failed_preparation_ends_the_start_with_its_reason(run):
    run.person.have_started_before()
    run.environment = {"STAND_IN_PREPARE_FAILS": "1"}
    run.start().wait_ended()
    assert run.process.returncode == 1
    assert "the migration is broken" in run.output and "could not be prepared" in run.output


@as_self
def test_web_waits_for_the_migrations_and_ends_with_a_stop(run):
    run.person.have_started_before()
    run.environment = {"STAND_IN_PREPARE_HANGS": "1"}
    run.start()
    wait_until(lambda: "packs: none" in run.output, 60, "the preparation")
    assert set(run.pids()) == {"postgres", "valkey", "web"}
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", run.port), 5)
    assert run.stop() < 20 and not processes_of(run.person.folder)


@pytest.mark.parametrize(("word", "code", "said"), [("open", 0, "went on"), ("close", 1, "The supervisor ended")])
def test_child_goes_on_if_its_gate_opens_and_ends_if_it_closes(own_folder, word, code, said):
    """Though it ignores SIGTERM, as uvicorn does while it loads the application."""
    ignoring = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    waiting = f"{ignoring}; from awmweb.embedded import gate; print('waits', flush=True); gate.wait(); print('went on')"
    door, log = StartGate(), own_folder / "child.log"
    spec = processes.Spec("child", [sys.executable, "-c", waiting], log, ROOT, {"PATH": os.environ["PATH"]})
    child = processes.ChildProcess.start(spec, door)
    wait_until(lambda: "waits" in log.read_text(), 60, "the child at its gate")
    child.send(signal.SIGTERM)
    assert child.running
    getattr(door, word)()
    assert child.process.wait(60) == code and said in log.read_text()


def answered_by(run, count):
    """Return the pids of the web processes that answer this many connections in turn."""
    address = f"http://127.0.0.1:{run.port}/"
    return {int(httpx.get(address, timeout=60).text) for _ in range(count)}


@as_self
def test_port_stays_open_while_web_processes_are_killed(run):
    """One is killed, and the other one answers; both are killed, and requests wait for new ones. None is refused."""
    run.person.have_started_before()
    run.start(web_processes=2).until_ready()
    before = run.pids()
    assert set(before) == NAMES | {"web-2"} and not (run.person.var / "logs" / "web-2.log").exists()
    psutil.Process(before["web"]).kill()
    answers = answered_by(run, 20)
    wait_until(lambda: "web restarted" in run.output, 60, "news of web")
    assert answers <= {before["web-2"], run.pids()["web"]}
    killed = {run.pids()[name] for name in ("web", "web-2")}
    for pid in killed:
        psutil.Process(pid).kill()
    assert not answered_by(run, 1) & killed
    assert run.stop() < 20
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", run.port), 5)


@as_self
@pytest.mark.long
def test_process_stopped_by_a_signal_is_replaced(run):
    run.person.have_started_before()
    run.start().until_ready()
    before = run.pids()["rollouts"]
    psutil.Process(before).suspend()
    wait_until(lambda: run.pids().get("rollouts", before) != before, 120, "a new process")
    assert "rollouts was stopped by a signal for 20 s" in run.output


@as_self
def test_external_servers_replace_the_embedded_ones(run):
    run.start(external_database=True, external_queue=True).until_ready()
    assert set(run.pids()) == NAMES - {"postgres", "valkey"}
    assert not (run.person.var / "postgres").exists()


@as_self
def test_services_of_another_machine_are_left_out(run):
    run.start(without=["beat", "env"]).until_ready()
    assert set(run.pids()) == NAMES - {"beat", "env"}


@as_self
def test_the_environment_server_sees_no_secret_but_its_own(run):
    secrets = {"DATABASE_URL": "postgres://a:b@c/d", "AWMWEB_EXPERT_API_KEY": "expert", "OPENAI_API_KEY": "other"}
    run.environment = secrets | {"AWMENV_JUDGE_API_KEY": "judge"}
    run.start(external_database=True).until_ready()
    seen = json.loads(Path(run.person.folder / "seen-by-env.json").read_text())
    assert seen["AWMENV_JUDGE_API_KEY"] == "judge"
    assert not set(secrets) & set(seen)
    assert not [name for name in seen if name.startswith("AWMWEB_")]


@as_self
def test_a_public_address_is_the_one_that_is_printed(run):
    run.person.have_started_before()
    run.start(public_url="https://awm.example.org").until_ready()
    assert run.lines[-1] == "awmweb ready: https://awm.example.org/login/once/abc"


@proves("docs/team.md", "[Unit]\nWants")
def test_documented_unit_starts_and_ends_the_product(block, tmp_path):
    unit = configparser.ConfigParser()
    unit.optionxform = str
    unit.read_string(block.text)
    service = unit["Service"]
    program, *words = service["ExecStart"].removeprefix(f"{service['WorkingDirectory']}/").split()
    assert (program, words) == (".venv/bin/python", ["manage.py", "up"]) and (ROOT / words[0]).exists()
    # the supervisor ends its services itself, one after the other, and takes up to 20 s
    assert service["KillMode"] == "mixed" and int(service["TimeoutStopSec"]) > 20
    if (checker := shutil.which("systemd-analyze")) is None:
        pytest.skip("systemd-analyze is not installed here")
    # with the checkout and the account of this machine; it only warns of a key that it does not know
    file = tmp_path / "awmweb.service"
    python = Path(service["WorkingDirectory"]) / program
    here = {str(python): sys.executable, service["WorkingDirectory"]: str(ROOT), "User=awmweb": "User=root"}
    text = block.text
    for old, new in here.items():
        assert old in text
        text = text.replace(old, new)
    file.write_text(text)
    done = subprocess.run([checker, "verify", "--man=no", file], capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_a_log_stays_small_and_its_writer_goes_on(own_folder):
    log = own_folder / "web.log"
    with log.open("ab", buffering=0) as writer:
        writer.write(b"x" * (processes.LOG_LIMIT + 1))
        processes.rotate(log)
        writer.write(b"after\n")
    assert log.read_bytes() == b"after\n"
    assert (own_folder / "web.log.1").stat().st_size == processes.LOG_LIMIT + 1


def test_restart_pauses_double_to_30_s_and_reset():
    kept = Kept("web", Path("web.log"), lambda: None)
    pauses = []
    for kept.deaths in range(1, 10):
        pauses.append(kept.pause())
    assert pauses == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]

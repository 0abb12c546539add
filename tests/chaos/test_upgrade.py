"""An ask that is answered two days later, under newer code, lets its episode finish and verify."""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
from datetime import UTC, datetime, timedelta

import pytest

from tests.commands import ROOT
from tests.running import product, until

pytest.importorskip("time_machine")
RELEASE = "0.2.0"
WAIT = timedelta(days=2)
LATER = f"""
import time
import time_machine
time_machine.travel(time.time() + {WAIT.total_seconds()}, tick=True).start()
"""
# The commit that set the release's number is older than the folders of its tag, so both layouts can be met
LAUNCH = """
try:
    from people.access import system_actor
    from runs.launch import launching
    from runs.launch.launching import LaunchRequest
except ImportError:
    from people.members import house_actor as system_actor
    from runs import launching
    from runs.launching import Start as LaunchRequest
policy = launching.policy_named("script:demo") | {"ask_deadline_s": 2592000}
task = launching.task_text("helpdesk_1", 1)
start = LaunchRequest("helpdesk_1", 1, task, policy, expert="plain")
launching.launch(system_actor("demo"), "waits", [start])
"""
LOOK = """
import json
from episodes.models import Episode, VerifierOutcome
try:
    from episodes.visible.trajectory import steps_of
except ImportError:
    from episodes.trajectory import steps_of
one = Episode.objects.get(run__name="waits")
reward = list(VerifierOutcome.objects.filter(episode=one).values_list("reward", flat=True))
said = {"id": one.pk, "state": one.state, "attempt": one.attempt, "reward": reward, "steps": steps_of(one)}
print("SEEN", json.dumps(said))
"""


def git(*words, text=True):
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=text, check=False)


def released():
    """The tag of the release, or in a clone without tags the commit that set its number."""
    if git("rev-parse", "--git-dir").returncode:
        pytest.skip("this copy of the code has no history to take the release from")
    tag = git("rev-parse", "--verify", "--quiet", f"refs/tags/v{RELEASE}^{{commit}}").stdout.split()
    number = f'-Sversion = "{RELEASE}"'
    return (tag or git("log", "--format=%H", "--reverse", number, "--", "pyproject.toml").stdout.split())[0]


def earlier(folder):
    """Unpack the release into a folder."""
    packed = git("archive", released(), text=False)
    assert packed.returncode == 0, packed.stderr
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def seen(house):
    return json.loads(house.manage("shell", "-c", LOOK).split("SEEN", 1)[1])


def clocks(steps):
    marks = [(step.get("meta") or {}).get("world") for step in steps if step["kind"] == "tool_call"]
    return [mark["clock"] for mark in marks]


@pytest.mark.chaos
def test_an_ask_is_answered_two_days_and_an_upgrade_later(tmp_path):
    tmp_path.chmod(0o711)
    var, later = tmp_path / "var", tmp_path / "later"
    var.mkdir()
    later.mkdir()
    (later / "sitecustomize.py").write_text(LATER)
    with product(var, code=earlier(tmp_path / "code"), AWMWEB_HEARTBEAT_S="90", AWMWEB_PARK_AFTER_S="1") as house:
        house.manage("shell", "-c", LAUNCH)
        until(lambda: seen(house)["state"] == "parked", 120, 0.5)
        before = seen(house)
    with product(var, AWMWEB_HEARTBEAT_S="90", AWMWEB_PARK_AFTER_S="1", PYTHONPATH=str(later)) as house:
        expert = house.http(house.token("expert"))
        (ask,) = expert.get("/asks?status=open").json()["asks"]
        assert seen(house)["state"] == "parked"
        lease = expert.post(f"/asks/{ask['id']}/claim", json={}).json()
        said = {"lease_token": lease["lease_token"], "text": "Priya.", "nonce": "n"}
        assert expert.post(f"/assignments/{lease['assignment']}/answer", json=said).status_code == 200
        until(lambda: seen(house)["reward"], 120, 0.5)
        after = seen(house)
        told = house.manage("certify", "--episode", after["id"])
    asked = len(before["steps"])
    assert (after["state"], after["attempt"], after["reward"]) == ("finished", 2, [1.0])
    assert after["steps"][: asked - 1] == before["steps"][:-1]
    assert before["steps"][-1]["kind"] == "ask" and after["steps"][asked - 1]["advice"]["text"] == "Priya."
    at = [datetime.fromisoformat(step["at"]) for step in after["steps"]]
    assert at[asked] - at[asked - 1] > WAIT - timedelta(hours=1) and at[-1] > datetime.now(UTC) + timedelta(days=1)
    world = clocks(after["steps"])
    assert world[-1] - world[0] < timedelta(hours=1).total_seconds() * 1000  # its time stands while it waits
    assert "1 exact, 0 refused" in told
    print(f"answered after {at[asked] - at[asked - 1]}, begun by {RELEASE}: {len(at)} steps, verified, certified exact")

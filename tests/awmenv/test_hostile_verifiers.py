# ruff: noqa: E501 - hostile code reads best unbroken
"""Every attack works against plain exec, so that it has teeth, and none against `run_verifier`."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import to_json

from awmenv.server.settings import Settings
from awmenv.server.verifier import VerifierPool, verdict
from tests.awmenv.arena import NAME, SECRET, Arena, arena_in, breaches
from tests.awmenv.attacks import ATTACKS, ENDINGS, FORGERIES, LOOKING, VALUES, Attack

pytestmark = [pytest.mark.attack("verifiers"), pytest.mark.long]

TIMEOUT_S = 3.0


@pytest.fixture
def arena(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Arena]:
    monkeypatch.setenv(NAME, SECRET)
    with arena_in(tmp_path / "arena") as made:
        yield made


@pytest.fixture(scope="module")
def verifiers() -> Iterator[VerifierPool]:
    house = VerifierPool(Settings(verifier_timeout_s=TIMEOUT_S))
    house.start()
    yield house
    house.stop()


PLAIN = """
import json, sys
code, initial, final = json.load(sys.stdin)
namespace = {"__name__": "__verifier__"}
exec(compile(code, "<verifier>", "exec"), namespace)
print(json.dumps(namespace["verify_task_completion"](initial, final)))
"""


def plainly(code: str, databases: tuple[str, str], timeout_s: float = 20) -> str:
    """A runner without walls."""
    done = subprocess.run(
        [sys.executable, "-c", PLAIN],
        input=json.dumps([code, *databases]),
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_an_attack_breaches_plain_exec_and_not_the_sandbox(
    arena: Arena, verifiers: VerifierPool, attack: Attack
) -> None:
    if attack in LOOKING and not verifiers.zygote.probes["no_looking"]:
        pytest.skip("no namespace of mounts here")
    code, before = arena.code(attack), arena.print_of()
    result = verdict(verifiers, code, "code", *arena.databases(), None)
    time.sleep(0.02) if arena.contacts else None
    assert breaches(arena, json.dumps(result), before) == []
    assert result["result"] == "others"
    said = plainly(code, arena.databases())
    _let_contacts_arrive(arena, attack)
    assert breaches(arena, said, before) != [], said


def _let_contacts_arrive(arena: Arena, attack: Attack) -> None:
    """The listener's thread, and the victim's death, may come a moment after the attacker has gone."""
    ends = time.monotonic() + 2
    contacts = ("tcp", "udp", "unix_socket", "http", "datagram_of_a_pair", "datagram_by_sendmsg")
    waits = attack.name in (*contacts, "kill", "pidfd", "ctypes_kill")
    while waits and time.monotonic() < ends:
        if arena.contacts or (arena.victim is not None and arena.victim.poll() is not None):
            return
        time.sleep(0.01)


@pytest.mark.parametrize(("name", "body"), FORGERIES, ids=[name for name, _body in FORGERIES])
def test_forged_outcome_of_a_failed_verifier_run_is_ignored(
    arena: Arena, verifiers: VerifierPool, name: str, body: str
) -> None:
    code = f"def verify_task_completion(a, b, c=None):\n    {body}\n    return {{'result': 'others'}}\n"
    assert "complete" in plainly(code, arena.databases()).splitlines()[0]
    result = verdict(verifiers, code, "code", *arena.databases(), None)
    assert (result["result"], result["execution_status"]) == ("others", "error")


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("mode", ["code", "sql"])
def test_no_value_is_an_error_in_the_host_or_taken_for_success(
    arena: Arena, verifiers: VerifierPool, name: str, mode: str
) -> None:
    function = "verify_task_completion" if mode == "code" else "verify_task"
    code = f"def {function}(a, b, c=None):\n    return {VALUES[name]}\n"
    result = verdict(verifiers, code, mode, *arena.databases(), None)
    assert result["result"] == "others"
    text = json.dumps(result, allow_nan=False)
    text.encode("utf-8")
    assert len(text) < 2_000_000


@pytest.mark.parametrize("name", ENDINGS)
def test_whatever_does_not_end_or_ends_badly_is_an_error_in_time(
    arena: Arena, verifiers: VerifierPool, name: str
) -> None:
    code = f"def verify_task_completion(a, b, c=None):\n    {ENDINGS[name]}\n    return {{'result': 'complete'}}\n"
    started = time.monotonic()
    result = verdict(verifiers, code, "code", *arena.databases(), None)
    assert time.monotonic() - started < 10 * TIMEOUT_S
    assert (result["result"], result["execution_status"]) == ("others", "error")
    assert "root:" not in str(result["error_message"])


@pytest.mark.parametrize("where", ["stdout", "descriptor"])
def test_a_flood_is_cut_off_and_costs_the_host_nothing(arena: Arena, verifiers: VerifierPool, where: str) -> None:
    line = {"stdout": "print('x' * 1000000)", "descriptor": "__import__('os').write(3, b'x' * 1000000)"}[where]
    code = f"def verify_task_completion(a, b, c=None):\n    for _ in range(64): {line}\n    return {{'result': 'complete'}}\n"
    result = verdict(verifiers, code, "code", *arena.databases(), None)
    assert result["execution_status"] == ("success" if where == "stdout" else "error")
    assert len(json.dumps(result)) < 10_000


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("'x' * 300_000", "256 KiB"),
        ("[[]] * 30_000", "too large"),
        ("[list(range(200))] * 150", "too large"),
        ("'x' * 200_000", None),
        ("[[]] * 15_000", None),
    ],
)
def test_a_result_that_would_hold_up_the_server_is_refused(
    arena: Arena, verifiers: VerifierPool, value: str, reason: str | None
) -> None:
    code = f"def verify_task_completion(a, b, c=None):\n    return {{'result': 'others', 'x': {value}}}\n"
    result = verdict(verifiers, code, "code", *arena.databases(), None)
    assert reason in str(result["error_message"]) if reason else result["execution_status"] == "success"


@pytest.mark.parametrize("code", ["x" * 300_000, "(" * 50_000, "def f(:", "\0", "import nothing_of_the_kind", "\ud800"])
def test_code_that_cannot_be_run_is_an_error(arena: Arena, verifiers: VerifierPool, code: str) -> None:
    result = verdict(verifiers, code, "code", *arena.databases(), None)
    assert (result["result"], result["execution_status"]) == ("others", "error")


BY_HAND = """
import os, sys
def verify_task_completion(a, b, c=None):
    frame = sys._getframe()
    while "nonce" not in (frame.f_locals.get("request") or ()):
        frame = frame.f_back
    body = '{"nonce": "%s", %s}' % (frame.f_locals["request"]["nonce"], REST)
    os.write(3, len(body).to_bytes(4, "big") + body.encode())
    os._exit(0)
"""


@pytest.mark.parametrize(
    "rest",
    [
        '"ok": true, "value": {"result": "others", "x": "\\ud800"}',
        '"ok": true, "value": {"result": "others", "x": ' + "[" * 300 + "]" * 300 + "}",
        '"ok": true, "value": {"result": "others", "x": 1' + "0" * 4000 + "}",
        '"ok": true, "value": {"result": "others", "x": [' + "[]," * 50_000 + "[]]}",
        '"ok": false, "error": "\\ud800"',
    ],
    ids=["surrogate", "deep", "huge_number", "many", "error"],
)
def test_frame_written_by_a_verifier_can_be_forwarded(arena: Arena, verifiers: VerifierPool, rest: str) -> None:
    result = verdict(verifiers, f"REST = {rest!r}\n{BY_HAND}", "code", *arena.databases(), None)
    assert "nonce" not in str(result["error_message"]), "the frame was found"
    assert to_json(result)
    assert result["result"] == "others"


def test_an_answer_of_the_greatest_length_is_read_in_any_script(arena: Arena, verifiers: VerifierPool) -> None:
    code = "def verify_task_completion(a, b, c=None):\n    return {'result': 'complete', 'n': len(c)}\n"
    result = verdict(verifiers, code, "code", *arena.databases(), "\U0001f600" * (1 << 20))
    assert result["raw_result"] == {"result": "complete", "n": 1 << 20}


POISON = """
import builtins, json, sqlite3, sys, os, atexit, gc
sqlite3.connect = lambda *a, **k: 1 / 0
json.dumps = lambda *a, **k: 'poison'
builtins.open = None
sys.modules['re'] = None
os.environ['POISON'] = '1'
atexit.register(lambda: os.write(3, b'poison'))
def verify_task_completion(a, b, c=None):
    return {"result": "others"}
"""
NEXT = """
import json, os, re, sqlite3
def verify_task_completion(a, b, c=None):
    n = sqlite3.connect(b).execute("select count(*) from t").fetchone()[0]
    clean = json.dumps([n]) == "[1]" and "POISON" not in os.environ and re.match("a", "a")
    return {"result": "complete" if clean else "others"}
"""


def test_one_run_leaves_no_poison_for_the_next(arena: Arena, verifiers: VerifierPool) -> None:
    for _time in range(3):
        verdict(verifiers, POISON, "code", *arena.databases(), None)
        assert verdict(verifiers, NEXT, "code", *arena.databases(), None)["result"] == "complete"


def test_nothing_of_a_run_outlives_it(arena: Arena, verifiers: VerifierPool) -> None:
    for attack in ATTACKS[:3]:
        verdict(verifiers, arena.code(attack), "code", *arena.databases(), None)
    children = Path(f"/proc/{verifiers.zygote.pid}/task/{verifiers.zygote.pid}/children").read_text().split()
    assert children == []
    assert [path.name for path in verifiers.workplace.path.iterdir() if path.name.startswith("run-")] == []


def test_two_runs_at_once_do_not_disturb_each_other(arena: Arena, verifiers: VerifierPool) -> None:
    results: list[dict[str, Any]] = []
    code = "import time\ndef verify_task_completion(a, b, answer):\n    time.sleep(0.05)\n    return {'result': 'complete', 'a': answer}\n"
    threads = [
        threading.Thread(
            target=lambda n=n: results.append(verdict(verifiers, code, "code", *arena.databases(), str(n)))
        )
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(result["raw_result"]["a"] for result in results) == [str(n) for n in range(8)]

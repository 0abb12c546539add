# ruff: noqa: E501 - one case a line reads best here
"""Honest verifiers, some of them odd, as real rows have them: each must work behind the walls."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from awmenv.server.settings import Settings
from awmenv.server.verifier import VerifierPool, run_verifier, verdict
from tests.awmenv.conftest import OpenFolders

NAMED = "def verify_task_completion(initial_db_path, final_db_path, final_answer=None):\n"
COUNT = "    import sqlite3\n    c = sqlite3.connect(final_db_path)\n    n = c.execute('select count(*) from t').fetchone()[0]\n"
DONE = "    return {'result': 'complete' if n == 2 else 'others'}\n"

HONEST = {
    "plain": NAMED + COUNT + DONE,
    "future_annotations": "from __future__ import annotations\n" + NAMED + COUNT + DONE,
    "imports_sys_and_os": "import sys, os\n" + NAMED + COUNT + "    n = n if os.path.exists(final_db_path) and sys.version else 0\n" + DONE,
    "dataclass_under_future": "from __future__ import annotations\nfrom dataclasses import dataclass\n@dataclass\nclass R:\n    n: int\n"
    + NAMED + COUNT + "    n = R(n).n\n" + DONE,
    "main_guard_stays_off": NAMED + COUNT + DONE + "if __name__ == '__main__':\n    raise SystemExit(1)\n",
    "prints_a_lot": NAMED + "    print('looking', '\\ud800', {'result': 'others'})\n" + COUNT + DONE,
    "reads_uri": NAMED + "    import sqlite3\n    c = sqlite3.connect(f'file:{final_db_path}?mode=ro', uri=True)\n"
    "    n = c.execute('select count(*) from t').fetchone()[0]\n    c.close()\n" + DONE,
    "attaches_the_other": NAMED + COUNT + "    c.execute('ATTACH ? AS old', (initial_db_path,))\n"
    "    n = n + c.execute('select count(*) from old.t').fetchone()[0] - 1\n" + DONE,
    "rows_as_dicts": NAMED + "    import sqlite3\n    c = sqlite3.connect(final_db_path)\n    c.row_factory = sqlite3.Row\n"
    "    n = len([dict(r) for r in c.execute('select * from t')])\n" + DONE,
    "temp_table": NAMED + COUNT + "    c.execute('create temp table w(a)')\n    c.execute('insert into w select x from t')\n"
    "    n = c.execute('select count(*) from w').fetchone()[0]\n" + DONE,
    "recursive_query": NAMED + COUNT + "    n = c.execute('with recursive r(i) as (select 1 union all select i+1 from r where i<2) "
    "select max(i) from r').fetchone()[0]\n" + DONE,
    "zone_and_dates": NAMED + COUNT + "    from datetime import datetime\n    from zoneinfo import ZoneInfo\n"
    "    assert datetime(2026, 1, 1, tzinfo=ZoneInfo('Europe/Berlin')).utcoffset().seconds == 3600\n"
    "    assert datetime.strptime('2026-01-02', '%Y-%m-%d').day == 2\n" + DONE,
    "decimals": NAMED + COUNT + "    from decimal import Decimal\n    assert Decimal('1.10') + 1 == Decimal('2.10')\n" + DONE,
    "regex_and_json": NAMED + COUNT + "    import re, json\n    assert json.loads(re.sub('a', '1', '[a]')) == [1]\n" + DONE,
    "csv_and_text_buffers": NAMED + COUNT + "    import csv, io\n    assert list(csv.reader(io.StringIO('a,b'))) == [['a', 'b']]\n" + DONE,
    "enum_and_namedtuple": "import enum, typing\nclass K(enum.Enum):\n    A = 2\nclass P(typing.NamedTuple):\n    n: int\n"
    + NAMED + COUNT + "    n = P(n).n if K.A.value == 2 else 0\n" + DONE,
    "collections_and_itertools": NAMED + COUNT + "    import collections, itertools, functools, statistics, hashlib, math, uuid\n"
    "    assert collections.Counter('aa')['a'] == 2 and statistics.mean([1, 3]) == 2 and hashlib.sha256(b'').hexdigest()\n" + DONE,
    "other_parameter_names": "def verify_task_completion(before, after, answer):\n    import sqlite3\n"
    "    n = sqlite3.connect(after).execute('select count(*) from t').fetchone()[0]\n" + DONE,
    "two_parameters": "def verify_task_completion(a, b):\n    import sqlite3\n"
    "    n = sqlite3.connect(b).execute('select count(*) from t').fetchone()[0]\n" + DONE,
    "star_arguments": "def verify_task_completion(*args, **kwargs):\n    import sqlite3\n"
    "    n = sqlite3.connect(args[1]).execute('select count(*) from t').fetchone()[0]\n" + DONE,
    "swapped_names": "def verify_task_completion(final_db_path, initial_db_path, final_answer=None):\n    import sqlite3\n"
    "    n = sqlite3.connect(final_db_path).execute('select count(*) from t').fetchone()[0]\n" + DONE,
    "another_name": "def verify_the_thing(initial_db_path, final_db_path, final_answer=None):\n" + COUNT + DONE,
    "a_callable_object": "class V:\n    def __call__(self, a, b, c=None):\n        return {'result': 'complete'}\nverify_task_completion = V()\n",
    "a_lambda": "verify_task_completion = lambda initial_db_path, final_db_path, final_answer=None: {'result': 'complete'}\n",
    "backup_to_memory": NAMED + "    import sqlite3\n    m = sqlite3.connect(':memory:')\n    sqlite3.connect(final_db_path).backup(m)\n"
    "    n = m.execute('select count(*) from t').fetchone()[0]\n" + DONE,
    "opens_twice_and_never_closes": NAMED + COUNT + COUNT.replace("    import sqlite3\n", "") + DONE,
    "nan_beside_the_verdict": NAMED + "    return {'result': 'complete', 'score': float('nan'), 'rows': {(1, 2): {3}}, 'raw': b'x'}\n",
    "handles_its_own_errors": NAMED + "    try:\n        open('/etc/hostname')\n    except Exception:\n        pass\n" + COUNT + DONE,
    "match_statement": NAMED + COUNT + "    match n:\n        case 2:\n            return {'result': 'complete'}\n    return {'result': 'others'}\n",
    "globals_and_helpers": "LIMIT = 2\ndef helper(path):\n    import sqlite3\n    return sqlite3.connect(path).execute('select count(*) from t').fetchone()[0]\n"
    + NAMED + "    n = helper(final_db_path) if LIMIT == 2 else 0\n" + DONE,
}  # fmt: skip


@pytest.fixture(scope="module")
def databases(tmp_path_factory: OpenFolders) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("odd")
    for name, rows in (("initial.db", 1), ("final.db", 2)):
        connection = sqlite3.connect(folder / name)
        connection.execute("CREATE TABLE t (x)")
        connection.executemany("INSERT INTO t VALUES (?)", [(n,) for n in range(rows)])
        connection.commit()
        connection.close()
    return str(folder / "initial.db"), str(folder / "final.db")


@pytest.fixture(scope="module")
def verifiers() -> Iterator[VerifierPool]:
    house = VerifierPool(Settings())
    yield house
    house.stop()


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_verifier_works(verifiers: VerifierPool, databases: tuple[str, str], name: str) -> None:
    result = verdict(verifiers, HONEST[name], "code", *databases, None)
    assert (result["result"], result["error_message"]) == ("complete", None)
    assert result["tier"] == "strict"


def test_sql_form_gives_its_evidence(verifiers: VerifierPool, databases: tuple[str, str]) -> None:
    code = "def verify_task(initial_db_path, final_db_path):\n" + COUNT + "    return {'n': n}\n"
    result = verdict(verifiers, code, "sql", *databases, "never passed on")
    assert (result["raw_result"], result["execution_status"]) == ({"n": 2}, "success")


@pytest.mark.parametrize(
    ("given", "header", "wanted"),
    [
        (None, "final_answer=None", "None"),
        (None, "final_answer='default'", "'default'"),
        (None, "final_answer", "''"),
        ("42", "final_answer=None", "'42'"),
    ],
)
def test_the_final_answer_arrives_as_the_signature_expects_it(
    verifiers: VerifierPool, databases: tuple[str, str], given: str | None, header: str, wanted: str
) -> None:
    code = f"def verify_task_completion(initial_db_path, final_db_path, {header}):\n"
    code += "    return {'result': 'others', 'got': repr(final_answer)}\n"
    assert verdict(verifiers, code, "code", *databases, given)["raw_result"]["got"] == wanted


def test_run_verifier_standalone_leaves_databases_unchanged(databases: tuple[str, str]) -> None:
    before = [Path(path).read_bytes() for path in databases]
    result = run_verifier(HONEST["plain"], "code", *databases)
    assert set(result) >= {"result", "execution_status", "raw_result", "error_message", "tier", "duration_ms"}
    assert result["result"] == "complete"
    assert [Path(path).read_bytes() for path in databases] == before


@pytest.mark.parametrize(
    "arguments",
    [
        (HONEST["plain"], "code", "/nowhere/a.db", "/nowhere/b.db"),
        (HONEST["plain"], "nonsense", "a", "b"),
        (None, "code", "a", "b"),
        (HONEST["plain"], "code", "/", "/"),
        (HONEST["plain"], "code", "\0", "x"),
        (HONEST["plain"], "code", "/dev/zero", "/dev/zero"),
    ],
)
def test_run_verifier_never_raises(arguments: tuple[object, ...]) -> None:
    result = run_verifier(*arguments)  # type: ignore[arg-type]
    assert (result["result"], result["execution_status"]) == ("others", "error")
    assert result["error_message"]


def test_a_killed_zygote_is_replaced(verifiers: VerifierPool, databases: tuple[str, str]) -> None:
    import os
    import signal

    verdict(verifiers, HONEST["plain"], "code", *databases, None)
    first = verifiers.zygote.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)
    assert verdict(verifiers, HONEST["plain"], "code", *databases, None)["result"] == "complete"
    assert verifiers.zygote.pid != first


def test_below_the_minimum_tier_nothing_runs(databases: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    house = VerifierPool(Settings())
    house.start()
    try:
        house.zygote.tier = "none"
        result = verdict(house, HONEST["plain"], "code", *databases, None)
        assert result["execution_status"] == "error"
        assert "sandbox_missing" in result["error_message"]
    finally:
        house.stop()

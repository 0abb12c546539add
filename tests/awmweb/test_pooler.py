"""A pooler in transaction mode: which settings it needs, and the product through a real one with one session."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from django.conf import settings
from django.db import connection
from django.utils import timezone

from awmweb.embedded import paths
from awmweb.partitions import moving
from awmweb.variables import database
from tests.house import VAR
from tests.running import free_ports, until

ROOT = Path(__file__).resolve().parents[2]
URL = "postgres://awmweb:x@127.0.0.1:6432/awmweb"
ASK = """
import json, threading
import django
django.setup()
from django.db import connection, transaction
import awmweb.asgi
from django.conf import settings
from people.models import Project

said = {"options": settings.DATABASES["default"]["OPTIONS"].get("options", "")}
def rows(found):
    for _ in range(8):  # a statement would be prepared at its sixth time
        found.append([one.slug for one in Project.objects.filter(slug="shared").iterator(chunk_size=1)])
found = []
threads = [threading.Thread(target=rows, args=(found,)) for _ in range(4)]
[one.start() for one in threads], [one.join() for one in threads]
said["rows"], said["same"] = len(found), all(one == found[0] for one in found)
with connection.cursor() as cursor:
    cursor.execute("SELECT count(*) FROM pg_prepared_statements")
    said["prepared"] = cursor.fetchone()[0]
    cursor.execute("SHOW statement_timeout")
    said["limit"] = cursor.fetchone()[0]
with transaction.atomic(), connection.cursor() as cursor:
    cursor.execute("SELECT pg_advisory_xact_lock(7)")
with connection.cursor() as cursor:
    cursor.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")
    said["locks"] = cursor.fetchone()[0]
print(json.dumps(said))
"""


def test_pooled_connection_depends_on_no_session():
    plain, pooled = database(URL, "none"), database(URL, "transaction")
    assert (plain["OPTIONS"]["prepare_threshold"], plain["DISABLE_SERVER_SIDE_CURSORS"]) == (5, False)
    assert (pooled["OPTIONS"]["prepare_threshold"], pooled["DISABLE_SERVER_SIDE_CURSORS"]) == (None, True)
    assert pooled["OPTIONS"]["server_side_binding"] is True


def test_no_statement_takes_what_lasts_a_session():
    lasting = ("pg_advisory_lock", "pg_try_advisory_lock", "LISTEN ", "NOTIFY ", "TEMPORARY TABLE", "TEMP TABLE")
    found = [
        f"{file.relative_to(ROOT)}: {line.strip()}"
        for app in (
            "awmweb",
            "curriculum",
            "episodes",
            "experts",
            "exports",
            "imports",
            "notices",
            "people",
            "reviews",
            "runs",
        )
        for file in (ROOT / app).rglob("*.py")
        if file.relative_to(ROOT).as_posix() != "awmweb/partitions/moving.py"  # it refuses a pooler
        for line in file.read_text().splitlines()
        if any(word in line for word in lasting) and "ON COMMIT DROP" not in line
    ]
    assert found == []


def test_steps_are_not_moved_through_a_pooler(monkeypatch):
    monkeypatch.setattr(settings, "AWMWEB_POOLER", "transaction")
    with pytest.raises(moving.BehindPooler):
        moving.move(timezone.now(), to_partitions=True, say=print)


@pytest.mark.skipif(shutil.which("pgbouncer") is None, reason="PgBouncer is not installed")
@pytest.mark.django_db(transaction=True)
def test_product_works_through_one_shared_session(tmp_path_factory):
    here, known = paths.data_paths(VAR), paths.read_secrets(paths.data_paths(VAR))
    (port,) = free_ports(1)
    own = here.home / "pgbouncer.ini"
    server = f"host={here.sockets} dbname={settings.DATABASES['default']['NAME']} user=awmweb password={known.database}"
    written = (ROOT / "docs" / "proxy" / "pgbouncer.ini").read_text()
    for old, new in {
        "host=10.0.0.5 port=5432 dbname=awmweb": server,
        "listen_port = 6432": f"listen_port = {port}\nunix_socket_dir =",
        "auth_type = scram-sha-256": "auth_type = any",
        "auth_file = /etc/pgbouncer/userlist.txt": "",
        "default_pool_size = 40": "default_pool_size = 1",
    }.items():
        assert old in written
        written = written.replace(old, new)
    own.write_text(written)
    account = paths.account(here)
    if account:
        os.chown(own, account.uid, account.gid)
    by = {"user": account.uid, "group": account.gid, "extra_groups": []} if account else {}
    pooler = subprocess.Popen([shutil.which("pgbouncer"), "-q", str(own)], **by)
    try:
        url = f"postgres://awmweb:any@127.0.0.1:{port}/awmweb_web"

        def answers():
            try:
                return psycopg.connect(url, connect_timeout=2).close() is None
            except psycopg.OperationalError:
                return False

        until(answers, 20)
        asked = subprocess.run(
            [sys.executable, "-c", ASK],
            cwd=ROOT, capture_output=True, text=True, timeout=120,
            env=os.environ | {
                "DATABASE_URL": url, "AWMWEB_POOLER": "transaction", "DJANGO_SETTINGS_MODULE": "awmweb.settings",
            },
        )  # fmt: skip
        assert asked.returncode == 0, asked.stderr[-2000:]
        said = json.loads(asked.stdout)
        assert said == {"options": "", "rows": 32, "same": True, "prepared": 0, "limit": "15s", "locks": 0}
    finally:
        pooler.terminate()
        pooler.wait(10)
    assert connection.vendor == "postgresql"

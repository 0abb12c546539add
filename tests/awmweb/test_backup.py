"""A backup holds everything, and restoring it is all or nothing. The database is embedded, its content a few rows."""

import io
import json
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import pytest

from awmweb.embedded import EmbeddedError, backup, client_programs
from awmweb.embedded.paths import data_paths
from tests.awmweb.accounts import Person, as_self
from tests.examples import some_of

PROLOGUE = """
import os, sys
from pathlib import Path
from awmweb.embedded import backup, client_programs
from awmweb.embedded.paths import EmbeddedError, data_paths, urls
from awmweb.embedded.servers import found_or_started, running
KNOWN = {"people.0001_first", "people.0002_second"}
def target(var):
    return client_programs.database(urls(var).database, data_paths(var))
def save(var, file):
    with found_or_started(var):
        return backup.save(Path(file), target(var), data_paths(var), "1.2.3")
def restore(var, file, known=KNOWN, force=False):
    with found_or_started(var):
        return backup.restore(Path(file), target(var), data_paths(var), known, force)
def fill(var):
    with running(var):
        rows = target(var)
        rows.rows("CREATE TABLE django_migrations (app text, name text)")
        rows.rows("INSERT INTO django_migrations VALUES ('people', '0001_first'), ('people', '0002_second')")
        rows.rows("CREATE TABLE steps (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body jsonb NOT NULL)")
        rows.rows("INSERT INTO steps (body) SELECT jsonb_build_object('seq', n) FROM generate_series(1, 1000) n")
    (var / "media" / "ab").mkdir(parents=True)
    (var / "media" / "ab" / "abcd").write_bytes(bytes(range(256)) * 10)
    (var / "secret_key").write_text("the key")
def content(var):
    with found_or_started(var):
        return target(var).rows("SELECT count(*), sum((body->>'seq')::int) FROM steps")[0]
var, other = Path("var").absolute(), Path("other").absolute()
"""


def test_backup_restores_into_an_empty_folder(person):
    output = person.run(
        PROLOGUE
        + """
fill(var)
save(var, "saved.tar")
restore(other, "saved.tar")
print(content(other), (other / "secret_key").read_text(), len((other / "media/ab/abcd").read_bytes()))
save(other, "again.tar")
restore(var, "again.tar", force=True)
print(content(var))
with running(var):
    print(target(var).rows("INSERT INTO steps (body) VALUES ('{}') RETURNING id"))
"""
    )
    assert output.splitlines() == ["1000|500500 the key 2560", "1000|500500", "['1001']"]


@pytest.fixture(scope="module")
def made():
    """A folder with rows in `var`, their backup in `saved.tar`, and an empty database in `other`."""
    folder = Path(tempfile.mkdtemp(prefix="awm-", dir="/tmp"))
    folder.chmod(0o755)
    maker = Person(folder, sys.executable)
    for name in ("var", "other"):
        maker.have_started_before(name)
    maker.run(PROLOGUE + "fill(var); save(var, 'saved.tar')")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def saved(made, person):
    """Somebody with a copy of that folder."""
    subprocess.run(["cp", "-a", f"{made}/.", person.folder], check=True)
    return person


@pytest.mark.parametrize(
    ("host", "name"),
    [("db.example:5433", "db.example"), ("[2001:db8::5]:5433", "2001:db8::5"), ("%2Frun%2FPg:5433", "/run/Pg")],
)
def test_address_of_a_server_is_read(own_folder, host, name):
    found = client_programs.database(f"postgres://me:p%40ss@{host}/lab", data_paths(own_folder)).environment
    expected = {"PGHOST": name, "PGPORT": "5433", "PGUSER": "me", "PGPASSWORD": "p@ss", "PGDATABASE": "lab"}
    assert found == expected


@as_self
def test_the_file_is_private_and_says_what_is_in_it(saved):
    file = saved.folder / "saved.tar"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with tarfile.open(file) as archive:
        names = archive.getnames()
        manifest = json.load(archive.extractfile("manifest.json"))
    assert names == ["database.dump", "var/media/ab/abcd", "var/secret_key", "manifest.json"]
    assert manifest["version"] == "1.2.3" and manifest["postgres"].startswith("18")
    assert manifest["migrations"] == ["people.0001_first", "people.0002_second"]
    assert set(manifest["files"]) == set(names) - {"manifest.json"}
    assert not list(saved.folder.glob("*.unfinished"))


@as_self
def test_a_backup_is_taken_and_restored_while_everything_runs(saved):
    output = saved.run(
        PROLOGUE
        + """
import subprocess
with running(var):
    save(var, "saved.tar")
    target(var).rows("DELETE FROM steps")
    idle = subprocess.Popen([target(var).programs / "psql"], env={**os.environ, **target(var).environment}, stdin=-1)
    idle.stdin.write(b"BEGIN; LOCK TABLE steps;\\n")
    idle.stdin.flush()
    while target(var).rows("SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock'") == ["0"]:
        pass
    restore(var, "saved.tar", force=True)
    print(content(var))
    idle.stdin.close()
    idle.wait()
"""
    )
    assert output.splitlines()[-1] == "1000|500500"


def refused(person, code: str) -> str:
    """What the refusal said; fails if there was none."""
    return person.run(
        PROLOGUE
        + f"""
try:
    {code}
except EmbeddedError as error:
    print(error)
else:
    sys.exit("not refused")
"""
    )


@as_self
def test_data_is_not_overwritten_without_force(saved):
    assert "not empty" in refused(saved, "restore(var, 'saved.tar')")


@as_self
def test_a_backup_of_a_newer_version_is_refused_untouched(saved):
    assert "newer awmweb (1.2.3): unknown here is people.0002_second" in refused(
        saved, "restore(other, 'saved.tar', {'people.0001_first'})"
    )
    assert saved.run(PROLOGUE + "with running(other): print(target(other).rows(backup.TABLES))") == "['0']\n"


@as_self
def test_database_without_migrations_is_neither_saved_nor_loaded(saved):
    said = refused(saved, "save(other, 'empty.tar')")
    assert "The database has no migrations" in said and not list(saved.folder.glob("empty.tar*"))
    older = "found = iter([['a.0001'], []]); backup.migrations_of = lambda source: next(found)"
    saved.run(PROLOGUE + f"{older}; save(var, 'saved.tar')")
    said = refused(saved, "restore(other, 'saved.tar')")
    assert "is a backup of a database without migrations. Nothing was changed." in said
    assert not (saved.folder / "other" / "media").exists()


@as_self
@pytest.mark.parametrize("damage", some_of(["cut", "changed", "no tar"]))
def test_a_damaged_backup_changes_nothing(saved, damage):
    file = saved.folder / "saved.tar"
    data = bytearray(file.read_bytes())
    if damage == "cut":
        del data[len(data) // 2 :]
    elif damage == "changed":
        data[data.index(bytes(range(256)) * 3) + 7] ^= 1
    else:
        data[:] = b"not a tar"
    file.write_bytes(data)
    said = refused(saved, "restore(other, 'saved.tar')")
    assert "damaged" in said or "not a complete backup" in said
    assert not (saved.folder / "other" / "media").exists()


@pytest.mark.parametrize("name", ["../outside", "var/../../outside", "/tmp/outside", "other"])
def test_a_member_that_points_outside_the_folder_is_refused(own_folder, name):
    inside = own_folder / "inside"
    inside.mkdir()
    file = own_folder / "evil.tar"
    manifest = dict.fromkeys(backup.Manifest.__dataclass_fields__, "") | {"format": 1, "files": {name: {"sha256": ""}}}
    with tarfile.open(file, "w") as archive:
        archive.addfile(tarfile.TarInfo(name))
        text = json.dumps(manifest).encode()
        member = tarfile.TarInfo("manifest.json")
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text))
    with pytest.raises(EmbeddedError, match="not a complete backup: it holds"):
        backup._unpack(file, inside)
    assert not list(inside.iterdir()) and not (own_folder / "outside").exists()


@as_self
@pytest.mark.long
def test_a_restore_that_fails_half_way_leaves_the_old_data(saved):
    output = saved.run(
        PROLOGUE
        + """
original = backup.EMPTY_SCHEMA
backup.EMPTY_SCHEMA = original + "SELECT 1/0;"
with running(var):
    try:
        restore(var, "saved.tar", force=True)
    except EmbeddedError as error:
        print("division by zero" in str(error))
    print(content(var))
"""
    )
    assert output.splitlines() == ["True", "1000|500500"]


def refused_backup(saved, change):
    """What `save` says if this happened to its file, of which nothing may be left."""
    said = refused(saved, f"{change}; save(var, 'new.tar')")
    assert not list(saved.folder.glob("new.tar*"))
    return said


@as_self
def test_backup_that_lacks_a_row_is_refused(saved):
    change = "dumped = backup._dump; backup._dump = lambda *of: dumped(*of) | {'public.steps': 1001}"
    assert "public.steps had 1001 rows, and the file has 1000" in refused_backup(saved, change)


@as_self
@pytest.mark.long
def test_backup_that_the_disk_changed_is_refused(saved):
    change = (
        "spoil = lambda file: file.write_bytes(file.read_bytes().replace(b'the key', b'the kez')); "
        "check = backup.reading_back.check; "
        "backup.reading_back.check = lambda file, *of: (spoil(file), check(file, *of))"
    )
    assert "var/secret_key is not what was saved" in refused_backup(saved, change)


@as_self
@pytest.mark.long
def test_backup_counts_the_rows_of_its_own_moment(saved):
    output = saved.run(
        PROLOGUE
        + """
run = client_programs.Database.run
def busy(self, program, *rest, **options):
    done = run(self, program, *rest, **options)
    if program == "pg_dump":
        self.rows("INSERT INTO steps (body) VALUES ('{}')")
    return done
client_programs.Database.run = busy
manifest = save(var, "new.tar")
print(manifest.rows["public.steps"], content(var).split("|")[0])
"""
    )
    assert output.split() == ["1000", "1001"]

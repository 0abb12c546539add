"""A backup beside work that removes, adds and grows files: it is written, and a restore accepts it."""

from __future__ import annotations

import hashlib
import io
import tarfile

from awmweb.embedded import backup
from awmweb.embedded.paths import data_paths


class Server:
    """In the place of a database, of which only the version is asked here."""

    def server_version(self):
        return "18.1"

    def rows(self, query):
        return []


class Growing(io.BytesIO):
    """A file to which another process appends as soon as its size was asked."""

    def seek(self, place, whence=0):
        there = super().seek(place, whence)
        if whence == io.SEEK_END:
            self.write(b"later")
        return there


def written(var):
    out = io.BytesIO()
    backup._write(out, io.BytesIO(b"dump"), {}, Server(), data_paths(var), "1.2.3")
    out.seek(0)
    return tarfile.open(fileobj=out)


def test_file_that_is_erased_meanwhile_stops_no_backup(tmp_path, monkeypatch):
    (tmp_path / "files").mkdir()
    kept, gone = tmp_path / "files" / "kept", tmp_path / "files" / "gone"
    for path in (kept, gone):
        path.write_bytes(b"words")
    listed = backup._files

    def erased_after_the_listing(var):
        found = list(listed(var))
        gone.unlink()
        return iter(found)

    monkeypatch.setattr(backup, "_files", erased_after_the_listing)
    assert written(tmp_path).getnames() == ["database.dump", "var/files/kept", "manifest.json"]


def test_digest_is_of_the_bytes_that_were_saved():
    out, files = io.BytesIO(), {}
    with tarfile.open(fileobj=out, mode="w") as archive:
        backup._add(archive, "x", Growing(b"before"), files)
    out.seek(0)
    with tarfile.open(fileobj=out) as archive:
        saved = archive.extractfile("x").read()
    assert saved == b"before" and files["x"]["sha256"] == hashlib.sha256(saved).hexdigest()


def test_builds_in_work_are_in_no_backup(tmp_path):
    for name in ("exports/work/one/rows.jsonl", "exports/datasets/p/d/rows.jsonl"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_bytes(b"words")
    assert "var/exports/datasets/p/d/rows.jsonl" in written(tmp_path).getnames()
    assert not [name for name in written(tmp_path).getnames() if "work" in name]

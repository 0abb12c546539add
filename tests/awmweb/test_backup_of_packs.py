"""A backup holds loaded packs, which are links to the folders of their versions."""

from awmweb.embedded import backup


def test_loaded_packs_are_saved_and_restored_over_links(tmp_path):
    var, other, rows = tmp_path / "var", tmp_path / "other", "gen_tasks.jsonl"
    for root, text in ((var, "new"), (other, "old")):
        version = root / "packs" / ".versions" / "own" / text
        version.mkdir(parents=True)
        (version / rows).write_text(text)
        (root / "packs" / "own").symlink_to(f".versions/own/{text}")
    before = var / "packs" / ".versions" / "own" / "before"
    before.mkdir()
    (before / rows).write_text("before")
    (var / "packs" / "outside").symlink_to(tmp_path)
    saved = [path.relative_to(var).as_posix() for path in backup._files(var)]
    assert saved == [f"packs/.versions/own/before/{rows}", f"packs/own/{rows}"]
    unpacked = tmp_path / "unpacked"
    for name in saved:
        (unpacked / name).parent.mkdir(parents=True)
        (unpacked / name).write_text((var / name).read_text())
    backup._place(unpacked, other)
    assert (other / "packs" / "own" / rows).read_text() == "new"
    assert (other / "packs" / ".versions" / "own" / "old" / rows).read_text() == "old"

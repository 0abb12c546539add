"""Packs: what is indexed, joined, refused and reported."""

import asyncio
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from awmenv import indexes, packs
from awmenv.errors import PackError, UnknownScenario
from awmenv.models import MAX_TASKS, RESERVED_TOOLS, BuildReport, normalise_name
from awmenv.packs import Pack, load_pack
from awmenv.server.session.library import Library
from tests.awmenv.conftest import ROOT, TINY, OpenFolders

FILES = {
    "gen_scenario.jsonl": [{"name": "Shop 1", "description": "A shop."}],
    "gen_tasks.jsonl": [{"scenario": "shop_1", "tasks": ["Buy milk.", "Sell milk."]}],
    "gen_db.jsonl": [
        {
            "scenario": "shop_1",
            "db_schema": {"tables": [{"name": "t", "ddl": "CREATE TABLE t (a TEXT)", "indexes": []}]},
            "db_path": "x",
        }
    ],
    "gen_sample.jsonl": [{"scenario": "shop-1", "sample_data": {"tables": []}}],
    "gen_envs.jsonl": [{"scenario": "shop_1", "full_code": "app = 1"}],
    "gen_verifier.jsonl": [{"scenario": "shop_1", "task_idx": 0, "verification": {"code": "x", "raw_response": "{}"}}],
    "gen_verifier.pure_code.jsonl": [{"scenario": "shop_1", "task_idx": 0, "verification": {"code": "def v(): pass"}}],
}


def write(folder: Path, **changes: Any) -> Path:
    for name, rows in {**FILES, **changes}.items():
        if rows is not None:
            text = "".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows)
            (folder / name).write_text(text, encoding="utf-8")
    return folder


def changed(name: str, rows: Any) -> dict[str, Any]:
    return {name: rows}


def test_rows_match_their_scenario_across_name_spellings(tmp_path: Path) -> None:
    pack = load_pack(write(tmp_path))
    assert list(pack.scenarios) == ["shop_1"]
    assert pack.tasks("Shop  1") == ["Buy milk.", "Sell milk."]
    assert pack.scenario("SHOP-1").description == "A shop."
    assert pack.has_verifier("shop_1", 0) == {"sql": True, "code": True}
    assert pack.has_verifier("shop_1", 1) is None


def test_the_tiny_pack_is_clean() -> None:
    pack = load_pack(TINY)
    assert list(pack.scenarios) == ["lamps_1", "notes_1"]
    assert pack.report.findings == []
    assert pack.scripts("notes_1", 0)["oracle"][0]["call"]["name"] == "create_note"


def test_a_folder_without_rows_is_no_pack(tmp_path: Path) -> None:
    with pytest.raises(PackError):
        load_pack(tmp_path)


def test_an_unknown_scenario_is_said_by_name(tmp_path: Path) -> None:
    with pytest.raises(UnknownScenario, match="bakery"):
        load_pack(write(tmp_path)).scenario("bakery")


@pytest.mark.parametrize("broken", ["{not json\n", "[1, 2]\n", "null\n", "[" * 100_000 + "\n", '{"scenario": 5}\n'])
def test_invalid_row_is_reported_by_line_and_others_are_kept(tmp_path: Path, broken: str) -> None:
    rows = [broken, *FILES["gen_tasks.jsonl"]]
    pack = load_pack(write(tmp_path, **changed("gen_tasks.jsonl", rows)))
    assert list(pack.scenarios) == ["shop_1"]
    assert [(finding.file, finding.line) for finding in pack.report.errors] == [("gen_tasks.jsonl", 1)]


@pytest.mark.parametrize("missing", ["gen_tasks.jsonl", "gen_db.jsonl", "gen_envs.jsonl"])
def test_scenario_missing_a_row_is_rejected_with_reason(tmp_path: Path, missing: str) -> None:
    pack = load_pack(write(tmp_path, **changed(missing, None)))
    assert list(pack.rejected) == ["shop_1"]
    assert f"no row in {missing}" in pack.rejected["shop_1"].problems


@pytest.mark.parametrize("missing", ["gen_scenario.jsonl", "gen_sample.jsonl", "gen_verifier.jsonl"])
def test_other_gaps_are_told_and_tolerated(tmp_path: Path, missing: str) -> None:
    pack = load_pack(write(tmp_path, **changed(missing, None)))
    assert list(pack.scenarios) == ["shop_1"]
    assert any(finding.file == missing for finding in pack.report.warnings)


@pytest.mark.parametrize("name", sorted(RESERVED_TOOLS))
def test_a_scenario_with_a_reserved_tool_name_is_rejected(tmp_path: Path, name: str) -> None:
    rows = [{"scenario": "shop_1", "full_code": f'@app.get("/x", operation_id="{name}")\ndef x(): ...'}]
    pack = load_pack(write(tmp_path, **changed("gen_envs.jsonl", rows)))
    assert list(pack.scenarios) == []
    assert any(finding.code == "reserved_tool" and name in finding.message for finding in pack.report.errors)


def test_a_task_without_a_verifier_is_reported(tmp_path: Path) -> None:
    pack = load_pack(write(tmp_path))
    assert any(finding.code == "missing_verifier" and "task 1" in finding.message for finding in pack.report.warnings)


FAILING = BuildReport(3, 0, 2, 1, [], ["t: no such table: a", "t: no such table: b"])
SUMMARY = "2 of 3 SQL statements fail, first t: no such table: a"


def test_build_failures_reject_the_scenario_with_findings(tmp_path: Path) -> None:
    pack = load_pack(write(tmp_path))
    pack.note_build("shop_1", BuildReport(3, 1, 0, 1, ["t: backslash-escaped quotes: x"], []), playable=True)
    assert list(pack.scenarios) == ["shop_1"] and pack.scenario("shop_1").partial == ""
    pack.note_build("shop_1", FAILING, playable=False)
    assert pack.rejected["shop_1"].problems == [SUMMARY]
    said = [(one.level, one.code, one.scenario) for one in pack.report.findings if one.code.startswith("sql")]
    assert said == [("warning", "sql_repaired", "shop_1"), *[("error", "sql_failed", "shop_1")] * 2]


def test_scenario_with_failures_stays_partial_on_reload(tmp_path: Path) -> None:
    folder, cache = write(tmp_path), tmp_path / "cache"
    pack = load_pack(folder, cache=cache)
    pack.note_build("shop_1", FAILING, playable=True)
    assert pack.scenarios["shop_1"].partial == SUMMARY and pack.report.errors == []
    assert [one.code for one in pack.report.findings[-3:]] == ["sql_skipped", "sql_skipped", "partial"]
    pack.keep_builds(cache)
    assert load_pack(folder, cache=cache).scenarios["shop_1"].partial == SUMMARY
    assert load_pack(folder).scenarios["shop_1"].partial == ""
    write(folder, **changed("gen_sample.jsonl", None))
    (folder / "gen_sample.jsonl").unlink()
    assert load_pack(folder, cache=cache).scenarios["shop_1"].partial == "", "other files, another report"


def test_refused_scenario_is_not_kept_as_partial(tmp_path: Path) -> None:
    folder, cache = write(tmp_path), tmp_path / "cache"
    pack = load_pack(folder, cache=cache)
    pack.note_build("shop_1", FAILING, playable=False)
    pack.keep_builds(cache)
    assert load_pack(folder, cache=cache).builds == {}


# What a row of a few megabytes would become as Python objects, and how the report calls it.
SWOLLEN = {
    "tasks": ('{"scenario": "shop_1", "tasks": [%s]}', '"a"', "too_many"),
    "empty_lists": ('{"scenario": "shop_1", "tasks": ["x"], "more": [%s]}', "[]", "too_many"),
    "objects": ('{"scenario": "shop_1", "tasks": ["x"], "more": [%s]}', '{"":{}}', "too_many"),
    "numbers": ('{"scenario": "shop_1", "tasks": ["x"], "more": [%s]}', "1.5", "too_many"),
}
PEAK = """
import resource, sys
from awmenv.packs import load_pack
from awmenv.server.session.library import Library
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
pack = load_pack(sys.argv[1])
Library([sys.argv[1]])
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(sorted({one.code for one in pack.report.errors}), peak // 1024)
"""


@pytest.mark.attack("pack rows")
@pytest.mark.parametrize("kind", SWOLLEN)
def test_row_that_swells_in_memory_is_reported_before_it_does(tmp_path: Path, kind: str) -> None:
    row, value, code = SWOLLEN[kind]
    text = row % ",".join([value] * (20_000_000 // (len(value) + 1)))
    write(tmp_path, **changed("gen_tasks.jsonl", [text + "\n", *FILES["gen_tasks.jsonl"]]))
    done = subprocess.run([sys.executable, "-c", PEAK, str(tmp_path)], cwd=ROOT, capture_output=True, text=True)
    codes, _, peak_mb = done.stdout.rpartition(" ")
    assert codes == str([code]), done.stderr
    assert int(peak_mb) < 100, "a row of 20 MB is read whole, and no more"


def test_row_of_long_sql_text_with_many_commas_is_taken(tmp_path: Path) -> None:
    """Commas and brackets inside a text are no values."""
    inserts = [f"INSERT INTO t VALUES {'(1, 2, [3], {4}, ' * 2000}" for _ in range(300)]
    tables = {"tables": [{"table_name": "t", "insert_statements": inserts}]}
    pack = load_pack(write(tmp_path, **changed("gen_sample.jsonl", [{"scenario": "shop_1", "sample_data": tables}])))
    assert pack.report.errors == [] and len(pack.statements("shop_1")) == 301


def test_more_tasks_than_the_limit_are_a_bad_row(tmp_path: Path) -> None:
    rows = [{"scenario": "shop_1", "tasks": ["x"] * (MAX_TASKS + 1)}]
    pack = load_pack(write(tmp_path, **changed("gen_tasks.jsonl", rows)))
    assert [finding.code for finding in pack.report.errors] == ["bad_shape", "gap"]
    assert str(MAX_TASKS) in pack.report.errors[0].message and not pack.scenarios


def test_rows_and_findings_past_their_limits_are_counted_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("awmenv.rows.MAX_ROWS", 3)
    monkeypatch.setattr(packs, "MAX_FINDINGS", 4)
    write(tmp_path, **changed("gen_scenario.jsonl", ["{}\n"] * 3 + FILES["gen_scenario.jsonl"]))
    found = load_pack(tmp_path).report.findings
    assert [one.code for one in found] == ["no_name", "no_name", "no_name", "too_many", "more"]
    assert found[3].line == 4


def test_findings_show_no_control_characters_of_a_row(tmp_path: Path) -> None:
    rows = [{"scenario": "shop_1", "full_code": '@app.get("/", operation_id="verify")\ndef x(): ...'}]
    pack = load_pack(write(tmp_path, **changed("gen_envs.jsonl", rows)))
    pack.report.remark("error", "x", "\x1b]0;title\x07 two\nlines \u202e")
    assert all(one.message.isprintable() for one in pack.report.findings)


def test_rows_load_lazily_and_detect_a_changed_file(tmp_path: Path) -> None:
    pack = load_pack(write(tmp_path))
    (tmp_path / "gen_tasks.jsonl").write_text("nothing of the kind\n")
    with pytest.raises(PackError, match="changed since"):
        pack.tasks("shop_1")


def found(pack: Pack) -> Any:
    name = "shop_1"
    return (
        pack.index(),
        pack.tasks(name),
        pack.statements(name),
        pack.verifier(name, 0, "sql"),
        pack.has_verifier(name, 1),
    )


def test_saved_index_equals_a_fresh_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(tmp_path, **changed("gen_tasks.jsonl", ["{broken\n", *FILES["gen_tasks.jsonl"]]))
    first = load_pack(folder, cache=tmp_path / "cache")
    monkeypatch.setattr("awmenv.rows._lines", lambda *_: pytest.fail("the files were read again"))
    again = load_pack(folder, cache=tmp_path / "cache")
    assert found(again) == found(first) and again.report == first.report
    assert list(again.scenarios) == ["shop_1"]


@pytest.mark.parametrize("spoil", ["changed", "nonsense", "older"])
def test_an_index_that_holds_no_longer_is_made_anew(tmp_path: Path, spoil: str) -> None:
    folder, cache = write(tmp_path), tmp_path / "cache"
    load_pack(folder, cache=cache)
    (kept,) = (cache / "indexes").iterdir()
    if spoil == "changed":
        write(folder, **changed("gen_tasks.jsonl", [{"scenario": "shop_1", "tasks": ["Only this."]}]))
    else:
        older = kept.read_text().replace(f'"state":[{indexes.VERSION}', '"state":[0')
        kept.write_text("[" * 9 if spoil == "nonsense" else older)
    assert found(load_pack(folder, cache=cache)) == found(load_pack(folder))
    assert found(load_pack(folder, cache=cache)) == found(load_pack(folder))


def test_where_nothing_can_be_kept_a_pack_loads_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file stands in the way")
    assert list(load_pack(write(tmp_path), cache=tmp_path / "cache").scenarios) == ["shop_1"]


def test_too_long_row_is_cut_and_the_next_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("awmenv.rows.MAX_ROW_BYTES", 200)
    rows = [json.dumps({"scenario": "long_1", "tasks": ["x" * size]}) + "\n" for size in (150, 200, 1000, 3000)]
    pack = load_pack(write(tmp_path, **changed("gen_tasks.jsonl", [*rows, *FILES["gen_tasks.jsonl"]])))
    assert [(one.code, one.line) for one in pack.report.errors if one.line] == [("too_long", n) for n in (2, 3, 4)]
    assert pack.tasks("shop_1") == ["Buy milk.", "Sell milk."]


@settings(max_examples=60)
@given(lines=st.lists(st.one_of(st.binary(max_size=60), st.text(max_size=60).map(str.encode)), max_size=6))
def test_any_bytes_are_a_report_and_never_an_error(tmp_path_factory: OpenFolders, lines: list[bytes]) -> None:
    folder = tmp_path_factory.mktemp("any")
    for name in FILES:
        (folder / name).write_bytes(b"\n".join(lines))
    pack = load_pack(folder)
    assert not pack.scenarios


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)
FIELDS = ("tasks", "db_schema", "sample_data", "full_code", "verification", "task_idx", "name", "scripts", "about")


@settings(max_examples=100)
@given(row=st.fixed_dictionaries({}, optional=dict.fromkeys(FIELDS, JSON)))
def test_rows_of_any_shape_are_a_report_and_never_an_error(tmp_path_factory: OpenFolders, row: dict[str, Any]) -> None:
    folder = tmp_path_factory.mktemp("shape")
    for name in (*FILES, "scripts.jsonl"):
        (folder / name).write_text(json.dumps({"scenario": "a", "name": "a", **row}) + "\n")
    pack = load_pack(folder)
    for name in pack.scenarios:
        assert pack.tasks(name)
        assert all(isinstance(part, str) for pair in pack.statements(name) for part in pair)
        pack.scripts(name, 0)
        pack.verifier(name, 0, "code")


@given(st.text(max_size=30))
def test_normalising_twice_changes_nothing(name: str) -> None:
    assert normalise_name(normalise_name(name)) == normalise_name(name)


def test_pack_in_watched_folder_loads_with_task_numbers(tmp_path):
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "notes.jsonl").write_text("{}")
    library = Library([TINY], watched=[tmp_path])
    before = [library.place(index) for index in range(library.task_count)]
    assert asyncio.run(library.take_in()) == []
    own = tmp_path / "unfinished" / "own"
    own.mkdir(parents=True)
    for file in TINY.glob("*.jsonl"):
        renamed = file.read_text().replace("notes_1", "a_notes_1")
        (own / file.name).write_text(renamed)
    assert asyncio.run(library.take_in()) == []
    own.rename(tmp_path / "own")
    assert asyncio.run(library.take_in()) == ["own"]
    assert [library.place(index) for index in range(len(before))] == before
    assert [one["name"] for one in library.listed] == ["lamps_1", "notes_1", "a_notes_1"]
    assert asyncio.run(library.take_in()) == []


def test_scenario_is_found_as_soon_as_its_pack_is_loaded(tmp_path):
    library = Library([], watched=[tmp_path])
    shutil.copytree(TINY, tmp_path / "own")

    async def found_by_two():
        return await asyncio.gather(*(library.find_new("notes_1") for _ in range(2)))

    first, second = asyncio.run(found_by_two())
    assert first is second and first.name == "own"
    with pytest.raises(UnknownScenario, match="nowhere_1"):
        asyncio.run(library.find_new("nowhere_1"))


def own_copy(target, change=("", "")):
    target.mkdir(parents=True)
    for file in TINY.glob("*.jsonl"):
        (target / file.name).write_text(file.read_text().replace(*change))
    return target


def test_version_of_a_scenario_covers_all_of_its_rows(tmp_path):
    first = load_pack(TINY)
    same = load_pack(own_copy(tmp_path / "same"))
    assert same.digests == first.digests and same.digest == first.digest
    for number, file in enumerate(sorted(TINY.glob("*.jsonl"))):
        other = own_copy(tmp_path / f"other{number}")
        lines = file.read_text().splitlines(keepends=True)
        changed = [line.replace('"scenario": "notes_1"', '"scenario":  "notes_1"') for line in lines]
        changed = [line.replace('"name": "notes_1"', '"name":  "notes_1"') for line in changed]
        (other / file.name).write_text("".join(changed))
        found = load_pack(other)
        assert found.digests["lamps_1"] == first.digests["lamps_1"]
        assert found.digests["notes_1"] != first.digests["notes_1"], file.name
        assert found.digest != first.digest


def test_replaced_pack_is_taken_in_and_an_old_one_keeps_its_rows(tmp_path):
    versions, packs = tmp_path / "versions", tmp_path / "packs"
    old, new = own_copy(versions / "1"), own_copy(versions / "2", ("lamp", "bulb"))
    packs.mkdir()
    link = packs / "own"
    link.symlink_to(old)
    library = Library([], watched=[packs])
    before = library.find("notes_1")
    told = before.tasks("notes_1")
    link.unlink()
    link.symlink_to(new)
    assert asyncio.run(library.take_in()) == ["own"]
    assert library.find("bulbs_1").name == "own" and library.find("notes_1") is not before
    with pytest.raises(UnknownScenario):
        library.find("lamps_1")
    assert before.tasks("notes_1") == told
    link.unlink()
    assert asyncio.run(library.take_in()) == ["own"]
    assert library.listed == [] and library.task_count == 0


def test_scenario_stays_with_the_pack_that_had_it(tmp_path, caplog):
    own_copy(tmp_path / "zoo")
    library = Library([], watched=[tmp_path])
    own_copy(tmp_path / "ark")
    assert asyncio.run(library.take_in()) == ["ark"]
    assert {library.find(name).name for name in ("lamps_1", "notes_1")} == {"zoo"}
    assert "scenario lamps_1 of pack ark is left out: pack zoo has it" in caplog.text


def test_row_that_changed_under_a_pack_is_refused(tmp_path):
    folder = own_copy(tmp_path / "own")
    pack = load_pack(folder)
    file = folder / "gen_tasks.jsonl"
    file.write_text(file.read_text().replace("a", "b"))
    with pytest.raises(PackError, match="changed since it was indexed"):
        pack.tasks("notes_1")

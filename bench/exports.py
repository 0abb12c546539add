"""Exports of many steps: speed with all rules on, memory, and the time of a preview among many episodes.

The limits are PostgreSQL and pyarrow on the same rows. Starts a PostgreSQL of its own in a temporary folder and fills
it by COPY. Each export has a process of its own, as in the product. `BENCH_STEPS` (by default 40,000) and
`BENCH_EPISODES` (by default 20,000) set the sizes; aims are for a million and for 100,000. Run as `python
bench/exports.py`; one JSON object a line.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
STEPS = int(os.environ.get("BENCH_STEPS", "40000"))
EPISODES = int(os.environ.get("BENCH_EPISODES", "20000"))
PROCESSES, LOOK_S = 2, 0.1
SMALL, PER_EPISODE, PREVIEWS = 1_000, 20, 20
RUNS = {"small": SMALL // PER_EPISODE, "large": STEPS // PER_EPISODE}
TOOLS = [
    {"name": "get_ticket", "description": "One ticket.", "input_schema": {"type": "object", "properties": {"id": {}}}}
]


def row(name: str, value: float, unit: str, limit: float | None, **conditions: object) -> None:
    """Print one measured line. `ratio` is value to limit, whichever direction is good."""
    ratio = round(value / limit, 3) if limit else None
    line = {"name": name, "value": round(value, 1), "unit": unit, "limit": limit and round(limit, 1), "ratio": ratio}
    print(json.dumps({**line, "conditions": conditions}), flush=True)


def steps_of(number: int) -> list[dict[str, Any]]:
    """Return a plausible, unique conversation of 20 steps, about 500 bytes each."""
    said: list[dict[str, Any]] = [
        {"kind": "message", "role": "user", "content": f"Go through the open tickets of customer {number}."}
    ]
    for turn in range(1, PER_EPISODE - 1):
        result = {"id": turn, "customer": number, "subject": f"ticket {turn} of {number}", "text": "It grinds. " * 35}
        call = {"kind": "tool_call", "name": "get_ticket", "arguments": {"id": turn, "of": number}, "turn": turn}
        said.append({**call, "result": result})
    said.append(
        {"kind": "message", "role": "assistant", "content": f"Customer {number}: all read.", "turn": PER_EPISODE}
    )
    return [{"seq": seq, **step} for seq, step in enumerate(said, start=1)]


def fill() -> None:
    """Write runs, episodes, outcomes and steps, by COPY for many, and a split that holds other tasks out."""
    from django.db import connection
    from django.utils import timezone

    from awmenv.packs import load_pack
    from episodes.models import Episode, Run, VerifierOutcome
    from episodes.record import pinning
    from people import access
    from people.record import members

    pack = load_pack(ROOT / "packs" / "starter")
    other, *scenarios = sorted(pack.scenarios)
    tasks = [(name, number, text) for name in scenarios for number, text in enumerate(pack.tasks(name))]
    project, now = members.ensure_project("demo", "Demo"), timezone.now()
    pinning.pin(
        access.system(project), "bench", unit="scenario", seed=1,
        train=[f"{name}/{number}" for name, number, _ in tasks],
        val=[f"{other}/{number}" for number in range(len(pack.tasks(other)))],
    )  # fmt: skip
    done = {"state": "finished", "stop_reason": "done", "started_at": now, "ended_at": now, "policy_kind": "model"}

    def task(number: int) -> dict[str, Any]:
        return dict(zip(("scenario", "task_idx", "task"), tasks[number % len(tasks)], strict=True))

    counts = {**RUNS, "crowd": max(0, EPISODES - sum(RUNS.values()))}
    for name, count in counts.items():
        run = Run.objects.create(project=project, name=name)
        about = {**done, "tools": TOOLS, "run": run}
        last = 0 if name == "crowd" else PER_EPISODE
        episodes = [
            Episode(project=project, key=f"{name}-{n}", body_digest="", last_seq=last, **about, **task(n))
            for n in range(count)
        ]
        Episode.objects.bulk_create(episodes, batch_size=1000)
        outcomes = [
            VerifierOutcome(episode=one, source="verifier", reward_type="complete", reward=1.0) for one in episodes
        ]
        VerifierOutcome.objects.bulk_create(outcomes, batch_size=1000)
        if last:
            with connection.cursor() as cursor:
                with cursor.copy("COPY episodes_step (episode_id, seq, kind, body, at) FROM STDIN") as copy:
                    for number, one in enumerate(episodes):
                        for step in steps_of(number):
                            copy.write_row((one.pk, step["seq"], step["kind"], json.dumps(step), now))
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")


def build(shape: str, run: str, parquet: str, folder: str) -> None:
    """Make one export in a process of its own and print its cost."""
    _django()
    from exports.assembly import datasets
    from exports.recipe import Recipe
    from people.access import system_actor

    project = system_actor("demo").project
    began = time.perf_counter()
    recipe = Recipe.read({"format": shape, "filter": {"run": [run]}, "parquet": bool(parquet)})
    plan = datasets.take_snapshot(project, recipe, Path(folder))
    manifest = datasets.build(project, plan, Path(folder), lambda _episodes, _rows: True, PROCESSES)
    print(json.dumps({"seconds": time.perf_counter() - began, "rows": manifest["rows"]}))


def exported(shape: str, run: str, folder: Path, *, parquet: bool = False) -> dict[str, Any]:
    folder.mkdir()
    command = [sys.executable, __file__, "build", shape, run, "1" if parquet else "", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        peak = 0
        while process.poll() is None:
            peak = max(peak, memory_of(psutil.Process(process.pid)))
            time.sleep(LOOK_S)
        assert process.stdout is not None
        figures: dict[str, Any] = {**json.loads(process.stdout.read().splitlines()[-1]), "peak": peak}
    assert figures["rows"] == RUNS[run], figures
    return figures


def memory_of(process: psutil.Process) -> int:
    """Return bytes of memory of a process and its children, each shared page counted once."""
    found = 0
    with contextlib.suppress(psutil.NoSuchProcess):
        for one in (process, *process.children()):
            found += one.memory_full_info().pss
    return found


def copied(folder: Path) -> float:
    """Return steps a second of a bare COPY TO of the rows of `raw`."""
    from django.db import connection

    query = (
        "COPY (SELECT s.episode_id, s.seq, s.body FROM episodes_step s JOIN episodes_episode e ON e.id = s.episode_id "
        "JOIN episodes_run r ON r.id = e.run_id WHERE r.name = 'large' ORDER BY s.episode_id, s.seq) TO STDOUT"
    )
    began = time.perf_counter()
    with connection.cursor() as cursor, (folder / "copied").open("wb") as out:
        with cursor.copy(query) as copy:
            for block in copy:
                out.write(block)
    return RUNS["large"] * PER_EPISODE / (time.perf_counter() - began)


def written(lines: Path, folder: Path) -> tuple[float, float]:
    """Return rows a second of our Parquet writer, and of pyarrow with prepared rows in batches of the same size."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from exports.formats import FORMATS
    from exports.writers import parquet

    features = FORMATS["sft"].features
    assert features is not None
    with lines.open("rb") as source:
        rows = [json.loads(line) for line in source]
    for some in (rows[:1], rows):  # the first loads what pyarrow loads late, numpy among it
        began = time.perf_counter()
        writer = parquet.Writer(folder / "ours.parquet", features)
        for one in some:
            writer.write(one)
        writer.close()
    ours = len(rows) / (time.perf_counter() - began)
    with pq.ParquetFile(folder / "ours.parquet") as file:
        schema = file.schema_arrow
        ready = file.read().to_pylist()
    plain = pq.read_schema(folder / "ours.parquet")
    storage = pa.schema([pa.field(field.name, as_text(field.type)) for field in plain])
    began = time.perf_counter()
    with pq.ParquetWriter(folder / "theirs.parquet", schema, compression="zstd") as theirs:
        for start in range(0, len(ready), parquet.ROWS_PER_GROUP):
            some = ready[start : start + parquet.ROWS_PER_GROUP]
            theirs.write_table(pa.Table.from_pylist(some, schema=storage).cast(schema))
    return ours, len(ready) / (time.perf_counter() - began)


def as_text(kind: Any) -> Any:
    """Return the same Arrow type with JSON as text, which rows can be built from."""
    import pyarrow as pa

    if isinstance(kind, pa.JsonType):
        return pa.utf8()
    if pa.types.is_list(kind):
        return pa.list_(as_text(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, as_text(field.type)) for field in kind])
    return kind


def previewed() -> tuple[float, float]:
    """Return milliseconds of a preview at p95, and of counting the same episodes alone."""
    from exports.explain.preview import preview
    from exports.recipe import Recipe
    from exports.select.selecting import selected
    from people.access import system_actor

    actor = system_actor("demo")
    recipe = Recipe.read({"format": "sft"})
    preview(actor, recipe)  # packs and detectors are read once a process
    whole, counted = [], []
    for _ in range(PREVIEWS):
        began = time.perf_counter()
        preview(actor, recipe)
        whole.append((time.perf_counter() - began) * 1000)
        began = time.perf_counter()
        selected(actor, recipe).count()
        counted.append((time.perf_counter() - began) * 1000)
    return sorted(whole)[int(PREVIEWS * 0.95) - 1], statistics.median(counted)


def _django() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "awmweb.settings")
    import django

    django.setup()


def measure(folder: Path) -> None:
    steps = RUNS["large"] * PER_EPISODE
    sizes = {"steps": steps, "episodes": sum(RUNS.values()), "steps_an_episode": PER_EPISODE, "processes": PROCESSES}
    bare = copied(folder)
    found = {
        (shape, run, parquet): exported(shape, run, folder / f"{shape}-{run}{'-p' * parquet}", parquet=parquet)
        for shape, run, parquet in (
            ("sft", "small", False), ("sft", "large", False), ("sft", "large", True), ("raw", "large", False),
        )
    }  # fmt: skip
    for name, key, aim in (
        ("export_sft_lines", ("sft", "large", False), "20,000 steps/s"),
        ("export_sft_parquet", ("sft", "large", True), "15,000 steps/s"),
        ("export_raw", ("raw", "large", False), "0.25 of COPY TO"),
    ):
        row(name, steps / found[key]["seconds"], "steps/s", bare, aim=aim, beside="COPY TO of the same steps", **sizes)
    ours, theirs = written(folder / "sft-large" / "data" / "train.jsonl", folder)
    row("export_parquet_writer", ours, "rows/s", theirs, aim="0.5 of pyarrow", beside="pyarrow, rows ready", **sizes)
    peaks = [found["sft", run, False]["peak"] / 1e6 for run in ("small", "large")]
    about = {"aim": "grows by less than 150 MB to 1,000,000 steps", "from_steps": SMALL, "to_steps": steps}
    row("export_memory_growth", peaks[1] - peaks[0], "MB", peaks[0], beside="peak of the small export", **about)
    took, counted = previewed()
    row("export_preview", took, "ms p95", counted, aim=500, beside="counting the episodes, median", episodes=EPISODES)


def main() -> None:
    if sys.argv[1:2] == ["build"]:
        build(*sys.argv[2:6])
        return
    with tempfile.TemporaryDirectory(prefix="awmweb-bench-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        os.environ["AWMWEB_VAR"] = str(folder / "var")
        from awmweb.embedded import paths, servers

        paths.ensure_folders(paths.data_paths(folder / "var"))
        with servers.running(folder / "var", queue=False):
            _django()
            from django.core.management import call_command
            from django.db import connections

            call_command("migrate", verbosity=0)
            fill()
            measure(folder)
            connections.close_all()


if __name__ == "__main__":
    main()

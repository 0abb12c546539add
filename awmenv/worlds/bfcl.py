"""BFCL v4 multi-turn as a world: a pack whose rows are made from the installed package `bfcl-eval`.

Owns what becomes of a task: its first message, its tools, its user's next turns, its grader and a script of its ground
truth. Each task is a scenario of its own, because each begins with another state. Reads the package's files and never
imports them: its simulators and its grader run in the sandbox alone.
"""

from __future__ import annotations

import ast
import base64
import hashlib
import importlib.util
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from awmenv.errors import PackError

PACKAGE, MODULE = "bfcl-eval", "bfcl_eval"
CATEGORIES = ("base", "miss_param", "miss_func", "long_context")
LICENSE, SOURCE = "Apache-2.0", "https://github.com/ShishirPatil/gorilla/tree/main/berkeley-function-call-leaderboard"
HERE = Path(__file__).parent
_EVAL = f"{MODULE}.eval_checker.multi_turn_eval"
_CONFIG, _LONG = f"{MODULE}.constants.executable_backend_config", f"{_EVAL}.func_source_code.long_context"
_UTILS, _CHECKER = f"{_EVAL}.multi_turn_utils", f"{_EVAL}.multi_turn_checker"
_PROMPTS = f"{MODULE}.constants.default_prompts"
_ADDED = "DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_FC"
TURNS = (
    "The user talks with you in turns. When you have done all that you can, or need more from the user, call end_turn "
    "with your words: its result is what the user says next."
)
_TYPES = {"dict": "object", "float": "number", "tuple": "array", "any": None}
TABLES = {
    "calls": "CREATE TABLE calls (id INTEGER PRIMARY KEY, turn INTEGER, call TEXT, result TEXT)",
    "turns": "CREATE TABLE turns (id INTEGER PRIMARY KEY, words TEXT)",
}


@dataclass(frozen=True)
class BfclTask:
    """One task: its row of the package's data, and its ground truth by turn."""

    category: str
    entry: dict[str, Any]
    truth: list[list[str]]

    @property
    def scenario(self) -> str:
        return "bfcl_" + str(self.entry["id"]).removeprefix("multi_turn_")


class BfclPackage:
    """The files of the installed package. Raises `PackError` if it is not installed."""

    def __init__(self) -> None:
        spec = importlib.util.find_spec(MODULE)
        try:
            self.version = version(PACKAGE)
        except PackageNotFoundError:
            spec = None
        if spec is None or not spec.submodule_search_locations:
            raise PackError(f"{PACKAGE} is not installed: pip install --no-deps -r requirements-worlds.txt")
        self.folder = Path(next(iter(spec.submodule_search_locations)))
        config: dict[str, Any] = {}
        # constants alone
        exec(compile(self.source(_CONFIG), _CONFIG, "exec"), config)
        self._docs, self._modules = config["MULTI_TURN_FUNC_DOC_FILE_MAPPING"], config["CLASS_FILE_PATH_MAPPING"]
        self.more = _constant(self.source(_PROMPTS), _ADDED)
        # several hundred tasks share their simulators
        self._packed: dict[tuple[Any, ...], str] = {}
        self._listed: dict[str, list[dict[str, Any]]] = {}

    def source(self, module: str) -> str:
        return self.folder.joinpath(*module.split(".")[1:]).with_suffix(".py").read_text(encoding="utf-8")

    def tasks(self, category: str) -> Iterator[BfclTask]:
        name = f"BFCL_v4_multi_turn_{category}.json"
        truths = {one["id"]: one["ground_truth"] for one in self._lines(Path("possible_answer") / name)}
        for entry in self._lines(Path(name)):
            yield BfclTask(category, entry, truths[entry["id"]])

    def _lines(self, place: Path) -> list[dict[str, Any]]:
        text = (self.folder / "data" / place).read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines() if line.strip()]

    def functions(self, task: BfclTask) -> list[dict[str, Any]]:
        """Return the tools of a task's simulators, with JSON Schemas."""
        tools = []
        for name in task.entry["involved_classes"]:
            if name not in self._listed:
                self._listed[name] = self._lines(Path("multi_turn_func_doc") / self._docs[name])
            for doc in self._listed[name]:
                about = {"name": doc["name"], "description": doc["description"]}
                tools.append({**about, "parameters": _schema(doc["parameters"])})
        return tools

    def packed(self, task: BfclTask, *, grades: bool) -> str:
        """Return the sources that a task needs, compressed, each after those that it imports."""
        place = (*task.entry["involved_classes"], task.category == "long_context", grades)
        if place not in self._packed:
            self._packed[place] = self._pack(task, grades=grades)
        return self._packed[place]

    def _pack(self, task: BfclTask, *, grades: bool) -> str:
        simulators = [self._modules[name] for name in task.entry["involved_classes"]]
        sources = {name: self.source(name) for name in simulators}
        # two hundred kilobytes of constants, which only one category reads
        long = self.source(_LONG) if task.category == "long_context" else _without_data(sources.values())
        listed = [(_CONFIG, self.source(_CONFIG)), (_LONG, long), *sources.items(), (_UTILS, self.source(_UTILS))]
        if grades:
            listed.append((_CHECKER, self.source(_CHECKER)))
        return base64.b64encode(zlib.compress(json.dumps(listed).encode())).decode()


def _constant(source: str, name: str) -> str:
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and any(isinstance(one, ast.Name) and one.id == name for one in node.targets):
            return str(ast.literal_eval(node.value))
    raise PackError(f"{PACKAGE} has no {name}; this version is not known here.")


def _without_data(sources: Any) -> str:
    """Return a module that has the names which these import from it, empty."""
    trees = [ast.parse(source) for source in sources]
    nodes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    names = {alias.name for node in nodes if node.module == _LONG for alias in node.names}
    return "".join(f"{name} = None\n" for name in sorted(names))


def _schema(source: Any) -> Any:
    """Return JSON Schema for the package's own spelling of types."""
    if isinstance(source, list):
        return [_schema(one) for one in source]
    if not isinstance(source, Mapping):
        return source
    schema = {key: _schema(value) for key, value in source.items() if key not in ("type", "default", "optional")}
    kind = source.get("type")
    if isinstance(kind, str):
        type_name = _TYPES.get(kind, kind)
        return {**({"type": type_name} if type_name else {}), **schema}
    # a parameter that is named `type`
    return {**schema, **({"type": _schema(kind)} if kind is not None else {})}


def _users(task: BfclTask, more: str) -> list[str]:
    """Return what the user says in each turn; without words of its own a turn brings new functions."""
    return ["\n".join(one["content"] for one in turn) or more for turn in task.entry["question"]]


def rows_of(package: BfclPackage, task: BfclTask) -> dict[str, list[dict[str, Any]]]:
    """Return a task as rows of a pack, by file."""
    name, users = task.scenario, _users(task, package.more)
    functions, added = _split(package.functions(task), task.entry.get("missed_function") or {})
    entry = {key: task.entry[key] for key in ("id", "initial_config", "involved_classes")}
    world = {"id": name, "category": task.category, "entry": entry, "users": users, "added": added}
    text = f"{users[0]}\n\n{TURNS}"
    graded = {"category": task.category, "entry": entry, "ground_truth": task.truth}
    app = _filled("bfcl_app.txt", package.packed(task, grades=False), {**world, "functions": functions})
    verifier = _filled("bfcl_verifier.txt", package.packed(task, grades=True), graded)
    about = f"BFCL v4 multi-turn, {task.category}: {', '.join(task.entry['involved_classes'])}."
    described = f"{about} From {PACKAGE} {package.version}, {LICENSE}, {SOURCE}"
    tables = [{"name": table, "ddl": ddl, "indexes": []} for table, ddl in TABLES.items()]
    place = f"sqlite:///./{name}.db"
    script = script_of(task, [*functions, *(one for docs in added.values() for one in docs)], added)
    rows: dict[str, list[dict[str, Any]]] = {
        "gen_scenario.jsonl": [{"name": name, "description": described}],
        "gen_tasks.jsonl": [{"scenario": name, "tasks": [text]}],
        "gen_db.jsonl": [{"scenario": name, "db_schema": {"tables": tables}, "db_path": place}],
        "gen_envs.jsonl": [{"scenario": name, "db_path": place, "full_code": app}],
        "gen_verifier.pure_code.jsonl": [
            {"scenario": name, "task_idx": 0, "task": text, "verification": {"code": verifier, "raw_response": ""}}
        ],
    }
    if script is not None:
        row = {"scenario": name, "task_idx": 0, "about": {"category": task.category}, "scripts": {"oracle": script}}
        rows["scripts.jsonl"] = [row]
    return rows


def _filled(file: str, packed: str, task: Mapping[str, Any]) -> str:
    source = (HERE / file).read_text(encoding="utf-8")
    return source.replace('PACKED, TASK = "", "{}"', f"PACKED, TASK = {packed!r}, {json.dumps(task)!r}", 1)


def _split(
    functions: Sequence[dict[str, Any]], missed: Mapping[str, Sequence[str]]
) -> tuple[list[dict[str, Any]], dict[str, list[dict[str, Any]]]]:
    """Return the functions from the start, and those that come with a later turn, by its number."""
    held = {name for names in missed.values() for name in names}
    added = {turn: [one for one in functions if one["name"] in names] for turn, names in missed.items()}
    return [one for one in functions if one["name"] not in held], added


def script_of(
    task: BfclTask, functions: Sequence[Mapping[str, Any]], added: Mapping[str, Sequence[Mapping[str, Any]]]
) -> list[dict[str, Any]] | None:
    """Return the ground truth as a script; None if a call of it is no plain call of a tool, or of one that comes with a
    later turn, which no agent could make."""
    parameters = {str(one["name"]): list(one["parameters"]["properties"]) for one in functions}
    late = {str(one["name"]): int(since) for since, docs in added.items() for one in docs}
    turns: list[dict[str, Any]] = []
    for number, calls in enumerate(task.truth):
        for call in calls:
            made = _parsed(call, parameters)
            if made is None:
                return None
            name, arguments = made
            if number < late.get(name, 0):
                return None
            if name in late:
                name, arguments = "call_new_function", {"name": name, "arguments": arguments}
            turns.append({"call": {"name": name, "arguments": arguments}})
        if number + 1 < len(task.truth):
            turns.append({"call": {"name": "end_turn", "arguments": {"message": "Done." if calls else "I cannot."}}})
    return [*turns, {"answer": "Done."}]


def _parsed(call: str, parameters: Mapping[str, Sequence[str]]) -> tuple[str, dict[str, Any]] | None:
    """Return name and arguments of a call in Python's words."""
    try:
        node = ast.parse(call.strip(), mode="eval").body
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id not in parameters:
            return None
        positional = dict(zip(parameters[node.func.id], map(ast.literal_eval, node.args), strict=False))
        named = {str(one.arg): ast.literal_eval(one.value) for one in node.keywords}
        json.dumps(named)
    except (ValueError, TypeError, SyntaxError):
        return None
    return node.func.id, {**positional, **named}


def write(folder: Path, categories: Sequence[str] = CATEGORIES, most: int | None = None) -> dict[str, Any]:
    """Write the pack with its card and its manifest, which it returns. `most` bounds the tasks of each category."""
    package = BfclPackage()
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.jsonl"):
        old.unlink()
    counts, files = dict.fromkeys(categories, 0), dict[str, Any]()
    tasks = []
    try:
        for category in categories:
            for number, task in enumerate(package.tasks(category)):
                if most is not None and number >= most:
                    break
                counts[category] += 1
                tasks.append(f"{task.scenario}/0")
                for name, rows in rows_of(package, task).items():
                    if name not in files:
                        files[name] = (folder / name).open("w", encoding="utf-8")
                    files[name].writelines(f"{json.dumps(row)}\n" for row in rows)
    finally:
        for file in files.values():
            file.close()
    manifest = {
        "world": "bfcl",
        "package": PACKAGE,
        "package_version": package.version,
        "license": LICENSE,
        "source": SOURCE,
        "categories": counts,
        "tasks": tasks,
        "files": {name: _digest(folder / name) for name in sorted(files)},
    }
    (folder / "world.json").write_text(f"{json.dumps(manifest, indent=2)}\n", encoding="utf-8")
    (folder / "README.md").write_text(_card(manifest), encoding="utf-8")
    return manifest


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _card(manifest: Mapping[str, Any]) -> str:
    counted = "\n".join(f"| {name} | {count} |" for name, count in manifest["categories"].items())
    return (
        "# BFCL v4 multi-turn, as a pack of awmweb\n\n"
        f"Made from `{PACKAGE}` {manifest['package_version']}. License of data, simulators and grader: {LICENSE}.\n"
        f"Source: {SOURCE}\n\n| category | tasks |\n|---|---|\n{counted}\n\n"
        "Each task is a scenario. A turn of the agent ends with `end_turn`, whose result is the user's next message.\n"
        "The verifier is the package's own grader. These tasks are public: evaluate on them, do not train.\n"
    )

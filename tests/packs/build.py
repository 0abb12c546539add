"""Writes tests/packs/tiny.

Two scenarios small enough to read at once, in AWM-1K row format. Run it after a change here or in apps/.
"""

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent

NOTES_VERIFY_0 = """
def verify_task_completion(initial_db_path, final_db_path, final_answer=None):
    import sqlite3

    def rows(path):
        connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        try:
            return connection.execute("SELECT id, title, body, pinned FROM notes ORDER BY id").fetchall()
        finally:
            connection.close()

    before, after = rows(initial_db_path), rows(final_db_path)
    new = [row for row in after if row not in before]
    done = len(after) == len(before) + 1 and len(new) == 1 and new[0][1] == "Milk"
    return {"result": "complete" if done else "others"}
""".lstrip()

NOTES_SQL_0 = """
def verify_task(initial_db_path, final_db_path):
    import sqlite3

    counts = {}
    for name, path in (("before", initial_db_path), ("after", final_db_path)):
        connection = sqlite3.connect(path)
        counts[name] = connection.execute("SELECT count(*) FROM notes WHERE title = 'Milk'").fetchone()[0]
        connection.close()
    return counts
""".lstrip()

NOTES_VERIFY_1 = """
def verify_task_completion(initial_db_path, final_db_path, final_answer=None):
    return {"result": "complete" if "3" in (final_answer or "") else "others"}
""".lstrip()

NOTES_SQL_1 = NOTES_SQL_0

LAMPS_VERIFY_0 = """
def verify_task_completion(initial_db_path, final_db_path, final_answer=None):
    import sqlite3

    connection = sqlite3.connect(final_db_path)
    lit = connection.execute("SELECT count(*) FROM lamps WHERE lit").fetchone()[0]
    connection.close()
    return {"result": "complete" if lit == 0 else "others"}
""".lstrip()

LAMPS_SQL_0 = """
def verify_task(initial_db_path, final_db_path):
    import sqlite3

    connection = sqlite3.connect(final_db_path)
    rows = connection.execute("SELECT id, lit FROM lamps").fetchall()
    connection.close()
    return {"lamps": rows}
""".lstrip()


def scenario(name: str, description: str, tables: list[dict[str, Any]], tasks: list[dict[str, Any]]) -> dict[str, Any]:
    return {"name": name, "description": description, "tables": tables, "tasks": tasks}


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    return {"call": {"name": tool, "arguments": arguments}}


SCENARIOS = [
    scenario(
        "notes_1",
        "A notebook with labels.",
        [
            {
                "name": "labels",
                "ddl": "CREATE TABLE labels (id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL);",
                "indexes": [],
                "inserts": [
                    "INSERT INTO labels (id, name) VALUES (1, 'home'), (2, 'work');",
                ],
            },
            {
                "name": "notes",
                "ddl": (
                    "CREATE TABLE notes (\n    id INTEGER PRIMARY KEY,\n    title TEXT NOT NULL,\n"
                    "    body TEXT NOT NULL DEFAULT '',\n"
                    "    label_id INTEGER REFERENCES labels(id),\n    pinned BOOLEAN NOT NULL DEFAULT 0,\n"
                    "    created_at DATETIME\n);"
                ),
                "indexes": ["CREATE INDEX idx_notes_label ON notes(label_id);"],
                "inserts": [
                    "INSERT INTO notes (id, title, body, label_id, pinned, created_at) "
                    "VALUES (1, 'Bread', 'rye', 1, 0, datetime('now', '-3 days'));",
                    # The backslash is not SQL; the loader must repair this row and say so.
                    r"INSERT INTO notes (id, title, body, label_id, pinned, created_at) "
                    r"VALUES (2, 'Ada\'s desk', 'tidy it', 2, 0, datetime('now', '-2 days'));",
                    r"INSERT INTO notes (id, title, body, label_id, pinned, created_at) "
                    r"VALUES (3, 'Path', 'C:\exports\', 2, 0, datetime('now', '-1 days'));",
                ],
            },
        ],
        [
            {
                "text": "Write a note titled 'Milk' and change nothing else.",
                "code": NOTES_VERIFY_0,
                "sql": NOTES_SQL_0,
                "oracle": [call("create_note", title="Milk"), {"answer": "The note is written."}],
                "negative": [call("create_note", title="Bread"), {"answer": "Done."}],
            },
            {
                "text": "How many notes are there?",
                "code": NOTES_VERIFY_1,
                "sql": NOTES_SQL_1,
                "oracle": [call("list_notes"), {"answer": "There are 3."}],
                "negative": [{"answer": "Many."}],
            },
        ],
    ),
    scenario(
        "lamps_1",
        "Lamps in rooms.",
        [
            {
                "name": "lamps",
                "ddl": "CREATE TABLE lamps (id INTEGER PRIMARY KEY, room TEXT NOT NULL, "
                "lit BOOLEAN NOT NULL DEFAULT 0, level INTEGER NOT NULL DEFAULT 0);",
                "indexes": [],
                "inserts": [
                    "INSERT INTO lamps (id, room, lit, level) VALUES (1, 'kitchen', 1, 80), (2, 'hall', 0, 0);",
                ],
            }
        ],
        [
            {
                "text": "Switch all lamps off.",
                "code": LAMPS_VERIFY_0,
                "sql": LAMPS_SQL_0,
                "oracle": [call("set_lamp", lamp_id=1, lit=False, level=0), {"answer": "All dark."}],
                "negative": [call("set_lamp", lamp_id=2, lit=True), {"answer": "All dark."}],
            }
        ],
    ),
]


def rows() -> dict[str, list[dict[str, Any]]]:
    """File name -> its rows."""
    files: dict[str, list[dict[str, Any]]] = {
        name: []
        for name in (
            "gen_scenario", "gen_tasks", "gen_db", "gen_sample", "gen_envs", "gen_verifier", "gen_verifier.pure_code",
            "scripts",
        )
    }  # fmt: skip
    for item in SCENARIOS:
        name = item["name"]
        tables = item["tables"]
        files["gen_scenario"].append({"name": name, "description": item["description"]})
        files["gen_tasks"].append({"scenario": name, "tasks": [task["text"] for task in item["tasks"]]})
        schema = [{key: table[key] for key in ("name", "ddl", "indexes")} for table in tables]
        files["gen_db"].append({"scenario": name, "db_schema": {"tables": schema}, "db_path": f"./{name}.db"})
        sample = [{"table_name": t["name"], "reasoning": "", "insert_statements": t["inserts"]} for t in tables]
        count = sum(len(table["inserts"]) for table in tables)
        files["gen_sample"].append(
            {"scenario": name, "tables_count": len(tables), "inserts_count": count, "sample_data": {"tables": sample}}
        )
        code = (HERE / "apps" / f"{name}.py").read_text(encoding="utf-8")
        files["gen_envs"].append({"scenario": name, "db_path": f"./{name}.db", "full_code": code})
        for idx, task in enumerate(item["tasks"]):
            head = {"scenario": name, "task_idx": idx, "task": task["text"]}
            raw = json.dumps({"reasoning": "", "success_criteria": task["text"], "failure_criteria": "anything else"})
            files["gen_verifier"].append({**head, "verification": {"code": task["sql"], "raw_response": raw}})
            files["gen_verifier.pure_code"].append({**head, "verification": {"code": task["code"], "raw_response": ""}})
            scripts = {key: task[key] for key in ("oracle", "negative")}
            about = {"level": "easy", "needs_expert": False, "kind": "normal", "expert_note": ""}
            files["scripts"].append({"scenario": name, "task_idx": idx, "about": about, "scripts": scripts})
    return files


def main() -> None:
    for name, items in rows().items():
        text = "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in items)
        (HERE / "tiny" / f"{name}.jsonl").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

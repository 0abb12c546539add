"""Packs made for tests: one scenario of given code, in a folder of its own."""

import json
from pathlib import Path

RUN_CODE = """
import os
from fastapi import FastAPI
from pydantic import BaseModel
from sqlalchemy import Column, Integer, create_engine, text
from sqlalchemy.orm import declarative_base

engine = create_engine(os.getenv("DATABASE_PATH", "sqlite:///x.db"))
Base = declarative_base()


class T(Base):
    __tablename__ = "t"
    x = Column(Integer, primary_key=True)


Base.metadata.create_all(engine)
app = FastAPI(debug=True)


class Code(BaseModel):
    code: str


@app.post("/run", operation_id="run_code")
async def run_code(request: Code) -> dict:
    names = {}
    exec(request.code, names)
    return names["verify_task_completion"]("world.db", "world.db")


@app.post("/rows", operation_id="add_row")
def add_row() -> int:
    with engine.begin() as connection:
        connection.execute(text("INSERT INTO t DEFAULT VALUES"))
        return connection.execute(text("SELECT count(*) FROM t")).scalar()


@app.get("/pid", operation_id="where_am_i")
async def where_am_i() -> dict:
    return {"pid": os.getpid(), "cwd": os.getcwd(), "uid": os.getuid(), "env": dict(os.environ)}
"""


def pack(folder: Path, code: str = RUN_CODE, name: str = "open_1", inserts: list[str] | None = None) -> Path:
    """Writes the five needed files; `inserts` go into the one table `t`."""
    folder.mkdir(parents=True, exist_ok=True)
    table = {"name": "t", "ddl": "CREATE TABLE t (x INTEGER PRIMARY KEY)", "indexes": []}
    rows = {
        "gen_scenario": {"name": name, "description": ""},
        "gen_tasks": {"scenario": name, "tasks": ["Do something."]},
        "gen_db": {"scenario": name, "db_schema": {"tables": [table]}},
        "gen_sample": {
            "scenario": name,
            "sample_data": {"tables": [{"table_name": "t", "insert_statements": inserts or []}]},
        },
        "gen_envs": {"scenario": name, "full_code": code},
    }
    for file, row in rows.items():
        with (folder / f"{file}.jsonl").open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(row) + "\n")
    return folder

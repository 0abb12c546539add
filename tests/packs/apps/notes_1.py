"""Scenario app of the tiny pack: a notebook with labels."""

import os
from datetime import datetime

from fastapi import FastAPI, HTTPException, Query
from pydantic import BaseModel, Field
from sqlalchemy import Boolean, Column, DateTime, ForeignKey, Integer, String, create_engine
from sqlalchemy.orm import Session, declarative_base, sessionmaker

database_url = os.getenv("DATABASE_PATH", "sqlite:///./notes_1.db")
engine = create_engine(database_url, connect_args={"check_same_thread": False})
SessionLocal = sessionmaker(bind=engine)
Base = declarative_base()


class Label(Base):
    __tablename__ = "labels"
    id = Column(Integer, primary_key=True)
    name = Column(String, unique=True, nullable=False)


class Note(Base):
    __tablename__ = "notes"
    id = Column(Integer, primary_key=True)
    title = Column(String, nullable=False)
    body = Column(String, nullable=False, default="")
    label_id = Column(Integer, ForeignKey("labels.id"), nullable=True)
    pinned = Column(Boolean, nullable=False, default=False)
    created_at = Column(DateTime, default=datetime.utcnow)


Base.metadata.create_all(engine)


class NoteIn(BaseModel):
    title: str = Field(..., description="Title of the note", min_length=1)
    body: str = Field("", description="Text of the note")
    label_id: int | None = Field(None, description="Label, if any")


class NoteChange(BaseModel):
    title: str | None = Field(None, description="New title")
    body: str | None = Field(None, description="New text")
    pinned: bool | None = Field(None, description="Pin or unpin")


class NoteOut(BaseModel):
    id: int
    title: str
    body: str
    label_id: int | None
    pinned: bool


app = FastAPI(title="Notes")


def shown(note: Note) -> NoteOut:
    return NoteOut(id=note.id, title=note.title, body=note.body, label_id=note.label_id, pinned=bool(note.pinned))


@app.get("/notes", operation_id="list_notes", summary="List notes", description="All notes, newest last.")
async def list_notes(
    label_id: int | None = Query(None, description="Only this label"), limit: int = Query(20, ge=1, le=100)
) -> list[NoteOut]:
    with Session(engine) as session:
        query = session.query(Note)
        if label_id is not None:
            query = query.filter(Note.label_id == label_id)
        return [shown(note) for note in query.order_by(Note.id).limit(limit)]


@app.get("/notes/{note_id}", operation_id="get_note", summary="Read one note")
def get_note(note_id: int) -> NoteOut:
    with Session(engine) as session:
        note = session.get(Note, note_id)
        if note is None:
            raise HTTPException(404, "Note not found")
        return shown(note)


@app.post("/notes", operation_id="create_note", summary="Write a note", status_code=201)
async def create_note(note: NoteIn) -> NoteOut:
    with Session(engine) as session:
        row = Note(title=note.title, body=note.body, label_id=note.label_id, pinned=False)
        session.add(row)
        session.commit()
        return shown(row)


@app.patch("/notes/{note_id}", operation_id="change_note", summary="Change a note")
async def change_note(note_id: int, change: NoteChange) -> NoteOut:
    with Session(engine) as session:
        row = session.get(Note, note_id)
        if row is None:
            raise HTTPException(404, "Note not found")
        for name, value in change.model_dump(exclude_none=True).items():
            setattr(row, name, value)
        session.commit()
        return shown(row)


@app.delete("/notes/{note_id}", operation_id="delete_note", summary="Delete a note")
async def delete_note(note_id: int) -> dict:
    with Session(engine) as session:
        row = session.get(Note, note_id)
        if row is None:
            raise HTTPException(404, "Note not found")
        session.delete(row)
        session.commit()
        return {"deleted": note_id}


@app.get("/labels", operation_id="list_labels", summary="List labels")
def list_labels() -> list[dict]:
    with Session(engine) as session:
        return [{"id": label.id, "name": label.name} for label in session.query(Label)]


@app.get("/broken", operation_id="broken_report", summary="A report that fails")
async def broken_report() -> dict:
    secret = "traceback-secret"
    raise RuntimeError(f"cannot make the report {secret}")


if __name__ == "__main__":
    import uvicorn

    uvicorn.run(app, host="127.0.0.1", port=8000)

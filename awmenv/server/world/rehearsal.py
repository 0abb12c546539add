"""A small app of our own, run in the scenario zygote before the first fork, so that scenarios share memory.

It makes the libraries build what they build at their first request, first query and first write. Owns the app and the
run. Called by `zygote`; everything else about apps is `host`.
"""

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import Iterator
from datetime import date, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import sqlalchemy
from fastapi import Body, Depends, FastAPI, HTTPException, Query
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import ForeignKey, Text, func, or_, select, update
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship, sessionmaker

from awmenv.server import database
from awmenv.server.sandbox import sharing
from awmenv.server.world import host

ROUNDS = 12  # after eight runs CPython specialises a function
_kept: list[Any] = []


class Base(DeclarativeBase):
    """Base of all tables."""


class Shelf(Base):
    """A table with many books per row."""

    __tablename__ = "shelves"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    books: Mapped[list["Book"]] = relationship(back_populates="shelf", order_by="Book.id")


class Book(Base):
    """A table with a column of every usual type."""

    __tablename__ = "books"
    id: Mapped[int] = mapped_column(primary_key=True)
    title: Mapped[str]
    notes: Mapped[str | None] = mapped_column(Text)
    price: Mapped[float | None]
    lent: Mapped[bool] = mapped_column(default=False)
    printed: Mapped[date | None]
    added_at: Mapped[datetime] = mapped_column(default=datetime.now)
    changed_at: Mapped[datetime] = mapped_column(default=datetime.now, onupdate=datetime.now)
    shelf_id: Mapped[int] = mapped_column(ForeignKey("shelves.id"))
    shelf: Mapped[Shelf] = relationship(back_populates="books")


class BookIn(BaseModel):
    """The body of a new book."""

    title: str = Field(min_length=1, max_length=200, description="What is on the cover")
    notes: str | None = None
    price: float | None = Field(default=None, ge=0)
    lent: bool = False
    printed: date | None = None
    shelf_id: int = Field(default=1, ge=1)


class BookOut(BookIn):
    """A book."""

    model_config = ConfigDict(from_attributes=True)
    id: int
    added_at: datetime


class ShelfOut(BaseModel):
    """A shelf with its books."""

    model_config = ConfigDict(from_attributes=True)
    id: int
    name: str
    books: list[BookOut]


class Books(BaseModel):
    """A page of books."""

    total: int
    shelf: str | None
    books: list[BookOut]


def play(folder: str) -> None:
    """Run some rounds of every kind of call, with the database in `folder`, and leave nothing there."""
    os.chdir(folder)
    try:
        _sort_in_the_working_folder()
        app = host.App(_app())
        loop = asyncio.new_event_loop()
        sharing.fill_gaps()
        sharing.lay_together(lambda: _round(loop, app))
        for _ in range(ROUNDS):
            _round(loop, app)
        loop.close()
        _kept.append(app)
        host.close_database()
        host.engines.clear()
    finally:
        Path(database.FILE).unlink(missing_ok=True)
        os.chdir("/")


def _sort_in_the_working_folder() -> None:
    """Make SQLite create its temporary files in each process's working folder.

    SQLite chooses a folder once, here, and could choose one that the sandbox of the forks closes later.
    """
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("PRAGMA temp_store_directory = '.'")


def _round(loop: asyncio.AbstractEventLoop, app: host.App) -> None:
    for name, arguments in (
        ("add_book", {"title": "Gardens", "price": 12.5, "printed": "2020-02-02"}),
        ("list_books", {}),
        ("list_books", {"text": "gard", "order": "title", "limit": 5}),
        ("list_books", {"order": "colour"}),
        ("get_shelf", {"shelf_id": 1}),
        ("get_shelf", {"shelf_id": 99}),
        ("change_book", {"book_id": 1, "title": "Gardens again", "notes": "Torn", "lent": True}),
        ("add_book", {"title": "", "shelf_id": 1}),
        ("lend_books", {"books": [1]}),
        ("remove_book", {"book_id": 1}),
    ):
        host.call(loop, app, name, arguments)
    host.close_database()


def _app() -> FastAPI:
    engine = sqlalchemy.create_engine(f"sqlite:///{database.FILE}", connect_args={"check_same_thread": False})
    open_session = sessionmaker(bind=engine)
    Base.metadata.create_all(engine)
    with open_session.begin() as session:
        session.add(Shelf(name="By the window"))
    app = FastAPI(title="Books")
    _offer(app, open_session)
    return app


def _offer(app: FastAPI, open_session: sessionmaker[Session]) -> None:
    def db() -> Iterator[Session]:
        session = open_session()
        try:
            yield session
        finally:
            session.close()

    Db = Annotated[Session, Depends(db)]

    def row_or_404(session: Session, kind: type[Any], number: int) -> Any:
        row = session.get(kind, number)
        if row is None:
            raise HTTPException(status_code=404, detail=f"no {kind.__name__} {number}")
        return row

    @app.get("/books", operation_id="list_books", response_model=Books)
    def list_books(
        session: Db,
        text: str | None = Query(None, max_length=50),
        order: Literal["id", "title"] = "id",
        limit: int = Query(20, ge=1, le=100),
        offset: int = Query(0, ge=0),
    ) -> Any:
        query = select(Book).join(Book.shelf)
        if text:
            query = query.where(or_(Book.title.ilike(f"%{text}%"), func.lower(Shelf.name) == text, Book.id.in_([0])))
        total = session.scalar(select(func.count()).select_from(query.subquery())) or 0
        rows = session.scalars(query.order_by(getattr(Book, order).desc()).limit(limit).offset(offset)).all()
        return Books(
            total=total,
            shelf=rows[0].shelf.name if rows else None,
            books=[BookOut.model_validate(row) for row in rows],
        )

    @app.get("/shelves/{shelf_id}", operation_id="get_shelf", response_model=ShelfOut)
    async def get_shelf(shelf_id: int, session: Db) -> Any:
        return row_or_404(session, Shelf, shelf_id)

    @app.post("/books", operation_id="add_book", status_code=201)
    def add_book(book: BookIn, session: Db) -> BookOut:
        made = Book(**book.model_dump())
        session.add(made)
        session.commit()
        session.refresh(made)
        return BookOut.model_validate(made)

    @app.patch("/books/{book_id}", operation_id="change_book", response_model=BookOut)
    async def change_book(book_id: int, change: BookIn, session: Db) -> Any:
        book = row_or_404(session, Book, book_id)
        for name, value in change.model_dump(exclude_unset=True).items():
            setattr(book, name, value)
        session.flush()
        session.commit()
        return book

    @app.post("/lendings", operation_id="lend_books")
    def lend_books(books: Annotated[list[int], Body(embed=True)], session: Db) -> dict[str, int]:
        session.execute(update(Book).where(Book.id.in_(books), Book.lent.is_(False)).values(lent=True))
        session.query(Book).filter(Book.lent == True, Book.price != None).count()  # noqa: E711, E712 - as apps write it
        session.commit()
        return {"lent": len(books)}

    @app.delete("/books/{book_id}", operation_id="remove_book", status_code=204)
    def remove_book(book_id: int, session: Db) -> None:
        session.delete(row_or_404(session, Book, book_id))
        session.commit()

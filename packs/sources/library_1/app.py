"""Millbrook Library: readers, titles and copies at four places, loans, holds, transfers, fines and payments."""

import os
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Literal, TypeVar

from fastapi import Depends, FastAPI, HTTPException, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import ForeignKey, create_engine, func, or_, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship, sessionmaker

database_url = os.getenv("DATABASE_PATH", "sqlite:///./library_1.db")
engine = create_engine(database_url, connect_args={"check_same_thread": False})
SessionLocal = sessionmaker(bind=engine, expire_on_commit=False)

LARGEST_ID = 2**31 - 1
LIVE_HOLD = ("waiting", "in_transit", "ready")

Category = Literal["adult", "student", "junior", "school"]
CardStatus = Literal["active", "blocked"]
BranchStatus = Literal["open", "closed"]
TitleKind = Literal["book", "audiobook", "dvd", "game"]
HoldStatus = Literal["waiting", "in_transit", "ready", "collected", "cancelled"]
FineStatus = Literal["open", "paid", "waived"]


def now() -> datetime:
    """The present in UTC without a zone, as the database keeps it."""
    return datetime.now(UTC).replace(microsecond=0, tzinfo=None)


def today() -> date:
    return now().date()


class Base(DeclarativeBase):
    """Base of all tables."""


class Branch(Base):
    __tablename__ = "branches"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    address: Mapped[str]
    status: Mapped[str] = mapped_column(default="open")


class LoanRule(Base):
    __tablename__ = "loan_rules"
    id: Mapped[int] = mapped_column(primary_key=True)
    category: Mapped[str] = mapped_column(unique=True)
    max_loans: Mapped[int]
    loan_weeks: Mapped[int | None]
    max_renewals: Mapped[int]
    fine_per_day: Mapped[float]
    fine_limit: Mapped[float]


class Reader(Base):
    __tablename__ = "readers"
    id: Mapped[int] = mapped_column(primary_key=True)
    card: Mapped[str] = mapped_column(unique=True)
    name: Mapped[str]
    category: Mapped[str]
    status: Mapped[str] = mapped_column(default="active")
    email: Mapped[str | None]
    phone: Mapped[str | None]
    notes: Mapped[str | None]
    joined_on: Mapped[date]


class Title(Base):
    __tablename__ = "titles"
    id: Mapped[int] = mapped_column(primary_key=True)
    title: Mapped[str]
    author: Mapped[str]
    kind: Mapped[str]
    year: Mapped[int]


class Copy(Base):
    __tablename__ = "copies"
    id: Mapped[int] = mapped_column(primary_key=True)
    barcode: Mapped[str] = mapped_column(unique=True)
    title_id: Mapped[int] = mapped_column(ForeignKey("titles.id"))
    branch_id: Mapped[int] = mapped_column(ForeignKey("branches.id"))
    status: Mapped[str] = mapped_column(default="available")
    price: Mapped[float]
    title: Mapped[Title] = relationship()
    branch: Mapped[Branch] = relationship()


class Loan(Base):
    __tablename__ = "loans"
    id: Mapped[int] = mapped_column(primary_key=True)
    copy_id: Mapped[int] = mapped_column(ForeignKey("copies.id"))
    reader_id: Mapped[int] = mapped_column(ForeignKey("readers.id"))
    loaned_on: Mapped[date]
    due_on: Mapped[date]
    renewals: Mapped[int] = mapped_column(default=0)
    ended_on: Mapped[date | None]
    ended_as: Mapped[str | None]
    copy: Mapped[Copy] = relationship()
    reader: Mapped[Reader] = relationship()


class Hold(Base):
    __tablename__ = "holds"
    id: Mapped[int] = mapped_column(primary_key=True)
    title_id: Mapped[int] = mapped_column(ForeignKey("titles.id"))
    reader_id: Mapped[int] = mapped_column(ForeignKey("readers.id"))
    branch_id: Mapped[int] = mapped_column(ForeignKey("branches.id"))
    copy_id: Mapped[int | None] = mapped_column(ForeignKey("copies.id"))
    status: Mapped[str] = mapped_column(default="waiting")
    placed_at: Mapped[datetime] = mapped_column(default=now)
    title: Mapped[Title] = relationship()
    reader: Mapped[Reader] = relationship()
    branch: Mapped[Branch] = relationship()
    copy: Mapped[Copy | None] = relationship()


class Transfer(Base):
    __tablename__ = "transfers"
    id: Mapped[int] = mapped_column(primary_key=True)
    copy_id: Mapped[int] = mapped_column(ForeignKey("copies.id"))
    from_branch_id: Mapped[int] = mapped_column(ForeignKey("branches.id"))
    to_branch_id: Mapped[int] = mapped_column(ForeignKey("branches.id"))
    hold_id: Mapped[int | None] = mapped_column(ForeignKey("holds.id"))
    status: Mapped[str] = mapped_column(default="sent")
    sent_at: Mapped[datetime] = mapped_column(default=now)
    arrived_at: Mapped[datetime | None]


class Fine(Base):
    __tablename__ = "fines"
    id: Mapped[int] = mapped_column(primary_key=True)
    reader_id: Mapped[int] = mapped_column(ForeignKey("readers.id"))
    loan_id: Mapped[int | None] = mapped_column(ForeignKey("loans.id"))
    kind: Mapped[str]
    amount: Mapped[float]
    reason: Mapped[str]
    status: Mapped[str] = mapped_column(default="open")
    waived_because: Mapped[str | None]
    created_at: Mapped[datetime] = mapped_column(default=now)


class Payment(Base):
    __tablename__ = "payments"
    id: Mapped[int] = mapped_column(primary_key=True)
    fine_id: Mapped[int] = mapped_column(ForeignKey("fines.id"))
    amount: Mapped[float]
    method: Mapped[str]
    paid_at: Mapped[datetime] = mapped_column(default=now)


Base.metadata.create_all(bind=engine)


class Row(BaseModel):
    model_config = ConfigDict(from_attributes=True)


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class BranchOut(Row):
    id: int
    name: str
    address: str
    status: str


class LoanRuleOut(Row):
    category: str
    max_loans: int
    loan_weeks: int | None
    max_renewals: int
    fine_per_day: float
    fine_limit: float


class ReaderOut(Row):
    id: int
    card: str
    name: str
    category: str
    status: str
    email: str | None
    phone: str | None
    notes: str | None
    joined_on: date


class TitleOut(Row):
    id: int
    title: str
    author: str
    kind: str
    year: int


class CopyOut(BaseModel):
    id: int
    barcode: str
    title_id: int
    title: str
    branch: str
    status: str
    price: float


class TitleDetail(TitleOut):
    copies: list[CopyOut]
    waiting: int = Field(description="How many readers wait for a copy")


class LoanOut(BaseModel):
    id: int
    copy_id: int
    title: str
    kind: str
    reader_id: int
    reader: str
    loaned_on: date
    due_on: date
    renewals: int
    ended_on: date | None
    ended_as: str | None


class HoldOut(BaseModel):
    id: int
    title_id: int
    title: str
    kind: str
    reader_id: int
    reader: str
    pickup_branch: str
    copy_id: int | None
    status: str
    placed_at: datetime


class TransferOut(Row):
    id: int
    copy_id: int
    from_branch_id: int
    to_branch_id: int
    hold_id: int | None
    status: str
    sent_at: datetime
    arrived_at: datetime | None


class FineOut(BaseModel):
    id: int
    reader_id: int
    loan_id: int | None
    kind: str
    amount: float
    paid: float
    left: float
    reason: str
    status: str
    waived_because: str | None


class ReaderDetail(ReaderOut):
    loans: list[LoanOut] = Field(description="Loans that have not ended")
    holds: list[HoldOut] = Field(description="Holds that are waiting, in transit or ready")


class Returned(BaseModel):
    copy_now: CopyOut
    fine: FineOut | None = Field(description="The overdue fine that was booked, if the copy was late")
    next_hold: HoldOut | None = Field(description="The hold that this copy serves now, if anybody waited")


class BranchChange(Body):
    status: BranchStatus = Field(description="open or closed")


class ReaderChange(Body):
    email: str | None = Field(default=None, min_length=3, max_length=200, pattern=r"^\S+@\S+$", description="New email")
    phone: str | None = Field(default=None, min_length=3, max_length=50, description="New telephone number")
    notes: str | None = Field(default=None, max_length=1000, description="New notes; they replace the old ones")


class CardChange(Body):
    status: CardStatus = Field(description="active or blocked; a blocked card borrows, renews and holds nothing")


class CheckOut(Body):
    reader_id: int = Field(ge=1, le=LARGEST_ID, description="Who borrows")
    copy_id: int = Field(ge=1, le=LARGEST_ID, description="The copy that is handed out")
    loan_weeks: int | None = Field(
        default=None, ge=1, le=26, description="For schools only, and there it must be stated: weeks of the loan"
    )


class Return(Body):
    copy_id: int = Field(ge=1, le=LARGEST_ID, description="The copy that has come back")
    branch_id: int = Field(ge=1, le=LARGEST_ID, description="Where it has come back")


class NewHold(Body):
    reader_id: int = Field(ge=1, le=LARGEST_ID, description="Who waits")
    title_id: int = Field(ge=1, le=LARGEST_ID, description="What for")
    branch_id: int = Field(ge=1, le=LARGEST_ID, description="Where it will be picked up")


class Pickup(Body):
    branch_id: int = Field(ge=1, le=LARGEST_ID, description="The new pick-up branch, which must be open")


class CopyChange(Body):
    status: Literal["available", "repair"] = Field(description="available or repair")


class NewFine(Body):
    reader_id: int = Field(ge=1, le=LARGEST_ID, description="Who is charged")
    loan_id: int = Field(ge=1, le=LARGEST_ID, description="The loan it is about; it must be a loan of that reader")
    kind: Literal["lost", "damage"] = Field(description="lost or damage; overdue fines are booked by themselves")
    amount: float = Field(gt=0, le=1000, allow_inf_nan=False, description="Amount in pounds, e.g. 12.50")
    reason: str = Field(min_length=3, max_length=300, description="What the reader reads on the receipt")


class FinePayment(Body):
    amount: float = Field(gt=0, le=1000, allow_inf_nan=False, description="Amount paid in pounds")
    method: Literal["card", "cash"] = Field(description="How it was paid")


class Waiver(Body):
    reason: str = Field(min_length=3, max_length=300, description="Why nothing more is to be paid")


async def get_session() -> AsyncIterator[Session]:
    """One database session per request."""
    with SessionLocal() as session:
        yield session


Db = Annotated[Session, Depends(get_session)]
BranchId = Annotated[int, Path(ge=1, le=LARGEST_ID, description="Branch number")]
ReaderId = Annotated[int, Path(ge=1, le=LARGEST_ID, description="Reader number (id, not the number on the card)")]
TitleId = Annotated[int, Path(ge=1, le=LARGEST_ID, description="Title number")]
CopyId = Annotated[int, Path(ge=1, le=LARGEST_ID, description="Copy number (id, not the barcode)")]
LoanId = Annotated[int, Path(ge=1, le=LARGEST_ID, description="Loan number")]
HoldId = Annotated[int, Path(ge=1, le=LARGEST_ID, description="Hold number")]
TransferId = Annotated[int, Path(ge=1, le=LARGEST_ID, description="Transfer number")]
FineId = Annotated[int, Path(ge=1, le=LARGEST_ID, description="Fine number")]
OnlyReader = Annotated[int | None, Query(ge=1, le=LARGEST_ID, description="Only those of this reader")]
T = TypeVar("T", bound=Base)

app = FastAPI(title="Millbrook Library", version="1.0.0", description=__doc__ or "")


@app.exception_handler(RequestValidationError)
async def explain_invalid_arguments(request: Request, error: RequestValidationError) -> JSONResponse:
    """The offending input is left out: it may not be encodable at all."""
    wrong = [(".".join(map(str, entry["loc"])), entry["msg"]) for entry in error.errors()]
    detail = [f"{place.encode('ascii', 'backslashreplace').decode()}: {message}" for place, message in wrong]
    return JSONResponse(status_code=422, content={"detail": detail})


def find(db: Session, model: type[T], key: int, label: str) -> T:
    row = db.get(model, key)
    if row is None:
        raise HTTPException(404, f"There is no {label} {key}.")
    return row


def conflict(detail: str) -> HTTPException:
    return HTTPException(409, detail)


def active(reader: Reader) -> Reader:
    if reader.status != "active":
        raise conflict(f"The card of {reader.name} is blocked.")
    return reader


def rule_of(db: Session, reader: Reader) -> LoanRule:
    rule = db.scalar(select(LoanRule).where(LoanRule.category == reader.category))
    if rule is None:
        raise conflict(f"There is no loan rule for the category {reader.category}.")
    return rule


def running(db: Session, loan_id: int) -> Loan:
    loan = find(db, Loan, loan_id, "loan")
    if loan.ended_on is not None:
        raise conflict(f"Loan {loan_id} has ended: {loan.ended_as} on {loan.ended_on}.")
    return loan


def live(db: Session, hold_id: int) -> Hold:
    hold = find(db, Hold, hold_id, "hold")
    if hold.status not in LIVE_HOLD:
        raise conflict(f"Hold {hold_id} is {hold.status} already.")
    return hold


def opened(db: Session, branch_id: int) -> Branch:
    branch = find(db, Branch, branch_id, "branch")
    if branch.status != "open":
        raise conflict(f"The branch {branch.name} is closed.")
    return branch


def queue(db: Session, title_id: int) -> list[Hold]:
    """Who waits for the title, the longest wait first."""
    waiting = select(Hold).where(Hold.title_id == title_id, Hold.status == "waiting")
    return list(db.scalars(waiting.order_by(Hold.placed_at, Hold.id)))


def paid_on(db: Session, fine: Fine) -> float:
    return round(db.scalar(select(func.sum(Payment.amount)).where(Payment.fine_id == fine.id)) or 0.0, 2)


def open_fine(db: Session, fine_id: int) -> Fine:
    fine = find(db, Fine, fine_id, "fine")
    if fine.status != "open":
        raise conflict(f"Fine {fine_id} is {fine.status} already.")
    return fine


def copy_out(copy: Copy) -> CopyOut:
    return CopyOut(
        id=copy.id,
        barcode=copy.barcode,
        title_id=copy.title_id,
        title=copy.title.title,
        branch=copy.branch.name,
        status=copy.status,
        price=copy.price,
    )


def loan_out(loan: Loan) -> LoanOut:
    return LoanOut(
        id=loan.id,
        copy_id=loan.copy_id,
        title=loan.copy.title.title,
        kind=loan.copy.title.kind,
        reader_id=loan.reader_id,
        reader=loan.reader.name,
        loaned_on=loan.loaned_on,
        due_on=loan.due_on,
        renewals=loan.renewals,
        ended_on=loan.ended_on,
        ended_as=loan.ended_as,
    )


def hold_out(hold: Hold) -> HoldOut:
    return HoldOut(
        id=hold.id,
        title_id=hold.title_id,
        title=hold.title.title,
        kind=hold.title.kind,
        reader_id=hold.reader_id,
        reader=hold.reader.name,
        pickup_branch=hold.branch.name,
        copy_id=hold.copy_id,
        status=hold.status,
        placed_at=hold.placed_at,
    )


def fine_out(db: Session, fine: Fine) -> FineOut:
    paid = paid_on(db, fine)
    left = round(fine.amount - paid, 2) if fine.status == "open" else 0.0
    return FineOut(
        id=fine.id,
        reader_id=fine.reader_id,
        loan_id=fine.loan_id,
        kind=fine.kind,
        amount=fine.amount,
        paid=paid,
        left=left,
        reason=fine.reason,
        status=fine.status,
        waived_because=fine.waived_because,
    )


def send(db: Session, hold: Hold, copy: Copy) -> None:
    """The copy travels to where the hold is picked up."""
    hold.status, copy.status = "in_transit", "in_transit"
    db.add(Transfer(copy_id=copy.id, from_branch_id=copy.branch_id, to_branch_id=hold.branch_id, hold_id=hold.id))


def pass_on(db: Session, copy: Copy) -> Hold | None:
    """A copy that is free goes to whoever has waited longest, or stays where it is."""
    hold = next(iter(queue(db, copy.title_id)), None)
    if hold is None:
        copy.status = "available"
        return None
    hold.copy = copy
    if hold.branch_id == copy.branch_id:
        hold.status, copy.status = "ready", "hold_shelf"
    else:
        send(db, hold, copy)
    return hold


@app.get(
    "/branches",
    operation_id="list_branches",
    summary="List branches",
    description="All branches with their numbers and whether they are open.",
)
async def list_branches(db: Db) -> list[BranchOut]:
    return [BranchOut.model_validate(branch) for branch in db.scalars(select(Branch).order_by(Branch.id))]


@app.put(
    "/branches/{branch_id}/status",
    operation_id="set_branch_status",
    summary="Open or close a branch",
    description="Opens or closes a branch. It cannot be closed while a live hold is to be picked up there.",
)
async def set_branch_status(branch_id: BranchId, body: BranchChange, db: Db) -> BranchOut:
    branch = find(db, Branch, branch_id, "branch")
    if branch.status == body.status:
        raise conflict(f"The branch {branch.name} is {body.status} already.")
    due = db.scalars(select(Hold.id).where(Hold.branch_id == branch.id, Hold.status.in_(LIVE_HOLD))).all()
    if body.status == "closed" and due:
        raise conflict(f"{len(due)} live holds are to be picked up at {branch.name}; move them first.")
    branch.status = body.status
    db.commit()
    return BranchOut.model_validate(branch)


@app.get(
    "/loan-rules",
    operation_id="list_loan_rules",
    summary="List loan rules",
    description="For each category of readers: loans at a time, weeks of a loan, renewals, fines in pounds. "
    "Schools have no weeks here, each has an agreement of its own.",
)
async def list_loan_rules(db: Db) -> list[LoanRuleOut]:
    return [LoanRuleOut.model_validate(rule) for rule in db.scalars(select(LoanRule).order_by(LoanRule.id))]


@app.get(
    "/readers",
    operation_id="search_readers",
    summary="Search readers",
    description="Readers whose name, card or notes contain the text; all readers without a text.",
)
async def search_readers(
    db: Db,
    text: Annotated[str | None, Query(max_length=100, description="Part of the name, the card or the notes")] = None,
    category: Annotated[Category | None, Query(description="Only readers of this category")] = None,
    card_status: Annotated[CardStatus | None, Query(description="Only cards in this status")] = None,
) -> list[ReaderOut]:
    query = select(Reader).order_by(Reader.id)
    if text:
        columns = (Reader.name, Reader.card, Reader.notes)
        query = query.where(or_(*(column.icontains(text, autoescape=True) for column in columns)))
    if category is not None:
        query = query.where(Reader.category == category)
    if card_status is not None:
        query = query.where(Reader.status == card_status)
    return [ReaderOut.model_validate(reader) for reader in db.scalars(query)]


@app.get(
    "/readers/{reader_id}",
    operation_id="get_reader",
    summary="Get a reader",
    description="One reader with running loans and live holds. Fines are listed by list_fines.",
)
async def get_reader(reader_id: ReaderId, db: Db) -> ReaderDetail:
    reader = find(db, Reader, reader_id, "reader")
    loans = select(Loan).where(Loan.reader_id == reader.id, Loan.ended_on.is_(None)).order_by(Loan.id)
    holds = select(Hold).where(Hold.reader_id == reader.id, Hold.status.in_(LIVE_HOLD)).order_by(Hold.id)
    return ReaderDetail(
        **ReaderOut.model_validate(reader).model_dump(),
        loans=[loan_out(loan) for loan in db.scalars(loans)],
        holds=[hold_out(hold) for hold in db.scalars(holds)],
    )


@app.patch(
    "/readers/{reader_id}",
    operation_id="update_reader",
    summary="Change a reader",
    description="Changes email, telephone number or notes of a reader; fields left out stay as they are.",
)
async def update_reader(reader_id: ReaderId, body: ReaderChange, db: Db) -> ReaderOut:
    reader = find(db, Reader, reader_id, "reader")
    fields = body.model_dump(exclude_none=True)
    if not fields:
        raise HTTPException(422, "Nothing to change: give at least one of email, phone and notes.")
    for name, value in fields.items():
        setattr(reader, name, value)
    db.commit()
    return ReaderOut.model_validate(reader)


@app.put(
    "/readers/{reader_id}/status",
    operation_id="set_card_status",
    summary="Block a card or free it",
    description="Blocks the card of a reader, or makes it active again.",
)
async def set_card_status(reader_id: ReaderId, body: CardChange, db: Db) -> ReaderOut:
    reader = find(db, Reader, reader_id, "reader")
    if reader.status == body.status:
        raise conflict(f"The card of {reader.name} is {body.status} already.")
    reader.status = body.status
    db.commit()
    return ReaderOut.model_validate(reader)


@app.get(
    "/titles",
    operation_id="search_titles",
    summary="Search titles",
    description="Titles whose name or author contains the text; all titles without a text.",
)
async def search_titles(
    db: Db,
    text: Annotated[str | None, Query(max_length=100, description="Part of the title or the author")] = None,
    kind: Annotated[TitleKind | None, Query(description="Only titles of this kind")] = None,
) -> list[TitleOut]:
    query = select(Title).order_by(Title.id)
    if text:
        query = query.where(or_(*(c.icontains(text, autoescape=True) for c in (Title.title, Title.author))))
    if kind is not None:
        query = query.where(Title.kind == kind)
    return [TitleOut.model_validate(title) for title in db.scalars(query)]


@app.get(
    "/titles/{title_id}",
    operation_id="get_title",
    summary="Get a title",
    description="One title with all its copies, their prices and where they are.",
)
async def get_title(title_id: TitleId, db: Db) -> TitleDetail:
    title = find(db, Title, title_id, "title")
    copies = db.scalars(select(Copy).where(Copy.title_id == title.id).order_by(Copy.id))
    return TitleDetail(
        **TitleOut.model_validate(title).model_dump(),
        copies=[copy_out(copy) for copy in copies],
        waiting=len(queue(db, title.id)),
    )


@app.put(
    "/copies/{copy_id}/status",
    operation_id="set_copy_status",
    summary="Send a copy to repair or back to the shelf",
    description="Takes an available copy away for repair, or puts a repaired one back on the shelf.",
)
async def set_copy_status(copy_id: CopyId, body: CopyChange, db: Db) -> CopyOut:
    copy = find(db, Copy, copy_id, "copy")
    wanted = "repair" if body.status == "available" else "available"
    if copy.status != wanted:
        raise conflict(f"Copy {copy.id} is {copy.status}; only one that is {wanted} can become {body.status}.")
    copy.status = body.status
    db.commit()
    return copy_out(copy)


@app.get(
    "/loans",
    operation_id="list_loans",
    summary="List loans",
    description="Loans, the running ones unless ended ones are asked for as well.",
)
async def list_loans(
    db: Db,
    reader_id: OnlyReader = None,
    title_id: Annotated[int | None, Query(ge=1, le=LARGEST_ID, description="Only loans of this title")] = None,
    with_ended: Annotated[bool, Query(description="True: loans that have ended as well")] = False,
) -> list[LoanOut]:
    query = select(Loan).join(Copy, Copy.id == Loan.copy_id).order_by(Loan.id)
    if reader_id is not None:
        query = query.where(Loan.reader_id == find(db, Reader, reader_id, "reader").id)
    if title_id is not None:
        query = query.where(Copy.title_id == find(db, Title, title_id, "title").id)
    if not with_ended:
        query = query.where(Loan.ended_on.is_(None))
    return [loan_out(loan) for loan in db.scalars(query)]


@app.post(
    "/loans",
    operation_id="check_out",
    status_code=201,
    summary="Check a copy out",
    description="Lends a copy to a reader for the weeks of the reader's category. A copy on the hold shelf goes to the "
    "reader it is kept for and to nobody else. For a school loan_weeks must be stated.",
)
async def check_out(body: CheckOut, db: Db) -> LoanOut:
    reader = active(find(db, Reader, body.reader_id, "reader"))
    copy, rule = find(db, Copy, body.copy_id, "copy"), rule_of(db, reader)
    hold = db.scalar(select(Hold).where(Hold.copy_id == copy.id, Hold.status == "ready"))
    if copy.status not in ("available", "hold_shelf"):
        raise conflict(f"Copy {copy.id} is {copy.status} and cannot be lent.")
    if hold is not None and hold.reader_id != reader.id:
        raise conflict(f"Copy {copy.id} is kept on the hold shelf for {hold.reader.name}.")
    loans = db.scalar(select(func.count()).where(Loan.reader_id == reader.id, Loan.ended_on.is_(None))) or 0
    if loans >= rule.max_loans:
        raise conflict(f"{reader.name} has {loans} loans already, which is the most for the category.")
    weeks = weeks_of(reader, rule, body.loan_weeks)
    loan = Loan(copy=copy, reader=reader, loaned_on=today(), due_on=today() + timedelta(weeks=weeks), renewals=0)
    copy.status = "on_loan"
    if hold is not None:
        hold.status = "collected"
    db.add(loan)
    db.commit()
    return loan_out(loan)


def weeks_of(reader: Reader, rule: LoanRule, stated: int | None) -> int:
    if rule.loan_weeks is None and stated is None:
        raise conflict(f"{reader.name} borrows for a school: state loan_weeks, as agreed with that school.")
    if rule.loan_weeks is not None and stated is not None:
        raise conflict(f"{reader.name} borrows for the {rule.loan_weeks} weeks of the category; leave loan_weeks out.")
    return stated or rule.loan_weeks or 0


@app.post(
    "/returns",
    operation_id="return_copy",
    summary="Take a copy back",
    description="Ends the running loan of a copy, books an overdue fine if it is late, and hands the copy on to "
    "whoever has waited longest for the title.",
)
async def return_copy(body: Return, db: Db) -> Returned:
    copy, branch = find(db, Copy, body.copy_id, "copy"), opened(db, body.branch_id)
    loan = db.scalar(select(Loan).where(Loan.copy_id == copy.id, Loan.ended_on.is_(None)))
    if loan is None:
        raise conflict(f"Copy {copy.id} is {copy.status}; it is not on loan.")
    loan.ended_on, loan.ended_as = today(), "returned"
    days, rule = (today() - loan.due_on).days, rule_of(db, loan.reader)
    amount, fine = round(min(days * rule.fine_per_day, rule.fine_limit), 2), None
    if amount > 0:
        fine = Fine(reader_id=loan.reader_id, loan_id=loan.id, kind="overdue", amount=amount)
        fine.reason = f"{days} days late"
        db.add(fine)
    copy.branch = branch
    db.flush()
    hold = pass_on(db, copy)
    db.commit()
    return Returned(
        copy_now=copy_out(copy),
        fine=fine_out(db, fine) if fine else None,
        next_hold=hold_out(hold) if hold else None,
    )


@app.post(
    "/loans/{loan_id}/renew",
    operation_id="renew_loan",
    summary="Renew a loan",
    description="Moves the due date of a running loan on by the weeks of the reader's category, counted from the old "
    "due date. Not while somebody waits for the title, and not for schools.",
)
async def renew_loan(loan_id: LoanId, db: Db) -> LoanOut:
    loan = running(db, loan_id)
    rule, waiting = rule_of(db, active(loan.reader)), len(queue(db, loan.copy.title_id))
    if waiting:
        raise conflict(f"Loan {loan.id} cannot be renewed: {waiting} wait for {loan.copy.title.title!r}.")
    if rule.loan_weeks is None or loan.renewals >= rule.max_renewals:
        raise conflict(f"Loan {loan.id} was renewed {loan.renewals} times; {rule.max_renewals} is the most.")
    loan.due_on, loan.renewals = loan.due_on + timedelta(weeks=rule.loan_weeks), loan.renewals + 1
    db.commit()
    return loan_out(loan)


@app.post(
    "/loans/{loan_id}/lost",
    operation_id="report_lost",
    summary="Record a borrowed copy as lost",
    description="Ends a running loan as lost and marks its copy as lost. It charges nothing; see add_fine.",
)
async def report_lost(loan_id: LoanId, db: Db) -> LoanOut:
    loan = running(db, loan_id)
    loan.ended_on, loan.ended_as, loan.copy.status = today(), "lost", "lost"
    db.commit()
    return loan_out(loan)


@app.get(
    "/holds",
    operation_id="list_holds",
    summary="List holds",
    description="Holds by number, filtered if you like. Those who wait are served in the order of placed_at.",
)
async def list_holds(
    db: Db,
    reader_id: OnlyReader = None,
    title_id: Annotated[int | None, Query(ge=1, le=LARGEST_ID, description="Only holds on this title")] = None,
    branch_id: Annotated[int | None, Query(ge=1, le=LARGEST_ID, description="Only holds picked up there")] = None,
    hold_status: Annotated[HoldStatus | None, Query(description="Only holds in this status")] = None,
) -> list[HoldOut]:
    query = select(Hold).order_by(Hold.id)
    if reader_id is not None:
        query = query.where(Hold.reader_id == find(db, Reader, reader_id, "reader").id)
    if title_id is not None:
        query = query.where(Hold.title_id == find(db, Title, title_id, "title").id)
    if branch_id is not None:
        query = query.where(Hold.branch_id == find(db, Branch, branch_id, "branch").id)
    if hold_status is not None:
        query = query.where(Hold.status == hold_status)
    return [hold_out(hold) for hold in db.scalars(query)]


@app.post(
    "/holds",
    operation_id="place_hold",
    status_code=201,
    summary="Place a hold",
    description="Puts a reader at the end of the queue for a title. One live hold per reader and title.",
)
async def place_hold(body: NewHold, db: Db) -> HoldOut:
    reader, title = active(find(db, Reader, body.reader_id, "reader")), find(db, Title, body.title_id, "title")
    branch = opened(db, body.branch_id)
    own = select(Hold).where(Hold.reader_id == reader.id, Hold.title_id == title.id, Hold.status.in_(LIVE_HOLD))
    if db.scalar(own) is not None:
        raise conflict(f"{reader.name} has a live hold on {title.title!r} already.")
    borrowed = select(Loan).join(Copy, Copy.id == Loan.copy_id).where(Loan.reader_id == reader.id)
    if db.scalar(borrowed.where(Copy.title_id == title.id, Loan.ended_on.is_(None))) is not None:
        raise conflict(f"{reader.name} has {title.title!r} on loan.")
    hold = Hold(reader=reader, title=title, branch=branch, status="waiting", placed_at=now())
    db.add(hold)
    db.commit()
    return hold_out(hold)


@app.put(
    "/holds/{hold_id}/branch",
    operation_id="change_hold_pickup",
    summary="Change where a hold is picked up",
    description="Gives a waiting or ready hold another pick-up branch. A ready one's copy is sent there at once.",
)
async def change_hold_pickup(hold_id: HoldId, body: Pickup, db: Db) -> HoldOut:
    hold, branch = live(db, hold_id), opened(db, body.branch_id)
    if hold.branch_id == branch.id:
        raise conflict(f"Hold {hold.id} is picked up at {branch.name} already.")
    if hold.status == "in_transit":
        raise conflict(f"The copy of hold {hold.id} is on its way to {hold.branch.name}; wait until it has arrived.")
    hold.branch = branch
    db.flush()
    if hold.copy is not None:
        send(db, hold, hold.copy)
    db.commit()
    return hold_out(hold)


@app.post(
    "/holds/{hold_id}/cancel",
    operation_id="cancel_hold",
    summary="Cancel a hold",
    description="Cancels a waiting or ready hold. A copy that was kept for it goes to the next one who waits.",
)
async def cancel_hold(hold_id: HoldId, db: Db) -> HoldOut:
    hold = live(db, hold_id)
    if hold.status == "in_transit":
        raise conflict(f"The copy of hold {hold.id} is on its way to {hold.branch.name}; wait until it has arrived.")
    copy, hold.status, hold.copy = hold.copy, "cancelled", None
    db.flush()
    if copy is not None:
        pass_on(db, copy)
    db.commit()
    return hold_out(hold)


@app.get(
    "/transfers",
    operation_id="list_transfers",
    summary="List transfers",
    description="Copies that travel or have travelled between branches.",
)
async def list_transfers(
    db: Db,
    on_the_way_only: Annotated[bool, Query(description="True: only those that have not arrived")] = False,
) -> list[TransferOut]:
    query = select(Transfer).order_by(Transfer.id)
    if on_the_way_only:
        query = query.where(Transfer.status == "sent")
    return [TransferOut.model_validate(transfer) for transfer in db.scalars(query)]


@app.post(
    "/transfers/{transfer_id}/receive",
    operation_id="receive_transfer",
    summary="Receive a transfer",
    description="Books a copy as arrived: it goes on the hold shelf if somebody waits for it there, else on the shelf.",
)
async def receive_transfer(transfer_id: TransferId, db: Db) -> TransferOut:
    transfer = find(db, Transfer, transfer_id, "transfer")
    if transfer.status != "sent":
        raise conflict(f"Transfer {transfer.id} has arrived already.")
    copy = find(db, Copy, transfer.copy_id, "copy")
    transfer.status, transfer.arrived_at, copy.branch_id = "arrived", now(), transfer.to_branch_id
    hold = db.get(Hold, transfer.hold_id) if transfer.hold_id else None
    copy.status = "hold_shelf" if hold else "available"
    if hold is not None:
        hold.status = "ready"
    db.commit()
    return TransferOut.model_validate(transfer)


@app.get(
    "/fines",
    operation_id="list_fines",
    summary="List fines",
    description="Fines with what was paid on them and what is left to pay, in pounds.",
)
async def list_fines(
    db: Db,
    reader_id: OnlyReader = None,
    fine_status: Annotated[FineStatus | None, Query(description="Only fines in this status")] = None,
) -> list[FineOut]:
    query = select(Fine).order_by(Fine.id)
    if reader_id is not None:
        query = query.where(Fine.reader_id == find(db, Reader, reader_id, "reader").id)
    if fine_status is not None:
        query = query.where(Fine.status == fine_status)
    return [fine_out(db, fine) for fine in db.scalars(query)]


@app.post(
    "/fines",
    operation_id="add_fine",
    status_code=201,
    summary="Charge for a lost or damaged copy",
    description="Charges a reader for a copy of one of the reader's loans that is lost or damaged.",
)
async def add_fine(body: NewFine, db: Db) -> FineOut:
    reader, loan = find(db, Reader, body.reader_id, "reader"), find(db, Loan, body.loan_id, "loan")
    if loan.reader_id != reader.id:
        raise conflict(f"Loan {loan.id} is not a loan of {reader.name}.")
    if body.kind == "lost" and loan.ended_as != "lost":
        raise conflict(f"Loan {loan.id} has not ended as lost; see report_lost.")
    amount = round(body.amount, 2)
    if amount == 0:
        raise HTTPException(422, "The amount is less than a penny.")
    fine = Fine(reader_id=reader.id, loan_id=loan.id, kind=body.kind, amount=amount, reason=body.reason, status="open")
    db.add(fine)
    db.commit()
    return fine_out(db, fine)


@app.post(
    "/fines/{fine_id}/payments",
    operation_id="pay_fine",
    status_code=201,
    summary="Take a payment for a fine",
    description="Takes a payment on an open fine. The fine is paid once nothing is left of it.",
)
async def pay_fine(fine_id: FineId, body: FinePayment, db: Db) -> FineOut:
    fine, amount = open_fine(db, fine_id), round(body.amount, 2)
    left = fine_out(db, fine).left
    if amount == 0 or amount > left:
        raise conflict(f"Fine {fine.id} has {left:.2f} left to pay; the payment must lie within that.")
    db.add(Payment(fine_id=fine.id, amount=amount, method=body.method))
    if amount == left:
        fine.status = "paid"
    db.commit()
    return fine_out(db, fine)


@app.post(
    "/fines/{fine_id}/waive",
    operation_id="waive_fine",
    summary="Waive a fine",
    description="Waives what is left of an open fine, with the reason. This cannot be taken back.",
)
async def waive_fine(fine_id: FineId, body: Waiver, db: Db) -> FineOut:
    fine = open_fine(db, fine_id)
    fine.status, fine.waived_because = "waived", body.reason
    db.commit()
    return fine_out(db, fine)


if __name__ == "__main__":
    import uvicorn

    uvicorn.run(app, host=os.getenv("HOST", "127.0.0.1"), port=int(os.getenv("PORT", "8000")))

"""Spoke & Chain, a bicycle repair shop: customers, bikes, repair jobs, quotes, invoices, parts and supplier orders."""

import os
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import Annotated, Any, Literal, TypeVar

import uvicorn
from fastapi import Depends, FastAPI, HTTPException, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Boolean, Date, DateTime, Float, ForeignKey, Integer, Text, create_engine, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, sessionmaker

database_url = os.getenv("DATABASE_PATH", "sqlite:///./repairshop_1.db")
engine = create_engine(database_url, connect_args={"check_same_thread": False})
SessionLocal = sessionmaker(bind=engine, expire_on_commit=False)


# ---------------------------------------------------------------- tables


class Base(DeclarativeBase):
    pass


class Customer(Base):
    __tablename__ = "customers"
    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    name: Mapped[str] = mapped_column(Text)
    email: Mapped[str] = mapped_column(Text, unique=True)
    phone: Mapped[str] = mapped_column(Text)
    loyalty_member: Mapped[bool] = mapped_column(Boolean, default=False)
    loyalty_since: Mapped[date | None] = mapped_column(Date)
    created_at: Mapped[datetime] = mapped_column(DateTime)


class Bike(Base):
    __tablename__ = "bikes"
    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    customer_id: Mapped[int] = mapped_column(ForeignKey("customers.id"))
    brand: Mapped[str] = mapped_column(Text)
    model: Mapped[str] = mapped_column(Text)
    kind: Mapped[str] = mapped_column(Text)
    frame_number: Mapped[str] = mapped_column(Text, unique=True)
    created_at: Mapped[datetime] = mapped_column(DateTime)


class Mechanic(Base):
    __tablename__ = "mechanics"
    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    name: Mapped[str] = mapped_column(Text, unique=True)
    strengths: Mapped[str] = mapped_column(Text)
    weekly_hours: Mapped[int] = mapped_column(Integer)
    active: Mapped[bool] = mapped_column(Boolean, default=True)


class Service(Base):
    __tablename__ = "services"
    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    code: Mapped[str] = mapped_column(Text, unique=True)
    name: Mapped[str] = mapped_column(Text)
    price: Mapped[float] = mapped_column(Float)
    minutes: Mapped[int] = mapped_column(Integer)


class Supplier(Base):
    __tablename__ = "suppliers"
    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    name: Mapped[str] = mapped_column(Text, unique=True)
    email: Mapped[str] = mapped_column(Text)
    delivery_days: Mapped[int] = mapped_column(Integer)


class Part(Base):
    __tablename__ = "parts"
    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    sku: Mapped[str] = mapped_column(Text, unique=True)
    name: Mapped[str] = mapped_column(Text)
    supplier_id: Mapped[int] = mapped_column(ForeignKey("suppliers.id"))
    price: Mapped[float] = mapped_column(Float)
    purchase_price: Mapped[float] = mapped_column(Float)
    stock: Mapped[int] = mapped_column(Integer)
    min_stock: Mapped[int] = mapped_column(Integer)
    target_stock: Mapped[int] = mapped_column(Integer)
    pack_size: Mapped[int] = mapped_column(Integer, default=1)
    discontinued: Mapped[bool] = mapped_column(Boolean, default=False)


class Job(Base):
    __tablename__ = "jobs"
    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    bike_id: Mapped[int] = mapped_column(ForeignKey("bikes.id"))
    mechanic_id: Mapped[int | None] = mapped_column(ForeignKey("mechanics.id"))
    status: Mapped[str] = mapped_column(Text, default="open")
    problem: Mapped[str] = mapped_column(Text)
    due_on: Mapped[date | None] = mapped_column(Date)
    created_at: Mapped[datetime] = mapped_column(DateTime)
    updated_at: Mapped[datetime] = mapped_column(DateTime)


class JobService(Base):
    __tablename__ = "job_services"
    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    job_id: Mapped[int] = mapped_column(ForeignKey("jobs.id"))
    service_id: Mapped[int] = mapped_column(ForeignKey("services.id"))
    price: Mapped[float] = mapped_column(Float)
    created_at: Mapped[datetime] = mapped_column(DateTime)


class JobPart(Base):
    __tablename__ = "job_parts"
    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    job_id: Mapped[int] = mapped_column(ForeignKey("jobs.id"))
    part_id: Mapped[int] = mapped_column(ForeignKey("parts.id"))
    quantity: Mapped[int] = mapped_column(Integer)
    unit_price: Mapped[float] = mapped_column(Float)
    created_at: Mapped[datetime] = mapped_column(DateTime)


class Quote(Base):
    __tablename__ = "quotes"
    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    job_id: Mapped[int] = mapped_column(ForeignKey("jobs.id"))
    labour_total: Mapped[float] = mapped_column(Float)
    parts_total: Mapped[float] = mapped_column(Float)
    labour_discount_percent: Mapped[float] = mapped_column(Float, default=0.0)
    parts_discount_percent: Mapped[float] = mapped_column(Float, default=0.0)
    total: Mapped[float] = mapped_column(Float)
    status: Mapped[str] = mapped_column(Text, default="draft")
    created_at: Mapped[datetime] = mapped_column(DateTime)
    sent_at: Mapped[datetime | None] = mapped_column(DateTime)


class Invoice(Base):
    __tablename__ = "invoices"
    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    number: Mapped[str] = mapped_column(Text, unique=True)
    job_id: Mapped[int] = mapped_column(ForeignKey("jobs.id"))
    customer_id: Mapped[int] = mapped_column(ForeignKey("customers.id"))
    total: Mapped[float] = mapped_column(Float)
    status: Mapped[str] = mapped_column(Text, default="open")
    issued_at: Mapped[datetime] = mapped_column(DateTime)


class Payment(Base):
    __tablename__ = "payments"
    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    invoice_id: Mapped[int] = mapped_column(ForeignKey("invoices.id"))
    amount: Mapped[float] = mapped_column(Float)
    method: Mapped[str] = mapped_column(Text)
    paid_at: Mapped[datetime] = mapped_column(DateTime)


class Note(Base):
    __tablename__ = "notes"
    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    job_id: Mapped[int] = mapped_column(ForeignKey("jobs.id"))
    kind: Mapped[str] = mapped_column(Text)
    text: Mapped[str] = mapped_column(Text)
    created_at: Mapped[datetime] = mapped_column(DateTime)


class SupplierOrder(Base):
    __tablename__ = "supplier_orders"
    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    supplier_id: Mapped[int] = mapped_column(ForeignKey("suppliers.id"))
    status: Mapped[str] = mapped_column(Text, default="draft")
    created_at: Mapped[datetime] = mapped_column(DateTime)
    placed_at: Mapped[datetime | None] = mapped_column(DateTime)
    received_at: Mapped[datetime | None] = mapped_column(DateTime)


class SupplierOrderLine(Base):
    __tablename__ = "supplier_order_lines"
    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    order_id: Mapped[int] = mapped_column(ForeignKey("supplier_orders.id"))
    part_id: Mapped[int] = mapped_column(ForeignKey("parts.id"))
    packs: Mapped[int] = mapped_column(Integer)
    units: Mapped[int] = mapped_column(Integer)


Base.metadata.create_all(engine)


# ---------------------------------------------------------------- shapes

JobStatus = Literal["open", "in_progress", "waiting_parts", "ready", "collected", "cancelled"]
NoteKind = Literal["info", "call_first", "reminder", "complaint"]
InvoiceStatus = Literal["open", "paid", "cancelled"]
OrderStatus = Literal["draft", "placed", "received", "cancelled"]
BikeKind = Literal["city", "road", "mountain", "folding", "cargo", "ebike"]
MAX_ID = 1_000_000_000


class Row(BaseModel):
    model_config = ConfigDict(from_attributes=True)


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class BikeOut(Row):
    id: int
    customer_id: int
    brand: str
    model: str
    kind: str
    frame_number: str


class CustomerBrief(Row):
    id: int
    name: str
    email: str
    phone: str
    loyalty_member: bool
    loyalty_since: date | None


class CustomerOut(CustomerBrief):
    bikes: list[BikeOut]


class MechanicOut(Row):
    id: int
    name: str
    strengths: str
    weekly_hours: int
    active: bool


class ServiceOut(Row):
    id: int
    code: str
    name: str
    price: float
    minutes: int


class PartOut(Row):
    id: int
    sku: str
    name: str
    supplier_id: int
    price: float
    stock: int
    min_stock: int
    target_stock: int
    pack_size: int
    discontinued: bool


class JobBrief(BaseModel):
    id: int
    customer_id: int
    customer_name: str
    bike_id: int
    bike: str
    mechanic: str | None
    status: str
    problem: str
    due_on: date | None


class ServiceLine(BaseModel):
    line_id: int
    service_code: str
    name: str
    price: float


class PartLine(BaseModel):
    line_id: int
    part_id: int
    name: str
    quantity: int
    unit_price: float


class QuoteOut(Row):
    id: int
    job_id: int
    labour_total: float
    parts_total: float
    labour_discount_percent: float
    parts_discount_percent: float
    total: float
    status: str
    created_at: datetime
    sent_at: datetime | None


class NoteOut(Row):
    id: int
    job_id: int
    kind: str
    text: str
    created_at: datetime


class JobOut(JobBrief):
    services: list[ServiceLine]
    parts: list[PartLine]
    labour_total: float
    parts_total: float
    quotes: list[QuoteOut]
    notes: list[NoteOut]


class InvoiceBrief(Row):
    id: int
    number: str
    job_id: int
    customer_id: int
    total: float
    status: str
    issued_at: datetime


class PaymentOut(Row):
    id: int
    amount: float
    method: str
    paid_at: datetime


class InvoiceOut(InvoiceBrief):
    payments: list[PaymentOut]


class SupplierOut(Row):
    id: int
    name: str
    email: str
    delivery_days: int


class OrderLineOut(BaseModel):
    line_id: int
    part_id: int
    name: str
    packs: int
    units: int


class OrderOut(BaseModel):
    id: int
    supplier_id: int
    supplier: str
    status: str
    created_at: datetime
    placed_at: datetime | None
    received_at: datetime | None
    lines: list[OrderLineOut]


class NewJob(Body):
    bike_id: int = Field(ge=1, le=MAX_ID, description="The bike to be repaired")
    problem: str = Field(min_length=3, max_length=500, description="What is wrong, in the customer's words")
    due_on: date | None = Field(default=None, description="Promised day, YYYY-MM-DD; leave out if none is promised")


class Assignment(Body):
    mechanic_name: str = Field(min_length=1, max_length=60, description="First name of the mechanic, as listed")


class StatusChange(Body):
    status: JobStatus = Field(description="The new status of the job")


class NewServiceLine(Body):
    service_code: str = Field(min_length=1, max_length=20, description="Code from the labour price list, e.g. TUNE-S")


class NewPartLine(Body):
    part_id: int = Field(ge=1, le=MAX_ID, description="The part to take from stock")
    quantity: int = Field(default=1, ge=1, le=100, description="How many pieces")


class NewNote(Body):
    kind: NoteKind = Field(
        description="info: for colleagues; call_first: phone the customer before anything is sent; "
        "reminder: something to do later; complaint: the customer complained"
    )
    text: str = Field(min_length=3, max_length=1000, description="The note itself")


class NewQuote(Body):
    job_id: int = Field(ge=1, le=MAX_ID, description="The job to quote, with all its labour and part lines")
    labour_discount_percent: float | None = Field(
        default=None, ge=0, le=100, allow_inf_nan=False, description="Discount on labour in percent, e.g. 5"
    )
    parts_discount_percent: float | None = Field(
        default=None, ge=0, le=100, allow_inf_nan=False, description="Discount on parts in percent, e.g. 5"
    )


class NewInvoice(Body):
    job_id: int = Field(ge=1, le=MAX_ID, description="The job to invoice; it must be ready")


class NewPayment(Body):
    amount: float = Field(gt=0, le=100_000, allow_inf_nan=False, description="Amount paid in euros")
    method: Literal["card", "cash", "transfer"] = Field(description="How it was paid")


class NewOrder(Body):
    supplier_id: int = Field(ge=1, le=MAX_ID, description="The supplier to order from")


class NewOrderLine(Body):
    part_id: int = Field(ge=1, le=MAX_ID, description="The part to order")
    packs: int = Field(ge=1, le=1000, description="Number of whole packs; a pack holds pack_size pieces")


# ---------------------------------------------------------------- lookups and arithmetic

app = FastAPI(title="Spoke & Chain", version="1.0.0", description="Front desk and parts store of a bicycle repair shop")

FINAL = ("collected", "cancelled")
NEXT_STATUS: dict[str, tuple[str, ...]] = {
    "open": ("in_progress", "waiting_parts", "cancelled"),
    "in_progress": ("waiting_parts", "ready", "cancelled"),
    "waiting_parts": ("in_progress", "cancelled"),
    "ready": ("in_progress", "collected"),
    "collected": (),
    "cancelled": (),
}
T = TypeVar("T", bound=Base)


async def get_db() -> AsyncIterator[Session]:
    with SessionLocal() as db:
        yield db


Db = Annotated[Session, Depends(get_db)]
CustomerId = Annotated[int, Path(ge=1, le=MAX_ID, description="Id of the customer")]
JobId = Annotated[int, Path(ge=1, le=MAX_ID, description="Id of the repair job")]
QuoteId = Annotated[int, Path(ge=1, le=MAX_ID, description="Id of the quote")]
InvoiceId = Annotated[int, Path(ge=1, le=MAX_ID, description="Id of the invoice")]
OrderId = Annotated[int, Path(ge=1, le=MAX_ID, description="Id of the supplier order")]
LineId = Annotated[int, Path(ge=1, le=MAX_ID, description="Id of the line (line_id)")]
Search = Annotated[str | None, Query(max_length=100, description="Part of the name; upper and lower case are the same")]


@app.exception_handler(RequestValidationError)
async def explain_invalid_arguments(request: Request, error: RequestValidationError) -> JSONResponse:
    """The offending input is left out: it may not be encodable at all."""
    detail = [
        {"loc": [str(part).encode("ascii", "backslashreplace").decode() for part in e["loc"]], "msg": e["msg"]}
        for e in error.errors()
    ]
    return JSONResponse(status_code=422, content={"detail": detail})


def now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0, tzinfo=None)


def money(value: float) -> float:
    return float(Decimal(str(value)).quantize(Decimal("0.01"), ROUND_HALF_UP))


def reduced(value: float, percent: float) -> float:
    exact = Decimal(str(value)) * (100 - Decimal(str(percent))) / 100
    return float(exact.quantize(Decimal("0.01"), ROUND_HALF_UP))


def found(db: Session, model: type[T], key: int, label: str) -> T:
    row = db.get(model, key)
    if row is None:
        raise HTTPException(status_code=404, detail=f"There is no {label} with id {key}.")
    return row


def conflict(detail: str) -> HTTPException:
    return HTTPException(status_code=409, detail=detail)


def unfinished(job: Job) -> Job:
    if job.status in FINAL:
        raise conflict(f"Job {job.id} is {job.status} and can no longer be changed.")
    return job


def brief(db: Session, job: Job) -> dict[str, Any]:
    bike = found(db, Bike, job.bike_id, "bike")
    customer = found(db, Customer, bike.customer_id, "customer")
    mechanic = db.get(Mechanic, job.mechanic_id) if job.mechanic_id else None
    return {
        "id": job.id,
        "customer_id": customer.id,
        "customer_name": customer.name,
        "bike_id": bike.id,
        "bike": f"{bike.brand} {bike.model} ({bike.kind})",
        "mechanic": mechanic.name if mechanic else None,
        "status": job.status,
        "problem": job.problem,
        "due_on": job.due_on,
    }


def service_lines(db: Session, job_id: int) -> list[ServiceLine]:
    rows = db.execute(
        select(JobService, Service)
        .join(Service, Service.id == JobService.service_id)
        .where(JobService.job_id == job_id)
        .order_by(JobService.id)
    ).all()
    return [ServiceLine(line_id=li.id, service_code=s.code, name=s.name, price=li.price) for li, s in rows]


def part_lines(db: Session, job_id: int) -> list[PartLine]:
    rows = db.execute(
        select(JobPart, Part)
        .join(Part, Part.id == JobPart.part_id)
        .where(JobPart.job_id == job_id)
        .order_by(JobPart.id)
    ).all()
    return [
        PartLine(line_id=li.id, part_id=p.id, name=p.name, quantity=li.quantity, unit_price=li.unit_price)
        for li, p in rows
    ]


def totals(db: Session, job_id: int) -> tuple[float, float]:
    labour = money(sum(line.price for line in service_lines(db, job_id)))
    return labour, money(sum(line.unit_price * line.quantity for line in part_lines(db, job_id)))


def full_job(db: Session, job: Job) -> JobOut:
    labour, parts = totals(db, job.id)
    quotes = db.scalars(select(Quote).where(Quote.job_id == job.id).order_by(Quote.id)).all()
    notes = db.scalars(select(Note).where(Note.job_id == job.id).order_by(Note.id)).all()
    return JobOut(
        **brief(db, job),
        services=service_lines(db, job.id),
        parts=part_lines(db, job.id),
        labour_total=labour,
        parts_total=parts,
        quotes=[QuoteOut.model_validate(q) for q in quotes],
        notes=[NoteOut.model_validate(n) for n in notes],
    )


def full_invoice(db: Session, invoice: Invoice) -> InvoiceOut:
    payments = db.scalars(select(Payment).where(Payment.invoice_id == invoice.id).order_by(Payment.id)).all()
    head = InvoiceBrief.model_validate(invoice).model_dump()
    return InvoiceOut(**head, payments=[PaymentOut.model_validate(p) for p in payments])


def full_order(db: Session, order: SupplierOrder) -> OrderOut:
    rows = db.execute(
        select(SupplierOrderLine, Part)
        .join(Part, Part.id == SupplierOrderLine.part_id)
        .where(SupplierOrderLine.order_id == order.id)
        .order_by(SupplierOrderLine.id)
    ).all()
    return OrderOut(
        id=order.id,
        supplier_id=order.supplier_id,
        supplier=found(db, Supplier, order.supplier_id, "supplier").name,
        status=order.status,
        created_at=order.created_at,
        placed_at=order.placed_at,
        received_at=order.received_at,
        lines=[
            OrderLineOut(line_id=li.id, part_id=p.id, name=p.name, packs=li.packs, units=li.units) for li, p in rows
        ],
    )


# ---------------------------------------------------------------- customers, bikes, mechanics


@app.get(
    "/customers",
    operation_id="list_customers",
    summary="List customers",
    description="Lists customers by name, optionally only those whose name contains a text or only loyalty members.",
)
async def list_customers(
    db: Db,
    search: Search = None,
    loyalty_only: Annotated[bool, Query(description="Only members of the loyalty programme")] = False,
) -> list[CustomerBrief]:
    query = select(Customer).order_by(Customer.name)
    if search:
        query = query.where(Customer.name.icontains(search, autoescape=True))
    if loyalty_only:
        query = query.where(Customer.loyalty_member.is_(True))
    return [CustomerBrief.model_validate(c) for c in db.scalars(query)]


@app.get(
    "/customers/{customer_id}",
    operation_id="get_customer",
    summary="Get one customer",
    description="Returns a customer with contact details, loyalty membership and all bikes.",
)
async def get_customer(customer_id: CustomerId, db: Db) -> CustomerOut:
    customer = found(db, Customer, customer_id, "customer")
    bikes = db.scalars(select(Bike).where(Bike.customer_id == customer.id).order_by(Bike.id)).all()
    head = CustomerBrief.model_validate(customer).model_dump()
    return CustomerOut(**head, bikes=[BikeOut.model_validate(b) for b in bikes])


@app.get(
    "/bikes",
    operation_id="list_bikes",
    summary="List bikes",
    description="Lists bikes, optionally of one customer or of one kind.",
)
async def list_bikes(
    db: Db,
    customer_id: Annotated[int | None, Query(ge=1, le=MAX_ID, description="Only bikes of this customer")] = None,
    kind: Annotated[BikeKind | None, Query(description="Only bikes of this kind")] = None,
) -> list[BikeOut]:
    query = select(Bike).order_by(Bike.id)
    if customer_id is not None:
        query = query.where(Bike.customer_id == customer_id)
    if kind is not None:
        query = query.where(Bike.kind == kind)
    return [BikeOut.model_validate(b) for b in db.scalars(query)]


@app.get(
    "/mechanics",
    operation_id="list_mechanics",
    summary="List mechanics",
    description="Lists all mechanics with what they are good at. Only active mechanics can be given a job.",
)
async def list_mechanics(db: Db) -> list[MechanicOut]:
    return [MechanicOut.model_validate(m) for m in db.scalars(select(Mechanic).order_by(Mechanic.id))]


@app.get(
    "/services",
    operation_id="list_services",
    summary="List the labour price list",
    description="Lists all services with code, price in euros and planned minutes.",
)
async def list_services(db: Db) -> list[ServiceOut]:
    return [ServiceOut.model_validate(s) for s in db.scalars(select(Service).order_by(Service.id))]


# ---------------------------------------------------------------- parts


@app.get(
    "/parts",
    operation_id="list_parts",
    summary="List parts",
    description="Lists parts with price, stock, minimum and target stock and pack size. "
    "A part is low when its stock is at or below its minimum. Open supplier orders are not looked at.",
)
async def list_parts(
    db: Db,
    search: Search = None,
    supplier_id: Annotated[int | None, Query(ge=1, le=MAX_ID, description="Only parts of this supplier")] = None,
    low_stock_only: Annotated[bool, Query(description="Only parts at or below their minimum stock")] = False,
) -> list[PartOut]:
    query = select(Part).order_by(Part.id)
    if search:
        query = query.where(Part.name.icontains(search, autoescape=True))
    if supplier_id is not None:
        query = query.where(Part.supplier_id == supplier_id)
    if low_stock_only:
        query = query.where(Part.stock <= Part.min_stock)
    return [PartOut.model_validate(p) for p in db.scalars(query)]


# ---------------------------------------------------------------- repair jobs


@app.get(
    "/jobs",
    operation_id="list_jobs",
    summary="List repair jobs",
    description="Lists repair jobs, newest first, optionally by status, customer, bike or mechanic.",
)
async def list_jobs(
    db: Db,
    status: Annotated[JobStatus | None, Query(description="Only jobs in this status")] = None,
    customer_id: Annotated[int | None, Query(ge=1, le=MAX_ID, description="Only jobs of this customer")] = None,
    bike_id: Annotated[int | None, Query(ge=1, le=MAX_ID, description="Only jobs of this bike")] = None,
    mechanic_name: Annotated[str | None, Query(max_length=60, description="Only jobs of this mechanic")] = None,
) -> list[JobBrief]:
    query = select(Job).join(Bike, Bike.id == Job.bike_id).order_by(Job.id.desc())
    if status is not None:
        query = query.where(Job.status == status)
    if customer_id is not None:
        query = query.where(Bike.customer_id == customer_id)
    if bike_id is not None:
        query = query.where(Job.bike_id == bike_id)
    if mechanic_name is not None:
        query = query.where(Job.mechanic_id == mechanic_called(db, mechanic_name).id)
    return [JobBrief(**brief(db, job)) for job in db.scalars(query)]


def mechanic_called(db: Session, name: str) -> Mechanic:
    mechanics = db.scalars(select(Mechanic).order_by(Mechanic.id)).all()
    for mechanic in mechanics:
        if mechanic.name.lower() == name.strip().lower():
            return mechanic
    names = ", ".join(m.name for m in mechanics)
    raise HTTPException(status_code=404, detail=f"There is no mechanic of that name. The mechanics are: {names}.")


@app.get(
    "/jobs/{job_id}",
    operation_id="get_job",
    summary="Get one repair job",
    description="Returns a job with its labour lines, part lines, totals before discount, quotes and notes.",
)
async def get_job(job_id: JobId, db: Db) -> JobOut:
    return full_job(db, found(db, Job, job_id, "job"))


@app.post(
    "/jobs",
    operation_id="create_job",
    status_code=201,
    summary="Open a repair job",
    description="Opens a repair job for a bike. A bike can have only one unfinished job at a time.",
)
async def create_job(body: NewJob, db: Db) -> JobOut:
    bike = found(db, Bike, body.bike_id, "bike")
    other = db.scalars(select(Job).where(Job.bike_id == bike.id, Job.status.not_in(FINAL))).first()
    if other is not None:
        raise conflict(f"Bike {bike.id} already has an unfinished job: {other.id} ({other.status}).")
    stamp = now()
    job = Job(bike_id=bike.id, status="open", problem=body.problem, due_on=body.due_on)
    job.created_at = job.updated_at = stamp
    db.add(job)
    db.commit()
    return full_job(db, job)


@app.put(
    "/jobs/{job_id}/mechanic",
    operation_id="assign_mechanic",
    summary="Give a job to a mechanic",
    description="Gives an unfinished job to an active mechanic, in place of whoever had it.",
)
async def assign_mechanic(job_id: JobId, body: Assignment, db: Db) -> JobOut:
    job = unfinished(found(db, Job, job_id, "job"))
    mechanic = mechanic_called(db, body.mechanic_name)
    if not mechanic.active:
        raise conflict(f"{mechanic.name} is no longer active and cannot be given jobs.")
    if job.mechanic_id != mechanic.id:
        job.mechanic_id = mechanic.id
        job.updated_at = now()
        db.commit()
    return full_job(db, job)


@app.put(
    "/jobs/{job_id}/status",
    operation_id="update_job_status",
    summary="Move a job to another status",
    description="Moves a job on: open to in_progress, waiting_parts or cancelled; in_progress to waiting_parts, ready "
    "or cancelled; waiting_parts to in_progress or cancelled; ready to in_progress or collected. "
    "Work needs a mechanic, and a job is collected only after it was invoiced, and cancelled only without parts on it.",
)
async def update_job_status(job_id: JobId, body: StatusChange, db: Db) -> JobOut:
    job = found(db, Job, job_id, "job")
    if body.status == job.status:
        return full_job(db, job)
    if body.status not in NEXT_STATUS[job.status]:
        allowed = ", ".join(NEXT_STATUS[job.status]) or "nothing else"
        raise conflict(f"Job {job.id} is {job.status} and cannot become {body.status}; possible: {allowed}.")
    if body.status == "in_progress" and job.mechanic_id is None:
        raise conflict(f"Job {job.id} has no mechanic yet; assign one before work starts.")
    if body.status == "cancelled" and part_lines(db, job.id):
        raise conflict(f"Job {job.id} still holds parts; take them off first, so that they go back into stock.")
    if body.status == "collected" and not live_invoice(db, job.id):
        raise conflict(f"Job {job.id} has no invoice yet; it cannot be handed out.")
    job.status = body.status
    job.updated_at = now()
    db.commit()
    return full_job(db, job)


def live_invoice(db: Session, job_id: int) -> Invoice | None:
    return db.scalars(select(Invoice).where(Invoice.job_id == job_id, Invoice.status != "cancelled")).first()


@app.post(
    "/jobs/{job_id}/services",
    operation_id="add_service_to_job",
    status_code=201,
    summary="Put a service on a job",
    description="Adds one labour line from the price list, at the list price, to an unfinished job.",
)
async def add_service_to_job(job_id: JobId, body: NewServiceLine, db: Db) -> JobOut:
    job = unfinished(found(db, Job, job_id, "job"))
    code = body.service_code.strip().upper()
    service = db.scalars(select(Service).where(Service.code == code)).first()
    if service is None:
        raise HTTPException(status_code=404, detail="There is no service with that code; see list_services.")
    db.add(JobService(job_id=job.id, service_id=service.id, price=service.price, created_at=now()))
    db.commit()
    return full_job(db, job)


@app.delete(
    "/jobs/{job_id}/services/{line_id}",
    operation_id="remove_service_from_job",
    summary="Take a service off a job",
    description="Removes one labour line from an unfinished job.",
)
async def remove_service_from_job(job_id: JobId, line_id: LineId, db: Db) -> JobOut:
    job = unfinished(found(db, Job, job_id, "job"))
    line = db.get(JobService, line_id)
    if line is None or line.job_id != job.id:
        raise HTTPException(status_code=404, detail=f"Job {job.id} has no labour line {line_id}.")
    db.delete(line)
    db.commit()
    return full_job(db, job)


@app.post(
    "/jobs/{job_id}/parts",
    operation_id="add_part_to_job",
    status_code=201,
    summary="Put a part on a job",
    description="Takes pieces of a part from stock and adds them as one part line to an unfinished job.",
)
async def add_part_to_job(job_id: JobId, body: NewPartLine, db: Db) -> JobOut:
    job = unfinished(found(db, Job, job_id, "job"))
    part = found(db, Part, body.part_id, "part")
    if part.stock < body.quantity:
        raise conflict(f"Only {part.stock} of {part.name} in stock, {body.quantity} wanted.")
    part.stock -= body.quantity
    line = JobPart(job_id=job.id, part_id=part.id, quantity=body.quantity, unit_price=part.price, created_at=now())
    db.add(line)
    db.commit()
    return full_job(db, job)


@app.delete(
    "/jobs/{job_id}/parts/{line_id}",
    operation_id="remove_part_from_job",
    summary="Take a part off a job",
    description="Removes one part line from an unfinished job and puts its pieces back into stock.",
)
async def remove_part_from_job(job_id: JobId, line_id: LineId, db: Db) -> JobOut:
    job = unfinished(found(db, Job, job_id, "job"))
    line = db.get(JobPart, line_id)
    if line is None or line.job_id != job.id:
        raise HTTPException(status_code=404, detail=f"Job {job.id} has no part line {line_id}.")
    found(db, Part, line.part_id, "part").stock += line.quantity
    db.delete(line)
    db.commit()
    return full_job(db, job)


@app.post(
    "/jobs/{job_id}/notes",
    operation_id="add_job_note",
    status_code=201,
    summary="Write a note on a job",
    description="Adds a note to a job. A call_first note makes the desk phone the customer before a quote goes out.",
)
async def add_job_note(job_id: JobId, body: NewNote, db: Db) -> NoteOut:
    job = found(db, Job, job_id, "job")
    note = Note(job_id=job.id, kind=body.kind, text=body.text, created_at=now())
    db.add(note)
    db.commit()
    return NoteOut.model_validate(note)


# ---------------------------------------------------------------- quotes


@app.post(
    "/quotes",
    operation_id="create_quote",
    status_code=201,
    summary="Draft a quote",
    description="Drafts a quote from the lines a job has now, with separate discounts on labour and on parts. "
    "The customer sees nothing before send_quote. For loyalty members both discounts must be stated; "
    "for others they default to 0.",
)
async def create_quote(body: NewQuote, db: Db) -> QuoteOut:
    job = unfinished(found(db, Job, body.job_id, "job"))
    live = db.scalars(select(Quote).where(Quote.job_id == job.id, Quote.status != "declined")).first()
    if live is not None:
        raise conflict(f"Job {job.id} already has quote {live.id} ({live.status}); a draft can be discarded first.")
    labour, parts = totals(db, job.id)
    if labour + parts == 0:
        raise conflict(f"Job {job.id} has no labour or part lines to quote yet.")
    percents = (body.labour_discount_percent, body.parts_discount_percent)
    customer = found(db, Customer, brief(db, job)["customer_id"], "customer")
    if customer.loyalty_member and None in percents:
        raise conflict(
            f"{customer.name} is a loyalty member: state labour_discount_percent and parts_discount_percent, "
            "as the house rule for loyalty members says."
        )
    off_labour, off_parts = (percent or 0.0 for percent in percents)
    quote = Quote(job_id=job.id, labour_total=labour, parts_total=parts, status="draft", created_at=now())
    quote.labour_discount_percent, quote.parts_discount_percent = off_labour, off_parts
    quote.total = money(reduced(labour, off_labour) + reduced(parts, off_parts))
    db.add(quote)
    db.commit()
    return QuoteOut.model_validate(quote)


@app.get(
    "/quotes/{quote_id}",
    operation_id="get_quote",
    summary="Get one quote",
    description="Returns a quote with totals before discount, discounts, total to pay and status.",
)
async def get_quote(quote_id: QuoteId, db: Db) -> QuoteOut:
    return QuoteOut.model_validate(found(db, Quote, quote_id, "quote"))


@app.post(
    "/quotes/{quote_id}/send",
    operation_id="send_quote",
    summary="Send a quote to the customer",
    description="Sends a draft quote by e-mail to the customer. This cannot be taken back.",
)
async def send_quote(quote_id: QuoteId, db: Db) -> QuoteOut:
    quote = found(db, Quote, quote_id, "quote")
    if quote.status != "draft":
        raise conflict(f"Quote {quote.id} is {quote.status}; only a draft can be sent.")
    quote.status = "sent"
    quote.sent_at = now()
    db.commit()
    return QuoteOut.model_validate(quote)


@app.delete(
    "/quotes/{quote_id}",
    operation_id="discard_quote",
    summary="Discard a draft quote",
    description="Removes a quote that is still a draft, so that a better one can be written.",
)
async def discard_quote(quote_id: QuoteId, db: Db) -> dict[str, int]:
    quote = found(db, Quote, quote_id, "quote")
    if quote.status != "draft":
        raise conflict(f"Quote {quote.id} is {quote.status}; only a draft can be discarded.")
    db.delete(quote)
    db.commit()
    return {"discarded_quote_id": quote_id}


# ---------------------------------------------------------------- invoices


@app.get(
    "/invoices",
    operation_id="list_invoices",
    summary="List invoices",
    description="Lists invoices, newest first, with their totals. Payments stand on the single invoice.",
)
async def list_invoices(
    db: Db,
    customer_id: Annotated[int | None, Query(ge=1, le=MAX_ID, description="Only invoices of this customer")] = None,
    status: Annotated[InvoiceStatus | None, Query(description="Only invoices in this status")] = None,
) -> list[InvoiceBrief]:
    query = select(Invoice).order_by(Invoice.id.desc())
    if customer_id is not None:
        query = query.where(Invoice.customer_id == customer_id)
    if status is not None:
        query = query.where(Invoice.status == status)
    return [InvoiceBrief.model_validate(i) for i in db.scalars(query)]


@app.get(
    "/invoices/{invoice_id}",
    operation_id="get_invoice",
    summary="Get one invoice",
    description="Returns an invoice with the payments received on it so far.",
)
async def get_invoice(invoice_id: InvoiceId, db: Db) -> InvoiceOut:
    return full_invoice(db, found(db, Invoice, invoice_id, "invoice"))


@app.post(
    "/invoices",
    operation_id="create_invoice",
    status_code=201,
    summary="Invoice a ready job",
    description="Invoices a ready job: the total of its accepted or sent quote, or else its lines at full price.",
)
async def create_invoice(body: NewInvoice, db: Db) -> InvoiceOut:
    job = found(db, Job, body.job_id, "job")
    if job.status != "ready":
        raise conflict(f"Job {job.id} is {job.status}; only a ready job can be invoiced.")
    other = live_invoice(db, job.id)
    if other is not None:
        raise conflict(f"Job {job.id} is already invoiced as {other.number}.")
    quote = db.scalars(select(Quote).where(Quote.job_id == job.id, Quote.status.in_(("accepted", "sent")))).first()
    total = quote.total if quote else money(sum(totals(db, job.id)))
    invoice = Invoice(job_id=job.id, customer_id=brief(db, job)["customer_id"], total=total, status="open")
    last = db.scalars(select(Invoice.id).order_by(Invoice.id.desc())).first() or 0
    invoice.id, invoice.number, invoice.issued_at = last + 1, f"R-{1001 + last}", now()
    db.add(invoice)
    db.commit()
    return full_invoice(db, invoice)


@app.post(
    "/invoices/{invoice_id}/payments",
    operation_id="record_payment",
    status_code=201,
    summary="Record a payment",
    description="Records a payment on an open invoice. The invoice is paid once nothing is left to pay.",
)
async def record_payment(invoice_id: InvoiceId, body: NewPayment, db: Db) -> InvoiceOut:
    invoice = found(db, Invoice, invoice_id, "invoice")
    if invoice.status != "open":
        raise conflict(f"Invoice {invoice.number} is {invoice.status}; it takes no payments.")
    amount = money(body.amount)
    left = money(invoice.total - sum(p.amount for p in full_invoice(db, invoice).payments))
    if amount == 0 or amount > left:
        raise conflict(f"Invoice {invoice.number} has {left:.2f} euro left to pay; the payment must lie within that.")
    db.add(Payment(invoice_id=invoice.id, amount=amount, method=body.method, paid_at=now()))
    if amount == left:
        invoice.status = "paid"
    db.commit()
    return full_invoice(db, invoice)


# ---------------------------------------------------------------- suppliers and orders


@app.get(
    "/suppliers",
    operation_id="list_suppliers",
    summary="List suppliers",
    description="Lists all suppliers with their usual delivery time in days.",
)
async def list_suppliers(db: Db) -> list[SupplierOut]:
    return [SupplierOut.model_validate(s) for s in db.scalars(select(Supplier).order_by(Supplier.id))]


@app.get(
    "/supplier-orders",
    operation_id="list_supplier_orders",
    summary="List supplier orders",
    description="Lists orders to suppliers with their lines, newest first. Placed orders are on their way.",
)
async def list_supplier_orders(
    db: Db,
    supplier_id: Annotated[int | None, Query(ge=1, le=MAX_ID, description="Only orders to this supplier")] = None,
    status: Annotated[OrderStatus | None, Query(description="Only orders in this status")] = None,
) -> list[OrderOut]:
    query = select(SupplierOrder).order_by(SupplierOrder.id.desc())
    if supplier_id is not None:
        query = query.where(SupplierOrder.supplier_id == supplier_id)
    if status is not None:
        query = query.where(SupplierOrder.status == status)
    return [full_order(db, order) for order in db.scalars(query)]


@app.post(
    "/supplier-orders",
    operation_id="create_supplier_order",
    status_code=201,
    summary="Start a supplier order",
    description="Starts an empty draft order to a supplier. There can be one draft per supplier.",
)
async def create_supplier_order(body: NewOrder, db: Db) -> OrderOut:
    supplier = found(db, Supplier, body.supplier_id, "supplier")
    draft = db.scalars(
        select(SupplierOrder).where(SupplierOrder.supplier_id == supplier.id, SupplierOrder.status == "draft")
    ).first()
    if draft is not None:
        raise conflict(f"There is already a draft order to {supplier.name}: {draft.id}.")
    order = SupplierOrder(supplier_id=supplier.id, status="draft", created_at=now())
    db.add(order)
    db.commit()
    return full_order(db, order)


@app.post(
    "/supplier-orders/{order_id}/lines",
    operation_id="add_order_line",
    status_code=201,
    summary="Put a part on a supplier order",
    description="Adds whole packs of one part to a draft order. Only parts of that supplier that are still made.",
)
async def add_order_line(order_id: OrderId, body: NewOrderLine, db: Db) -> OrderOut:
    order = drafted(found(db, SupplierOrder, order_id, "supplier order"))
    part = found(db, Part, body.part_id, "part")
    if part.supplier_id != order.supplier_id:
        raise conflict(f"{part.name} does not come from the supplier of order {order.id}.")
    if part.discontinued:
        raise conflict(f"{part.name} is discontinued and cannot be ordered any more.")
    if any(line.part_id == part.id for line in full_order(db, order).lines):
        raise conflict(f"{part.name} is already on order {order.id}; remove that line to change it.")
    line = SupplierOrderLine(order_id=order.id, part_id=part.id, packs=body.packs, units=body.packs * part.pack_size)
    db.add(line)
    db.commit()
    return full_order(db, order)


def drafted(order: SupplierOrder) -> SupplierOrder:
    if order.status != "draft":
        raise conflict(f"Order {order.id} is {order.status}; only a draft can be changed or placed.")
    return order


@app.delete(
    "/supplier-orders/{order_id}/lines/{line_id}",
    operation_id="remove_order_line",
    summary="Take a part off a supplier order",
    description="Removes one line from a draft order.",
)
async def remove_order_line(order_id: OrderId, line_id: LineId, db: Db) -> OrderOut:
    order = drafted(found(db, SupplierOrder, order_id, "supplier order"))
    line = db.get(SupplierOrderLine, line_id)
    if line is None or line.order_id != order.id:
        raise HTTPException(status_code=404, detail=f"Order {order.id} has no line {line_id}.")
    db.delete(line)
    db.commit()
    return full_order(db, order)


@app.post(
    "/supplier-orders/{order_id}/place",
    operation_id="place_supplier_order",
    summary="Place a supplier order",
    description="Sends a draft order with at least one line to the supplier. This cannot be taken back.",
)
async def place_supplier_order(order_id: OrderId, db: Db) -> OrderOut:
    order = drafted(found(db, SupplierOrder, order_id, "supplier order"))
    if not full_order(db, order).lines:
        raise conflict(f"Order {order.id} has no lines yet.")
    order.status = "placed"
    order.placed_at = now()
    db.commit()
    return full_order(db, order)


@app.post(
    "/supplier-orders/{order_id}/receive",
    operation_id="receive_supplier_order",
    summary="Receive a supplier order",
    description="Books a placed order as arrived: every line's pieces go into stock.",
)
async def receive_supplier_order(order_id: OrderId, db: Db) -> OrderOut:
    order = found(db, SupplierOrder, order_id, "supplier order")
    if order.status != "placed":
        raise conflict(f"Order {order.id} is {order.status}; only a placed order can be received.")
    for line in full_order(db, order).lines:
        found(db, Part, line.part_id, "part").stock += line.units
    order.status = "received"
    order.received_at = now()
    db.commit()
    return full_order(db, order)


if __name__ == "__main__":
    uvicorn.run(app, host=os.getenv("HOST", "127.0.0.1"), port=int(os.getenv("PORT", "8000")))

"""Brightwater Haulage: consignments, tours with vehicles and drivers, partner hauliers, notes and charges."""

import os
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import Annotated, Literal, TypeVar

from fastapi import Depends, FastAPI, HTTPException, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import ForeignKey, create_engine, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship, sessionmaker

database_url = os.getenv("DATABASE_PATH", "sqlite:///./trucking_1.db")
engine = create_engine(database_url, connect_args={"check_same_thread": False})
SessionLocal = sessionmaker(bind=engine, expire_on_commit=False)

LARGEST_ID = 2**31 - 1

Cooling = Literal["none", "chilled", "frozen"]
ConsignmentStatus = Literal["open", "planned", "on_the_road", "delivered", "subcontracted", "cancelled"]
TourStatus = Literal["planned", "departed", "completed", "cancelled"]
VehicleKind = Literal["curtain", "box", "reefer"]
VehicleStatus = Literal["ready", "workshop"]
NoteKind = Literal["driver", "office", "call_customer"]
ChargeKind = Literal["freight", "waiting", "extra"]
NEXT_TOUR_STATUS = {"planned": ("departed", "cancelled"), "departed": ("completed",), "completed": (), "cancelled": ()}
STATUS_ON_TOUR = {"departed": "on_the_road", "completed": "delivered"}


def now() -> datetime:
    """The present in UTC without a zone, as the database keeps it."""
    return datetime.now(UTC).replace(microsecond=0, tzinfo=None)


def money(value: float) -> float:
    return float(Decimal(str(value)).quantize(Decimal("0.01"), ROUND_HALF_UP))


class Base(DeclarativeBase):
    """Base of all tables."""


class Customer(Base):
    __tablename__ = "customers"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    contact: Mapped[str]
    phone: Mapped[str]
    notes: Mapped[str | None]


class Zone(Base):
    __tablename__ = "zones"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    price_per_pallet: Mapped[float]
    minimum_charge: Mapped[float]


class Surcharge(Base):
    __tablename__ = "surcharges"
    id: Mapped[int] = mapped_column(primary_key=True)
    cooling: Mapped[str] = mapped_column(unique=True)
    percent: Mapped[float]


class Place(Base):
    __tablename__ = "places"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    zone_id: Mapped[int] = mapped_column(ForeignKey("zones.id"))
    zone: Mapped[Zone] = relationship()


class RouteStop(Base):
    __tablename__ = "route_stops"
    id: Mapped[int] = mapped_column(primary_key=True)
    route_id: Mapped[int] = mapped_column(ForeignKey("routes.id"))
    place_id: Mapped[int] = mapped_column(ForeignKey("places.id"))
    position: Mapped[int]
    place: Mapped[Place] = relationship()


class Route(Base):
    __tablename__ = "routes"
    id: Mapped[int] = mapped_column(primary_key=True)
    code: Mapped[str] = mapped_column(unique=True)
    name: Mapped[str]
    stops: Mapped[list[RouteStop]] = relationship(order_by=RouteStop.position)


class Vehicle(Base):
    __tablename__ = "vehicles"
    id: Mapped[int] = mapped_column(primary_key=True)
    plate: Mapped[str] = mapped_column(unique=True)
    kind: Mapped[str]
    pallet_spaces: Mapped[int]
    max_kg: Mapped[int]
    status: Mapped[str] = mapped_column(default="ready")


class Driver(Base):
    __tablename__ = "drivers"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    adr_certificate: Mapped[bool] = mapped_column(default=False)
    status: Mapped[str] = mapped_column(default="on_duty")


class Partner(Base):
    __tablename__ = "partners"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    cooled: Mapped[bool] = mapped_column(default=False)
    price_per_pallet: Mapped[float]
    active: Mapped[bool] = mapped_column(default=True)


class Consignment(Base):
    __tablename__ = "consignments"
    id: Mapped[int] = mapped_column(primary_key=True)
    customer_id: Mapped[int] = mapped_column(ForeignKey("customers.id"))
    goods: Mapped[str]
    place_id: Mapped[int] = mapped_column(ForeignKey("places.id"))
    pallets: Mapped[int]
    kg: Mapped[int]
    cooling: Mapped[str] = mapped_column(default="none")
    adr_class: Mapped[str | None]
    deliver_by: Mapped[date]
    status: Mapped[str] = mapped_column(default="open")
    tour_id: Mapped[int | None] = mapped_column(ForeignKey("tours.id"))
    partner_id: Mapped[int | None] = mapped_column(ForeignKey("partners.id"))
    created_at: Mapped[datetime] = mapped_column(default=now)
    updated_at: Mapped[datetime] = mapped_column(default=now, onupdate=now)
    customer: Mapped[Customer] = relationship()
    place: Mapped[Place] = relationship()
    tour: Mapped["Tour | None"] = relationship(back_populates="loads")
    partner: Mapped[Partner | None] = relationship()


class Tour(Base):
    __tablename__ = "tours"
    id: Mapped[int] = mapped_column(primary_key=True)
    code: Mapped[str] = mapped_column(unique=True)
    route_id: Mapped[int] = mapped_column(ForeignKey("routes.id"))
    vehicle_id: Mapped[int] = mapped_column(ForeignKey("vehicles.id"))
    driver_id: Mapped[int] = mapped_column(ForeignKey("drivers.id"))
    departs_on: Mapped[date]
    status: Mapped[str] = mapped_column(default="planned")
    route: Mapped[Route] = relationship()
    vehicle: Mapped[Vehicle] = relationship()
    driver: Mapped[Driver] = relationship()
    loads: Mapped[list[Consignment]] = relationship(order_by=Consignment.id, back_populates="tour")


class Note(Base):
    __tablename__ = "notes"
    id: Mapped[int] = mapped_column(primary_key=True)
    consignment_id: Mapped[int] = mapped_column(ForeignKey("consignments.id"))
    kind: Mapped[str]
    text: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(default=now)


class Charge(Base):
    __tablename__ = "charges"
    id: Mapped[int] = mapped_column(primary_key=True)
    consignment_id: Mapped[int] = mapped_column(ForeignKey("consignments.id"))
    kind: Mapped[str]
    amount: Mapped[float]
    text: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(default=now)


Base.metadata.create_all(bind=engine)


class Row(BaseModel):
    model_config = ConfigDict(from_attributes=True)


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class CustomerOut(Row):
    id: int
    name: str
    contact: str
    phone: str
    notes: str | None


class RouteOut(BaseModel):
    code: str
    name: str
    stops: list[str] = Field(description="Places in the order of the route")


class ZoneOut(BaseModel):
    name: str
    price_per_pallet: float
    minimum_charge: float
    places: list[str]


class RateCard(BaseModel):
    zones: list[ZoneOut]
    cooling_surcharge_percent: dict[str, float] = Field(description="Comes on top of the freight, minimum included")


class VehicleOut(Row):
    plate: str
    kind: str
    pallet_spaces: int
    max_kg: int
    status: str


class DriverOut(Row):
    name: str
    adr_certificate: bool
    status: str


class PartnerOut(Row):
    name: str
    cooled: bool
    price_per_pallet: float
    active: bool


class ConsignmentOut(BaseModel):
    id: int
    customer_id: int
    customer: str
    goods: str
    destination: str
    pallets: int
    kg: int
    cooling: str
    adr_class: str | None
    deliver_by: date
    status: str
    tour: str | None
    partner: str | None


class NoteOut(Row):
    id: int
    consignment_id: int
    kind: str
    text: str


class ChargeOut(Row):
    id: int
    consignment_id: int
    kind: str
    amount: float
    text: str


class ConsignmentDetail(ConsignmentOut):
    notes: list[NoteOut]
    charges: list[ChargeOut]


class TourOut(BaseModel):
    code: str
    route: str
    vehicle: str
    driver: str
    departs_on: date
    status: str


class TourDetail(BaseModel):
    code: str
    stops: list[str]
    vehicle: VehicleOut
    driver: DriverOut
    departs_on: date
    status: str
    loads: list[ConsignmentOut]


class VehicleChange(Body):
    status: VehicleStatus = Field(description="ready or workshop")


class TourVehicle(Body):
    plate: str = Field(min_length=1, max_length=20, description="Number plate of the vehicle, as listed")


class TourDriver(Body):
    driver_name: str = Field(min_length=1, max_length=60, description="Full name of the driver, as listed")


class TourChange(Body):
    status: TourStatus = Field(description="departed, completed or cancelled")


class NewConsignment(Body):
    customer_id: int = Field(ge=1, le=LARGEST_ID, description="Customer number")
    goods: str = Field(min_length=2, max_length=200, description="What is sent")
    destination: str = Field(min_length=1, max_length=60, description="Place of delivery, as in the rate card")
    pallets: int = Field(ge=1, le=100, description="Number of pallets")
    kg: int = Field(ge=1, le=100_000, description="Weight of all pallets together")
    cooling: Cooling = Field(default="none", description="none, chilled or frozen")
    adr_class: str | None = Field(default=None, min_length=1, max_length=5, description="Class of dangerous goods")
    deliver_by: date = Field(description="Last day for the delivery, YYYY-MM-DD")


class Planning(Body):
    tour_code: str = Field(min_length=1, max_length=20, description="Code of the tour, for example N-14")


class HandOver(Body):
    partner_name: str = Field(min_length=3, max_length=60, description="Name of the partner, or how it begins")


class NewNote(Body):
    kind: NoteKind = Field(
        description="driver: read on the tour; office: for colleagues; call_customer: the office has to phone"
    )
    text: str = Field(min_length=1, max_length=1000, description="The note itself")


class NewCharge(Body):
    kind: ChargeKind = Field(description="freight, waiting or extra")
    amount: float = Field(gt=0, le=100_000, allow_inf_nan=False, description="Amount in euros")
    text: str = Field(min_length=3, max_length=200, description="What the invoice says")


async def get_session() -> AsyncIterator[Session]:
    """One database session per request."""
    with SessionLocal() as session:
        yield session


Db = Annotated[Session, Depends(get_session)]
ConsignmentId = Annotated[int, Path(ge=1, le=LARGEST_ID, description="Consignment number")]
ChargeId = Annotated[int, Path(ge=1, le=LARGEST_ID, description="Charge number")]
TourCode = Annotated[str, Path(max_length=20, description="Code of the tour, for example N-14")]
Plate = Annotated[str, Path(max_length=20, description="Number plate of the vehicle, as listed")]
OnlyCustomer = Annotated[int | None, Query(ge=1, le=LARGEST_ID, description="Only those of this customer")]
T = TypeVar("T", bound=Base)

app = FastAPI(title="Brightwater Haulage", version="1.0.0", description=__doc__ or "")


@app.exception_handler(RequestValidationError)
async def explain_invalid_arguments(request: Request, error: RequestValidationError) -> JSONResponse:
    """The offending input is left out: it may not be encodable at all."""
    wrong = [(".".join(map(str, entry["loc"])), entry["msg"]) for entry in error.errors()]
    detail = [f"{place.encode('ascii', 'backslashreplace').decode()}: {message}" for place, message in wrong]
    return JSONResponse(status_code=422, content={"detail": detail})


def conflict(detail: str) -> HTTPException:
    return HTTPException(409, detail)


def find(db: Session, model: type[T], key: int, label: str) -> T:
    row = db.get(model, key)
    if row is None:
        raise HTTPException(404, f"There is no {label} {key}.")
    return row


def called(db: Session, model: type[T], column: str, name: str, label: str) -> T:
    """The row of that name; upper and lower case are the same."""
    rows = db.scalars(select(model)).all()
    for row in rows:
        if getattr(row, column).lower() == name.strip().lower():
            return row
    known = ", ".join(sorted(getattr(row, column) for row in rows))
    raise HTTPException(404, f"There is no such {label}. Known are: {known}.")


def tour_called(db: Session, code: str) -> Tour:
    return called(db, Tour, "code", code, "tour")


def still_planned(tour: Tour) -> Tour:
    if tour.status != "planned":
        raise conflict(f"Tour {tour.code} is {tour.status} and can no longer be changed.")
    return tour


def check_load(vehicle: Vehicle, loads: list[Consignment]) -> None:
    """The vehicle has room, payload and cooling for the loads."""
    pallets, kg = sum(load.pallets for load in loads), sum(load.kg for load in loads)
    if pallets > vehicle.pallet_spaces:
        raise conflict(f"{vehicle.plate} has {vehicle.pallet_spaces} pallet spaces; {pallets} would be needed.")
    if kg > vehicle.max_kg:
        raise conflict(f"{vehicle.plate} carries {vehicle.max_kg} kg; {kg} kg would be loaded.")
    cooled = [load.id for load in loads if load.cooling != "none"]
    if cooled and vehicle.kind != "reefer":
        raise conflict(f"{vehicle.plate} is not a reefer, and consignment {cooled[0]} needs cooling.")


def check_driver(driver: Driver, loads: list[Consignment]) -> None:
    dangerous = [load.id for load in loads if load.adr_class]
    if dangerous and not driver.adr_certificate:
        raise conflict(f"{driver.name} has no ADR certificate, and consignment {dangerous[0]} is dangerous goods.")


def other_tour(db: Session, tour: Tour, *conditions) -> Tour | None:
    """Another planned tour of the same day that meets the conditions."""
    same_day = (Tour.id != tour.id, Tour.status == "planned", Tour.departs_on == tour.departs_on)
    return db.scalars(select(Tour).where(*same_day, *conditions)).first()


def consignment_fields(consignment: Consignment) -> dict:
    return {
        "id": consignment.id,
        "customer_id": consignment.customer_id,
        "customer": consignment.customer.name,
        "goods": consignment.goods,
        "destination": consignment.place.name,
        "pallets": consignment.pallets,
        "kg": consignment.kg,
        "cooling": consignment.cooling,
        "adr_class": consignment.adr_class,
        "deliver_by": consignment.deliver_by,
        "status": consignment.status,
        "tour": consignment.tour.code if consignment.tour else None,
        "partner": consignment.partner.name if consignment.partner else None,
    }


def consignment_out(consignment: Consignment) -> ConsignmentOut:
    return ConsignmentOut(**consignment_fields(consignment))


def stops(tour: Tour) -> list[str]:
    return [stop.place.name for stop in tour.route.stops]


def tour_detail(tour: Tour) -> TourDetail:
    return TourDetail(
        code=tour.code,
        stops=stops(tour),
        vehicle=VehicleOut.model_validate(tour.vehicle),
        driver=DriverOut.model_validate(tour.driver),
        departs_on=tour.departs_on,
        status=tour.status,
        loads=[consignment_out(load) for load in tour.loads],
    )


@app.get(
    "/customers",
    operation_id="list_customers",
    summary="List customers",
    description="Customers with contact, telephone number and the desk's notes, optionally only those of a name.",
)
async def list_customers(
    db: Db,
    search: Annotated[str | None, Query(max_length=100, description="Part of the name")] = None,
) -> list[CustomerOut]:
    query = select(Customer).order_by(Customer.id)
    if search:
        query = query.where(Customer.name.icontains(search, autoescape=True))
    return [CustomerOut.model_validate(customer) for customer in db.scalars(query)]


@app.get(
    "/routes",
    operation_id="list_routes",
    summary="List routes",
    description="All routes with the places they call at.",
)
async def list_routes(db: Db) -> list[RouteOut]:
    routes = db.scalars(select(Route).order_by(Route.id))
    return [RouteOut(code=r.code, name=r.name, stops=[stop.place.name for stop in r.stops]) for r in routes]


@app.get(
    "/rates",
    operation_id="get_rate_card",
    summary="Get the rate card",
    description="Prices in euros by zone. Freight is pallets times the price of the destination's zone, at least the "
    "minimum charge; the surcharge for cooling comes on top of that.",
)
async def get_rate_card(db: Db) -> RateCard:
    places = db.scalars(select(Place).order_by(Place.id)).all()
    zones = [
        ZoneOut(
            name=zone.name,
            price_per_pallet=zone.price_per_pallet,
            minimum_charge=zone.minimum_charge,
            places=[place.name for place in places if place.zone_id == zone.id],
        )
        for zone in db.scalars(select(Zone).order_by(Zone.id))
    ]
    percents = {row.cooling: row.percent for row in db.scalars(select(Surcharge).order_by(Surcharge.id))}
    return RateCard(zones=zones, cooling_surcharge_percent=percents)


@app.get(
    "/vehicles",
    operation_id="list_vehicles",
    summary="List vehicles",
    description="Vehicles with pallet spaces and payload. Only a reefer cools.",
)
async def list_vehicles(
    db: Db,
    kind: Annotated[VehicleKind | None, Query(description="Only vehicles of this kind")] = None,
    vehicle_status: Annotated[VehicleStatus | None, Query(description="Only vehicles in this status")] = None,
) -> list[VehicleOut]:
    query = select(Vehicle).order_by(Vehicle.id)
    if kind is not None:
        query = query.where(Vehicle.kind == kind)
    if vehicle_status is not None:
        query = query.where(Vehicle.status == vehicle_status)
    return [VehicleOut.model_validate(vehicle) for vehicle in db.scalars(query)]


@app.put(
    "/vehicles/{plate}/status",
    operation_id="set_vehicle_status",
    summary="Put a vehicle into the workshop or take it back",
    description="A vehicle with a planned tour cannot go into the workshop; give the tour another one first.",
)
async def set_vehicle_status(plate: Plate, body: VehicleChange, db: Db) -> VehicleOut:
    vehicle = called(db, Vehicle, "plate", plate, "vehicle")
    tour = db.scalars(select(Tour).where(Tour.vehicle_id == vehicle.id, Tour.status == "planned")).first()
    if vehicle.status == body.status:
        raise conflict(f"{vehicle.plate} is {body.status} already.")
    if body.status == "workshop" and tour is not None:
        raise conflict(f"{vehicle.plate} is planned for tour {tour.code}; give that tour another vehicle first.")
    vehicle.status = body.status
    db.commit()
    return VehicleOut.model_validate(vehicle)


@app.get(
    "/drivers",
    operation_id="list_drivers",
    summary="List drivers",
    description="Drivers, whether they hold the ADR certificate for dangerous goods, and whether they are on duty.",
)
async def list_drivers(db: Db) -> list[DriverOut]:
    return [DriverOut.model_validate(driver) for driver in db.scalars(select(Driver).order_by(Driver.id))]


@app.get(
    "/tours",
    operation_id="list_tours",
    summary="List tours",
    description="Tours by day of departure; what is loaded stands on the single tour.",
)
async def list_tours(
    db: Db,
    tour_status: Annotated[TourStatus | None, Query(description="Only tours in this status")] = None,
    route_code: Annotated[str | None, Query(max_length=20, description="Only tours of this route, e.g. N")] = None,
) -> list[TourOut]:
    query = select(Tour).order_by(Tour.departs_on, Tour.id)
    if tour_status is not None:
        query = query.where(Tour.status == tour_status)
    if route_code is not None:
        query = query.where(Tour.route_id == called(db, Route, "code", route_code, "route").id)
    return [
        TourOut(
            code=tour.code,
            route=tour.route.name,
            vehicle=tour.vehicle.plate,
            driver=tour.driver.name,
            departs_on=tour.departs_on,
            status=tour.status,
        )
        for tour in db.scalars(query)
    ]


@app.get(
    "/tours/{tour_code}",
    operation_id="get_tour",
    summary="Get a tour",
    description="One tour with its stops, vehicle, driver and everything that is planned on it.",
)
async def get_tour(tour_code: TourCode, db: Db) -> TourDetail:
    return tour_detail(tour_called(db, tour_code))


@app.put(
    "/tours/{tour_code}/vehicle",
    operation_id="assign_vehicle",
    summary="Give a tour another vehicle",
    description="The vehicle must be ready, free on that day, and take everything that is planned on the tour.",
)
async def assign_vehicle(tour_code: TourCode, body: TourVehicle, db: Db) -> TourDetail:
    tour, vehicle = still_planned(tour_called(db, tour_code)), called(db, Vehicle, "plate", body.plate, "vehicle")
    if vehicle.status != "ready":
        raise conflict(f"{vehicle.plate} is in the workshop.")
    if taken := other_tour(db, tour, Tour.vehicle_id == vehicle.id):
        raise conflict(f"{vehicle.plate} is on tour {taken.code} on that day.")
    check_load(vehicle, tour.loads)
    tour.vehicle = vehicle
    db.commit()
    return tour_detail(tour)


@app.put(
    "/tours/{tour_code}/driver",
    operation_id="assign_driver",
    summary="Give a tour another driver",
    description="The driver must be on duty, free on that day, and certified if the tour has dangerous goods.",
)
async def assign_driver(tour_code: TourCode, body: TourDriver, db: Db) -> TourDetail:
    tour, driver = still_planned(tour_called(db, tour_code)), called(db, Driver, "name", body.driver_name, "driver")
    if driver.status != "on_duty":
        raise conflict(f"{driver.name} is off duty.")
    if taken := other_tour(db, tour, Tour.driver_id == driver.id):
        raise conflict(f"{driver.name} drives tour {taken.code} on that day.")
    check_driver(driver, tour.loads)
    tour.driver = driver
    db.commit()
    return tour_detail(tour)


@app.put(
    "/tours/{tour_code}/status",
    operation_id="set_tour_status",
    summary="Send a tour off, close it or cancel it",
    description="planned becomes departed (all its loads are on the road) or, if nothing is planned on it, cancelled; "
    "departed becomes completed (all its loads are delivered).",
)
async def set_tour_status(tour_code: TourCode, body: TourChange, db: Db) -> TourDetail:
    tour = tour_called(db, tour_code)
    if body.status not in NEXT_TOUR_STATUS[tour.status]:
        allowed = ", ".join(NEXT_TOUR_STATUS[tour.status]) or "nothing else"
        raise conflict(f"Tour {tour.code} is {tour.status} and cannot become {body.status}; possible: {allowed}.")
    if (body.status == "cancelled") == bool(tour.loads):
        raise conflict(f"Tour {tour.code} has {len(tour.loads)} consignments; it cannot become {body.status}.")
    tour.status = body.status
    for load in tour.loads:
        load.status = STATUS_ON_TOUR[body.status]
    db.commit()
    return tour_detail(tour)


@app.get(
    "/consignments",
    operation_id="list_consignments",
    summary="List consignments",
    description="Consignments by number, filtered if you like. Charges and notes stand on the single consignment.",
)
async def list_consignments(
    db: Db,
    customer_id: OnlyCustomer = None,
    consignment_status: Annotated[ConsignmentStatus | None, Query(description="Only those in this status")] = None,
    destination: Annotated[str | None, Query(max_length=60, description="Only those to this place")] = None,
) -> list[ConsignmentOut]:
    query = select(Consignment).order_by(Consignment.id)
    if customer_id is not None:
        query = query.where(Consignment.customer_id == find(db, Customer, customer_id, "customer").id)
    if consignment_status is not None:
        query = query.where(Consignment.status == consignment_status)
    if destination is not None:
        query = query.where(Consignment.place_id == called(db, Place, "name", destination, "place").id)
    return [consignment_out(consignment) for consignment in db.scalars(query)]


@app.get(
    "/consignments/{consignment_id}",
    operation_id="get_consignment",
    summary="Get a consignment",
    description="One consignment with its notes and charges.",
)
async def get_consignment(consignment_id: ConsignmentId, db: Db) -> ConsignmentDetail:
    consignment = find(db, Consignment, consignment_id, "consignment")
    notes = db.scalars(select(Note).where(Note.consignment_id == consignment.id).order_by(Note.id))
    charges = db.scalars(select(Charge).where(Charge.consignment_id == consignment.id).order_by(Charge.id))
    return ConsignmentDetail(
        **consignment_fields(consignment),
        notes=[NoteOut.model_validate(note) for note in notes],
        charges=[ChargeOut.model_validate(charge) for charge in charges],
    )


@app.post(
    "/consignments",
    operation_id="book_consignment",
    status_code=201,
    summary="Book a consignment",
    description="Books a new consignment of a customer. It is open until it is planned on a tour.",
)
async def book_consignment(body: NewConsignment, db: Db) -> ConsignmentOut:
    customer = find(db, Customer, body.customer_id, "customer")
    place = called(db, Place, "name", body.destination, "place")
    fields = body.model_dump(exclude={"customer_id", "destination"})
    consignment = Consignment(**fields, customer=customer, place=place, status="open")
    db.add(consignment)
    db.commit()
    return consignment_out(consignment)


@app.post(
    "/consignments/{consignment_id}/plan",
    operation_id="plan_consignment",
    summary="Plan a consignment on a tour",
    description="Puts an open consignment on a planned tour that calls at its destination, with room, payload, cooling "
    "and a certified driver where needed.",
)
async def plan_consignment(consignment_id: ConsignmentId, body: Planning, db: Db) -> ConsignmentOut:
    consignment, tour = in_status(db, consignment_id, "open"), still_planned(tour_called(db, body.tour_code))
    if consignment.place.name not in stops(tour):
        raise conflict(f"Tour {tour.code} does not call at {consignment.place.name}, only at {', '.join(stops(tour))}.")
    check_load(tour.vehicle, [*tour.loads, consignment])
    check_driver(tour.driver, [consignment])
    consignment.tour, consignment.status = tour, "planned"
    db.commit()
    return consignment_out(consignment)


def in_status(db: Session, consignment_id: int, wanted: str) -> Consignment:
    consignment = find(db, Consignment, consignment_id, "consignment")
    if consignment.status != wanted:
        raise conflict(f"Consignment {consignment.id} is {consignment.status}; this takes one that is {wanted}.")
    return consignment


@app.post(
    "/consignments/{consignment_id}/unplan",
    operation_id="unplan_consignment",
    summary="Take a consignment off its tour",
    description="Takes a planned consignment off its tour; it is open again.",
)
async def unplan_consignment(consignment_id: ConsignmentId, db: Db) -> ConsignmentOut:
    consignment = in_status(db, consignment_id, "planned")
    consignment.tour, consignment.status = None, "open"
    db.commit()
    return consignment_out(consignment)


@app.post(
    "/consignments/{consignment_id}/cancel",
    operation_id="cancel_consignment",
    summary="Cancel a consignment",
    description="Cancels an open consignment. This cannot be taken back.",
)
async def cancel_consignment(consignment_id: ConsignmentId, db: Db) -> ConsignmentOut:
    consignment = in_status(db, consignment_id, "open")
    consignment.status = "cancelled"
    db.commit()
    return consignment_out(consignment)


@app.get(
    "/partners",
    operation_id="list_partners",
    summary="List partner hauliers",
    description="Hauliers who drive for us, with their price per pallet in euros and whether they cool.",
)
async def list_partners(db: Db) -> list[PartnerOut]:
    return [PartnerOut.model_validate(partner) for partner in db.scalars(select(Partner).order_by(Partner.id))]


@app.post(
    "/consignments/{consignment_id}/hand-over",
    operation_id="hand_over_consignment",
    summary="Hand a consignment over to a partner",
    description="Gives an open consignment to an active partner haulier, who must cool if it needs cooling. The "
    "partner is told at once; this cannot be taken back.",
)
async def hand_over_consignment(consignment_id: ConsignmentId, body: HandOver, db: Db) -> ConsignmentOut:
    consignment, partner = in_status(db, consignment_id, "open"), partner_called(db, body.partner_name)
    if not partner.active:
        raise conflict(f"The agreement with {partner.name} has ended.")
    if consignment.cooling != "none" and not partner.cooled:
        raise conflict(f"{partner.name} does not cool, and consignment {consignment.id} needs it.")
    consignment.partner, consignment.status = partner, "subcontracted"
    db.commit()
    return consignment_out(consignment)


def partner_called(db: Session, name: str) -> Partner:
    """Partners are few and go by their first words."""
    partners = db.scalars(select(Partner).order_by(Partner.id)).all()
    matching = [partner for partner in partners if partner.name.lower().startswith(name.strip().lower())]
    if len(matching) != 1:
        known = ", ".join(partner.name for partner in partners)
        raise HTTPException(404, f"No single partner is called so. The partners are: {known}.")
    return matching[0]


@app.post(
    "/consignments/{consignment_id}/notes",
    operation_id="add_note",
    status_code=201,
    summary="Write a note on a consignment",
    description="Adds a note for the driver, for the office, or one that makes the office phone the customer.",
)
async def add_note(consignment_id: ConsignmentId, body: NewNote, db: Db) -> NoteOut:
    consignment = find(db, Consignment, consignment_id, "consignment")
    note = Note(consignment_id=consignment.id, kind=body.kind, text=body.text)
    db.add(note)
    db.commit()
    return NoteOut.model_validate(note)


@app.get(
    "/charges",
    operation_id="list_charges",
    summary="List charges",
    description="Charges of all kinds in euros, optionally only those of one customer.",
)
async def list_charges(db: Db, customer_id: OnlyCustomer = None) -> list[ChargeOut]:
    query = select(Charge).join(Consignment, Consignment.id == Charge.consignment_id).order_by(Charge.id)
    if customer_id is not None:
        query = query.where(Consignment.customer_id == find(db, Customer, customer_id, "customer").id)
    return [ChargeOut.model_validate(charge) for charge in db.scalars(query)]


@app.post(
    "/consignments/{consignment_id}/charges",
    operation_id="add_charge",
    status_code=201,
    summary="Charge for a consignment",
    description="Adds a charge in euros to a consignment that was delivered. It has one freight charge at most.",
)
async def add_charge(consignment_id: ConsignmentId, body: NewCharge, db: Db) -> ChargeOut:
    consignment, amount = in_status(db, consignment_id, "delivered"), money(body.amount)
    freight = select(Charge).where(Charge.consignment_id == consignment.id, Charge.kind == "freight")
    if body.kind == "freight" and (charge := db.scalars(freight).first()):
        raise conflict(f"Consignment {consignment.id} has a freight charge already: {charge.id}, {charge.amount:.2f}.")
    if amount == 0:
        raise HTTPException(422, "The amount is less than a cent.")
    charge = Charge(consignment_id=consignment.id, kind=body.kind, amount=amount, text=body.text)
    db.add(charge)
    db.commit()
    return ChargeOut.model_validate(charge)


@app.delete(
    "/charges/{charge_id}",
    operation_id="remove_charge",
    summary="Remove a charge",
    description="Removes a charge, so that a right one can be written.",
)
async def remove_charge(charge_id: ChargeId, db: Db) -> ChargeOut:
    charge = find(db, Charge, charge_id, "charge")
    db.delete(charge)
    db.commit()
    return ChargeOut.model_validate(charge)


if __name__ == "__main__":
    import uvicorn

    uvicorn.run(app, host=os.getenv("HOST", "127.0.0.1"), port=int(os.getenv("PORT", "8000")))

"""A small help desk: customers, their tickets and their orders. It becomes the app of every scenario of the example's
pack, and runs in the environment server's sandbox."""

import os
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException, Path, Query
from pydantic import BaseModel, Field
from sqlalchemy import create_engine, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, sessionmaker

engine = create_engine(os.getenv("DATABASE_PATH", "sqlite:///./desk.db"), connect_args={"check_same_thread": False})
SessionLocal = sessionmaker(bind=engine, expire_on_commit=False)
LARGEST_ID = 2**31 - 1


class Base(DeclarativeBase):
    """Base of all tables."""


class Customer(Base):
    __tablename__ = "customers"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]


class Ticket(Base):
    __tablename__ = "tickets"
    id: Mapped[int] = mapped_column(primary_key=True)
    customer_id: Mapped[int]
    item: Mapped[str]
    status: Mapped[str]
    agent: Mapped[str]


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    customer_id: Mapped[int]
    item: Mapped[str]
    amount: Mapped[int]
    refunded: Mapped[int]


Base.metadata.create_all(bind=engine)
app = FastAPI(title="Desk")


async def get_session() -> AsyncIterator[Session]:
    """Yield one database session per request."""
    with SessionLocal() as session:
        yield session


Db = Annotated[Session, Depends(get_session)]
CustomerId = Annotated[int, Query(ge=1, le=LARGEST_ID, description="Customer number")]
TicketId = Annotated[int, Path(ge=1, le=LARGEST_ID, description="Ticket number")]
OrderId = Annotated[int, Path(ge=1, le=LARGEST_ID, description="Order number")]


class Assignment(BaseModel):
    agent: str = Field(min_length=1, max_length=50, description="Login of the agent")


class Refund(BaseModel):
    amount: int = Field(ge=1, le=LARGEST_ID, description="Amount to pay back")


@app.get("/customers", operation_id="find_customer", summary="Find customers", description="By words of the name.")
async def find_customer(db: Db, text: Annotated[str, Query(max_length=100, description="Words of the name")]) -> list:
    words = text.lower().split()
    found = db.scalars(select(Customer).order_by(Customer.id)).all()
    return [{"id": one.id, "name": one.name} for one in found if set(words) <= set(one.name.lower().split())][:3]


@app.get("/tickets", operation_id="list_tickets", summary="List tickets", description="All tickets of a customer.")
async def list_tickets(db: Db, customer_id: CustomerId) -> list:
    found = db.scalars(select(Ticket).where(Ticket.customer_id == customer_id).order_by(Ticket.id)).all()
    return [{"id": one.id, "item": one.item, "status": one.status} for one in found]


@app.get("/orders", operation_id="list_orders", summary="List orders", description="All orders of a customer.")
async def list_orders(db: Db, customer_id: CustomerId) -> list:
    found = db.scalars(select(Order).where(Order.customer_id == customer_id).order_by(Order.id)).all()
    return [{"id": one.id, "item": one.item, "amount": one.amount} for one in found]


@app.post("/tickets/{ticket_id}/close", operation_id="close_ticket", summary="Close", description="Closes a ticket.")
async def close_ticket(db: Db, ticket_id: TicketId) -> dict:
    ticket = found_or_404(db, Ticket, ticket_id)
    if ticket.status != "open":
        raise HTTPException(409, f"Ticket {ticket_id} is not open.")
    ticket.status = "closed"
    db.commit()
    return {"status": "closed"}


@app.post("/tickets/{ticket_id}/assign", operation_id="assign_ticket", summary="Assign", description="To an agent.")
async def assign_ticket(db: Db, ticket_id: TicketId, body: Assignment) -> dict:
    ticket = found_or_404(db, Ticket, ticket_id)
    ticket.agent = body.agent
    db.commit()
    return {"agent": ticket.agent}


@app.post("/orders/{order_id}/refund", operation_id="refund_order", summary="Refund", description="Pays money back.")
async def refund_order(db: Db, order_id: OrderId, body: Refund) -> dict:
    order = found_or_404(db, Order, order_id)
    if order.refunded + body.amount > order.amount:
        raise HTTPException(409, f"Order {order_id} was paid with {order.amount}.")
    order.refunded += body.amount
    db.commit()
    return {"refunded": order.refunded}


def found_or_404(db: Session, kind: type, number: int):
    row = db.get(kind, number)
    if row is None:
        raise HTTPException(404, f"There is no number {number}.")
    return row


if __name__ == "__main__":
    import uvicorn

    uvicorn.run(app, host=os.getenv("HOST", "127.0.0.1"), port=int(os.getenv("PORT", "8000")))

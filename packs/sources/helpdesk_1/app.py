"""Help desk of Fernhill Coffee Machines: customers, agents, groups, tickets, comments, tags and service levels."""

import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal

from fastapi import Depends, FastAPI, HTTPException, Path, Query
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import ForeignKey, create_engine, func, or_, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship, sessionmaker

database_url = os.getenv("DATABASE_PATH", "sqlite:///./helpdesk_1.db")
engine = create_engine(database_url, connect_args={"check_same_thread": False})
SessionLocal = sessionmaker(bind=engine, expire_on_commit=False)

DESK_AGENT = "Robin Hale"  # everything written through this app is written by this agent
LARGEST_ID = 2**31 - 1

Status = Literal["open", "pending", "solved", "closed"]
Priority = Literal["low", "normal", "high", "urgent"]
Availability = Literal["available", "on_leave"]


def now() -> datetime:
    """The present in UTC without a zone, as the database keeps it."""
    return datetime.now(UTC).replace(tzinfo=None)


class Base(DeclarativeBase):
    """Base of all tables."""


class SlaPolicy(Base):
    __tablename__ = "sla_policies"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    first_response_hours: Mapped[int]
    resolution_hours: Mapped[int]


class Group(Base):
    __tablename__ = "groups"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    description: Mapped[str]


class Agent(Base):
    __tablename__ = "agents"
    id: Mapped[int] = mapped_column(primary_key=True)
    login: Mapped[str] = mapped_column(unique=True)
    name: Mapped[str]
    email: Mapped[str] = mapped_column(unique=True)
    group_id: Mapped[int] = mapped_column(ForeignKey("groups.id"))
    availability: Mapped[str] = mapped_column(default="available")
    group: Mapped[Group] = relationship()


class Customer(Base):
    __tablename__ = "customers"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    company: Mapped[str]
    email: Mapped[str] = mapped_column(unique=True)
    phone: Mapped[str | None]
    sla_policy_id: Mapped[int] = mapped_column(ForeignKey("sla_policies.id"))
    notes: Mapped[str | None]
    created_at: Mapped[datetime] = mapped_column(default=now)
    sla_policy: Mapped[SlaPolicy] = relationship()


class Tag(Base):
    __tablename__ = "tags"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)


class TicketTag(Base):
    __tablename__ = "ticket_tags"
    id: Mapped[int] = mapped_column(primary_key=True)
    ticket_id: Mapped[int] = mapped_column(ForeignKey("tickets.id"))
    tag_id: Mapped[int] = mapped_column(ForeignKey("tags.id"))
    tag: Mapped[Tag] = relationship()


class TicketComment(Base):
    __tablename__ = "ticket_comments"
    id: Mapped[int] = mapped_column(primary_key=True)
    ticket_id: Mapped[int] = mapped_column(ForeignKey("tickets.id"))
    author_type: Mapped[str]
    author_name: Mapped[str]
    body: Mapped[str]
    is_public: Mapped[bool] = mapped_column(default=True)
    created_at: Mapped[datetime] = mapped_column(default=now)


class Ticket(Base):
    __tablename__ = "tickets"
    id: Mapped[int] = mapped_column(primary_key=True)
    subject: Mapped[str]
    description: Mapped[str]
    status: Mapped[str] = mapped_column(default="open")
    priority: Mapped[str] = mapped_column(default="normal")
    customer_id: Mapped[int] = mapped_column(ForeignKey("customers.id"))
    group_id: Mapped[int] = mapped_column(ForeignKey("groups.id"))
    assignee_id: Mapped[int | None] = mapped_column(ForeignKey("agents.id"))
    merged_into_id: Mapped[int | None] = mapped_column(ForeignKey("tickets.id"))
    created_at: Mapped[datetime] = mapped_column(default=now)
    updated_at: Mapped[datetime] = mapped_column(default=now, onupdate=now)
    solved_at: Mapped[datetime | None]
    customer: Mapped[Customer] = relationship()
    group: Mapped[Group] = relationship()
    assignee: Mapped[Agent | None] = relationship()
    comments: Mapped[list[TicketComment]] = relationship(order_by=TicketComment.id)
    tag_links: Mapped[list[TicketTag]] = relationship(order_by=TicketTag.id)


Base.metadata.create_all(bind=engine)


class SlaPolicyOut(BaseModel):
    """A service level."""

    model_config = ConfigDict(from_attributes=True)
    id: int = Field(description="Service level number")
    name: str = Field(description="Name of the service level")
    first_response_hours: int = Field(description="Hours until the first answer must be given")
    resolution_hours: int = Field(description="Hours until the ticket must be solved")


class GroupOut(BaseModel):
    """A group of agents."""

    model_config = ConfigDict(from_attributes=True)
    id: int = Field(description="Group number")
    name: str = Field(description="Name of the group")
    description: str = Field(description="What the group looks after")


class AgentOut(BaseModel):
    """An agent with the number of tickets still on their desk."""

    id: int = Field(description="Agent number")
    login: str = Field(description="Login name, used to assign tickets")
    name: str = Field(description="Full name")
    email: str = Field(description="Email address")
    group: str = Field(description="Name of the agent's group")
    availability: str = Field(description="available or on_leave")
    live_tickets: int = Field(description="Open and pending tickets assigned to the agent")


class CustomerOut(BaseModel):
    """A customer."""

    id: int = Field(description="Customer number")
    name: str = Field(description="Full name")
    company: str = Field(description="Company of the customer")
    email: str = Field(description="Email address")
    phone: str | None = Field(description="Telephone number, if known")
    sla_policy: str = Field(description="Name of the customer's service level")
    notes: str | None = Field(description="What the desk has noted about the customer")
    live_tickets: int = Field(description="Open and pending tickets of the customer")


class CommentOut(BaseModel):
    """A comment on a ticket."""

    model_config = ConfigDict(from_attributes=True)
    id: int = Field(description="Comment number")
    author_type: str = Field(description="customer or agent")
    author_name: str = Field(description="Who wrote it")
    body: str = Field(description="The text")
    is_public: bool = Field(description="True if the customer can read it")
    created_at: datetime = Field(description="When it was written (UTC)")


class TicketOut(BaseModel):
    """A ticket as it stands in lists."""

    id: int = Field(description="Ticket number")
    subject: str = Field(description="Subject line")
    status: str = Field(description="open, pending, solved or closed")
    priority: str = Field(description="low, normal, high or urgent")
    customer_id: int = Field(description="Customer number")
    customer: str = Field(description="Customer's name and company")
    group: str = Field(description="Group that looks after the ticket")
    assignee: str | None = Field(description="Login of the agent in charge, if there is one")
    tags: list[str] = Field(description="Names of the ticket's tags")
    merged_into_id: int | None = Field(description="Ticket this one was merged into, if it was")
    created_at: datetime = Field(description="When the ticket came in (UTC)")
    solved_at: datetime | None = Field(description="When the ticket was solved (UTC), if it is")


class TicketDetail(TicketOut):
    """A ticket with its text and its conversation."""

    description: str = Field(description="What the customer wrote first")
    comments: list[CommentOut] = Field(description="The conversation, oldest first")


class TicketList(BaseModel):
    """One page of tickets."""

    total: int = Field(description="Tickets that match, on all pages together")
    tickets: list[TicketOut] = Field(description="This page, oldest ticket first")


class OverdueTicket(BaseModel):
    """A ticket past the time its service level allows."""

    ticket: TicketOut = Field(description="The ticket")
    sla_policy: str = Field(description="Service level of the customer")
    hours_overdue: float = Field(description="Hours since the ticket should have been solved")


class TicketCreate(BaseModel):
    """What is needed to open a ticket."""

    customer_id: int = Field(ge=1, le=LARGEST_ID, description="Customer number")
    subject: str = Field(min_length=3, max_length=200, description="Subject line")
    description: str = Field(min_length=1, max_length=5000, description="What the customer reports")
    group_id: int = Field(ge=1, le=LARGEST_ID, description="Group that shall look after it")
    priority: Priority = Field(default="normal", description="low, normal, high or urgent")


class TicketUpdate(BaseModel):
    """What may be changed about a ticket; fields left out stay as they are."""

    subject: str | None = Field(default=None, min_length=3, max_length=200, description="New subject line")
    priority: Priority | None = Field(default=None, description="New priority: low, normal, high or urgent")


class Assignment(BaseModel):
    """Who shall look after a ticket."""

    assignee: str = Field(min_length=1, max_length=50, description="Login name of the agent, for example 'oskar'")


class StatusChange(BaseModel):
    """The status a ticket shall have."""

    status: Status = Field(description="New status: open, pending, solved or closed")


class Merge(BaseModel):
    """Which ticket shall disappear into another."""

    duplicate_id: int = Field(ge=1, le=LARGEST_ID, description="Ticket that is closed and points to the surviving one")


class CommentCreate(BaseModel):
    """A comment to add."""

    body: str = Field(min_length=1, max_length=5000, description="The text")
    is_public: bool = Field(description="True: the customer reads it. False: an internal note for the desk")


class TagName(BaseModel):
    """A tag by name."""

    tag: str = Field(min_length=1, max_length=50, description="Name of the tag, for example 'spare-part'")


class CustomerUpdate(BaseModel):
    """What may be changed about a customer; fields left out stay as they are."""

    email: str | None = Field(default=None, min_length=3, max_length=200, pattern=r"^\S+@\S+$", description="New email")
    phone: str | None = Field(default=None, min_length=3, max_length=50, description="New telephone number")
    notes: str | None = Field(default=None, max_length=2000, description="New notes; they replace the old ones")
    sla_policy_id: int | None = Field(default=None, ge=1, le=LARGEST_ID, description="New service level number")


class AvailabilityChange(BaseModel):
    """Whether an agent takes tickets."""

    availability: Availability = Field(description="available or on_leave")


async def get_session() -> AsyncIterator[Session]:
    """One database session per request."""
    with SessionLocal() as session:
        yield session


Db = Annotated[Session, Depends(get_session)]
TicketId = Annotated[int, Path(ge=1, le=LARGEST_ID, description="Ticket number")]
CustomerId = Annotated[int, Path(ge=1, le=LARGEST_ID, description="Customer number")]
AgentLogin = Annotated[str, Path(max_length=50, description="Login name of the agent, for example 'oskar'")]


def live_tickets(db: Session, *conditions) -> int:
    """How many open and pending tickets meet the conditions."""
    live = Ticket.status.in_(("open", "pending"))
    return db.scalar(select(func.count()).select_from(Ticket).where(live, *conditions)) or 0


def find_ticket(db: Session, ticket_id: int) -> Ticket:
    ticket = db.get(Ticket, ticket_id)
    if ticket is None:
        raise HTTPException(404, f"There is no ticket {ticket_id}.")
    return ticket


def find_unclosed(db: Session, ticket_id: int) -> Ticket:
    ticket = find_ticket(db, ticket_id)
    if ticket.status == "closed":
        raise HTTPException(409, f"Ticket {ticket_id} is closed. A closed ticket cannot be changed.")
    return ticket


def find_customer(db: Session, customer_id: int) -> Customer:
    customer = db.get(Customer, customer_id)
    if customer is None:
        raise HTTPException(404, f"There is no customer {customer_id}.")
    return customer


def find_agent(db: Session, login: str) -> Agent:
    agent = db.scalar(select(Agent).where(Agent.login == login.strip().lower()))
    if agent is None:
        raise HTTPException(404, f"There is no agent with the login '{login}'. list_agents shows all logins.")
    return agent


def find_group(db: Session, group_id: int) -> Group:
    group = db.get(Group, group_id)
    if group is None:
        raise HTTPException(404, f"There is no group {group_id}. list_groups shows all groups.")
    return group


def find_tag(db: Session, name: str) -> Tag:
    tag = db.scalar(select(Tag).where(Tag.name == name.strip().lower()))
    if tag is None:
        raise HTTPException(404, f"There is no tag '{name}'. list_tags shows all tags.")
    return tag


def agent_out(db: Session, agent: Agent) -> AgentOut:
    return AgentOut(
        id=agent.id,
        login=agent.login,
        name=agent.name,
        email=agent.email,
        group=agent.group.name,
        availability=agent.availability,
        live_tickets=live_tickets(db, Ticket.assignee_id == agent.id),
    )


def customer_out(db: Session, customer: Customer) -> CustomerOut:
    return CustomerOut(
        id=customer.id,
        name=customer.name,
        company=customer.company,
        email=customer.email,
        phone=customer.phone,
        sla_policy=customer.sla_policy.name,
        notes=customer.notes,
        live_tickets=live_tickets(db, Ticket.customer_id == customer.id),
    )


def ticket_fields(ticket: Ticket) -> dict:
    return {
        "id": ticket.id,
        "subject": ticket.subject,
        "status": ticket.status,
        "priority": ticket.priority,
        "customer_id": ticket.customer_id,
        "customer": f"{ticket.customer.name} ({ticket.customer.company})",
        "group": ticket.group.name,
        "assignee": ticket.assignee.login if ticket.assignee else None,
        "tags": [link.tag.name for link in ticket.tag_links],
        "merged_into_id": ticket.merged_into_id,
        "created_at": ticket.created_at,
        "solved_at": ticket.solved_at,
    }


def ticket_out(ticket: Ticket) -> TicketOut:
    return TicketOut(**ticket_fields(ticket))


app = FastAPI(title="Fernhill help desk", version="1.0.0", description=__doc__ or "")


@app.get(
    "/groups",
    operation_id="list_groups",
    summary="List groups",
    description="All groups of the desk with their numbers.",
    response_model=list[GroupOut],
)
async def list_groups(db: Db):
    return db.scalars(select(Group).order_by(Group.id)).all()


@app.get(
    "/sla-policies",
    operation_id="list_sla_policies",
    summary="List service levels",
    description="All service levels with the hours they allow.",
    response_model=list[SlaPolicyOut],
)
async def list_sla_policies(db: Db):
    return db.scalars(select(SlaPolicy).order_by(SlaPolicy.id)).all()


@app.get(
    "/agents",
    operation_id="list_agents",
    summary="List agents",
    description="Agents with login, group, availability and the number of live tickets, filtered if you like.",
    response_model=list[AgentOut],
)
async def list_agents(
    db: Db,
    group_id: Annotated[int | None, Query(ge=1, le=LARGEST_ID, description="Only agents of this group")] = None,
    availability: Annotated[Availability | None, Query(description="Only agents with this availability")] = None,
):
    query = select(Agent).order_by(Agent.id)
    if group_id is not None:
        query = query.where(Agent.group_id == find_group(db, group_id).id)
    if availability is not None:
        query = query.where(Agent.availability == availability)
    return [agent_out(db, agent) for agent in db.scalars(query)]


@app.put(
    "/agents/{login}/availability",
    operation_id="set_agent_availability",
    summary="Set an agent's availability",
    description="Marks an agent as available or on_leave. An agent with open or pending tickets cannot go on leave.",
    response_model=AgentOut,
)
async def set_agent_availability(login: AgentLogin, change: AvailabilityChange, db: Db):
    agent = find_agent(db, login)
    left = live_tickets(db, Ticket.assignee_id == agent.id)
    if change.availability == "on_leave" and left:
        raise HTTPException(409, f"{agent.name} still has {left} open or pending tickets. Hand them over first.")
    agent.availability = change.availability
    db.commit()
    return agent_out(db, agent)


@app.get(
    "/customers",
    operation_id="search_customers",
    summary="Search customers",
    description="Customers whose name, company or email contains the text; all customers without a text.",
    response_model=list[CustomerOut],
)
async def search_customers(
    db: Db,
    text: Annotated[str | None, Query(max_length=100, description="Part of a name, company or email")] = None,
):
    query = select(Customer).order_by(Customer.id)
    if text:
        columns = (Customer.name, Customer.company, Customer.email)
        query = query.where(or_(*(column.icontains(text, autoescape=True) for column in columns)))
    return [customer_out(db, customer) for customer in db.scalars(query)]


@app.get(
    "/customers/{customer_id}",
    operation_id="get_customer",
    summary="Get a customer",
    description="One customer with service level and the desk's notes.",
    response_model=CustomerOut,
)
async def get_customer(customer_id: CustomerId, db: Db):
    return customer_out(db, find_customer(db, customer_id))


@app.patch(
    "/customers/{customer_id}",
    operation_id="update_customer",
    summary="Change a customer",
    description="Changes email, phone, notes or service level of a customer.",
    response_model=CustomerOut,
)
async def update_customer(customer_id: CustomerId, change: CustomerUpdate, db: Db):
    customer = find_customer(db, customer_id)
    fields = change.model_dump(exclude_none=True)
    if not fields:
        raise HTTPException(422, "Nothing to change: give at least one of email, phone, notes and sla_policy_id.")
    if "sla_policy_id" in fields and db.get(SlaPolicy, fields["sla_policy_id"]) is None:
        raise HTTPException(404, f"There is no service level {fields['sla_policy_id']}.")
    taken = select(Customer).where(Customer.email == fields.get("email"), Customer.id != customer_id)
    if db.scalar(taken) is not None:
        raise HTTPException(409, f"Another customer already has the email {fields['email']}.")
    for name, value in fields.items():
        setattr(customer, name, value)
    db.commit()
    db.refresh(customer)
    return customer_out(db, customer)


@app.get(
    "/tickets",
    operation_id="search_tickets",
    summary="Search tickets",
    description="Tickets that meet all the given conditions, oldest first. Without conditions: all tickets.",
    response_model=TicketList,
)
async def search_tickets(
    db: Db,
    text: Annotated[str | None, Query(max_length=100, description="Part of the subject or description")] = None,
    status: Annotated[Status | None, Query(description="Only tickets with this status")] = None,
    priority: Annotated[Priority | None, Query(description="Only tickets with this priority")] = None,
    customer_id: Annotated[int | None, Query(ge=1, le=LARGEST_ID, description="Only tickets of this customer")] = None,
    group_id: Annotated[int | None, Query(ge=1, le=LARGEST_ID, description="Only tickets of this group")] = None,
    assignee: Annotated[str | None, Query(max_length=50, description="Only tickets of this agent (login)")] = None,
    unassigned: Annotated[bool, Query(description="True: only tickets that nobody looks after")] = False,
    tag: Annotated[str | None, Query(max_length=50, description="Only tickets with this tag")] = None,
    limit: Annotated[int, Query(ge=1, le=50, description="Tickets per page")] = 20,
    offset: Annotated[int, Query(ge=0, le=LARGEST_ID, description="Tickets to leave out at the start")] = 0,
):
    conditions = []
    if text:
        conditions.append(or_(*(c.icontains(text, autoescape=True) for c in (Ticket.subject, Ticket.description))))
    if status is not None:
        conditions.append(Ticket.status == status)
    if priority is not None:
        conditions.append(Ticket.priority == priority)
    if customer_id is not None:
        conditions.append(Ticket.customer_id == find_customer(db, customer_id).id)
    if group_id is not None:
        conditions.append(Ticket.group_id == find_group(db, group_id).id)
    if assignee is not None:
        conditions.append(Ticket.assignee_id == find_agent(db, assignee).id)
    if unassigned:
        conditions.append(Ticket.assignee_id.is_(None))
    if tag is not None:
        conditions.append(Ticket.tag_links.any(TicketTag.tag_id == find_tag(db, tag).id))
    page = select(Ticket).where(*conditions).order_by(Ticket.created_at, Ticket.id).limit(limit).offset(offset)
    total = db.scalar(select(func.count()).select_from(Ticket).where(*conditions)) or 0
    return TicketList(total=total, tickets=[ticket_out(ticket) for ticket in db.scalars(page)])


@app.get(
    "/tickets/overdue",
    operation_id="list_overdue_tickets",
    summary="List overdue tickets",
    description="Open and pending tickets older than the customer's service level allows, most overdue first.",
    response_model=list[OverdueTicket],
)
async def list_overdue_tickets(db: Db):
    present, overdue = now(), []
    for ticket in db.scalars(select(Ticket).where(Ticket.status.in_(("open", "pending")))):
        policy = ticket.customer.sla_policy
        late = present - ticket.created_at - timedelta(hours=policy.resolution_hours)
        if late > timedelta(0):
            hours = round(late.total_seconds() / 3600, 1)
            overdue.append(OverdueTicket(ticket=ticket_out(ticket), sla_policy=policy.name, hours_overdue=hours))
    return sorted(overdue, key=lambda entry: -entry.hours_overdue)


@app.get(
    "/tickets/{ticket_id}",
    operation_id="get_ticket",
    summary="Get a ticket",
    description="One ticket with its text, tags and the whole conversation.",
    response_model=TicketDetail,
)
async def get_ticket(ticket_id: TicketId, db: Db):
    ticket = find_ticket(db, ticket_id)
    comments = [CommentOut.model_validate(comment) for comment in ticket.comments]
    return TicketDetail(**ticket_fields(ticket), description=ticket.description, comments=comments)


@app.post(
    "/tickets",
    operation_id="create_ticket",
    summary="Open a ticket",
    description="Opens a new ticket for a customer. It has no assignee yet.",
    response_model=TicketOut,
    status_code=201,
)
async def create_ticket(body: TicketCreate, db: Db):
    find_customer(db, body.customer_id)
    find_group(db, body.group_id)
    ticket = Ticket(**body.model_dump())
    db.add(ticket)
    db.commit()
    return ticket_out(ticket)


@app.patch(
    "/tickets/{ticket_id}",
    operation_id="update_ticket",
    summary="Change subject or priority",
    description="Changes the subject or the priority of a ticket that is not closed.",
    response_model=TicketOut,
)
async def update_ticket(ticket_id: TicketId, change: TicketUpdate, db: Db):
    ticket = find_unclosed(db, ticket_id)
    fields = change.model_dump(exclude_none=True)
    if not fields:
        raise HTTPException(422, "Nothing to change: give a subject or a priority.")
    for name, value in fields.items():
        setattr(ticket, name, value)
    db.commit()
    return ticket_out(ticket)


@app.put(
    "/tickets/{ticket_id}/assignee",
    operation_id="assign_ticket",
    summary="Assign a ticket",
    description="Puts an available agent in charge of a ticket. The ticket moves to that agent's group.",
    response_model=TicketOut,
)
async def assign_ticket(ticket_id: TicketId, body: Assignment, db: Db):
    ticket = find_unclosed(db, ticket_id)
    agent = find_agent(db, body.assignee)
    if agent.availability != "available":
        raise HTTPException(409, f"{agent.name} is on leave and takes no tickets.")
    ticket.assignee, ticket.group = agent, agent.group
    db.commit()
    return ticket_out(ticket)


@app.put(
    "/tickets/{ticket_id}/status",
    operation_id="set_ticket_status",
    summary="Set the status of a ticket",
    description="Moves a ticket to another status. Setting a solved ticket to open reopens it. A closed ticket stays "
    "closed, and only a ticket with an assignee can be solved.",
    response_model=TicketOut,
)
async def set_ticket_status(ticket_id: TicketId, change: StatusChange, db: Db):
    ticket = find_unclosed(db, ticket_id)
    if ticket.status == change.status:
        raise HTTPException(409, f"Ticket {ticket_id} is {change.status} already.")
    if change.status == "solved" and ticket.assignee_id is None:
        raise HTTPException(409, f"Ticket {ticket_id} has no assignee. Assign it before it is solved.")
    if change.status in ("open", "pending"):
        ticket.solved_at = None
    elif ticket.solved_at is None:
        ticket.solved_at = now()
    ticket.status = change.status
    db.commit()
    return ticket_out(ticket)


@app.post(
    "/tickets/{ticket_id}/merge",
    operation_id="merge_ticket",
    summary="Merge a duplicate into a ticket",
    description="The ticket ticket_id survives; duplicate_id is closed and points to it. Both must belong to one "
    "customer, and the surviving ticket must be open or pending.",
    response_model=TicketOut,
)
async def merge_ticket(ticket_id: TicketId, body: Merge, db: Db):
    survivor, duplicate = find_ticket(db, ticket_id), find_ticket(db, body.duplicate_id)
    if survivor.id == duplicate.id:
        raise HTTPException(422, "A ticket cannot be merged into itself.")
    if survivor.status not in ("open", "pending"):
        raise HTTPException(409, f"Ticket {ticket_id} is {survivor.status}. Only an open or pending one can survive.")
    if duplicate.status == "closed":
        raise HTTPException(409, f"Ticket {duplicate.id} is closed already.")
    if survivor.customer_id != duplicate.customer_id:
        raise HTTPException(409, f"Tickets {ticket_id} and {duplicate.id} belong to different customers.")
    duplicate.status, duplicate.merged_into_id = "closed", survivor.id
    db.commit()
    return ticket_out(survivor)


@app.post(
    "/tickets/{ticket_id}/comments",
    operation_id="add_comment",
    summary="Comment on a ticket",
    description="Adds a public answer or an internal note to a ticket that is not closed.",
    response_model=CommentOut,
    status_code=201,
)
async def add_comment(ticket_id: TicketId, body: CommentCreate, db: Db):
    ticket = find_unclosed(db, ticket_id)
    comment = TicketComment(ticket_id=ticket.id, author_type="agent", author_name=DESK_AGENT, **body.model_dump())
    db.add(comment)
    db.commit()
    return comment


@app.get(
    "/tags",
    operation_id="list_tags",
    summary="List tags",
    description="Names of all tags the desk uses.",
    response_model=list[str],
)
async def list_tags(db: Db):
    return db.scalars(select(Tag.name).order_by(Tag.name)).all()


@app.post(
    "/tags",
    operation_id="create_tag",
    summary="Create a tag",
    description="Creates a new tag. Names are kept in lower case.",
    response_model=list[str],
    status_code=201,
)
async def create_tag(body: TagName, db: Db):
    name = body.tag.strip().lower()
    if not name:
        raise HTTPException(422, "A tag needs a name.")
    if db.scalar(select(Tag).where(Tag.name == name)) is not None:
        raise HTTPException(409, f"The tag '{name}' exists already.")
    db.add(Tag(name=name))
    db.commit()
    return db.scalars(select(Tag.name).order_by(Tag.name)).all()


@app.post(
    "/tickets/{ticket_id}/tags",
    operation_id="add_tag",
    summary="Tag a ticket",
    description="Puts an existing tag on a ticket that is not closed.",
    response_model=TicketOut,
)
async def add_tag(ticket_id: TicketId, body: TagName, db: Db):
    ticket, tag = find_unclosed(db, ticket_id), find_tag(db, body.tag)
    if any(link.tag_id == tag.id for link in ticket.tag_links):
        raise HTTPException(409, f"Ticket {ticket_id} has the tag '{tag.name}' already.")
    ticket.tag_links.append(TicketTag(tag=tag))
    db.commit()
    return ticket_out(ticket)


@app.delete(
    "/tickets/{ticket_id}/tags/{tag}",
    operation_id="remove_tag",
    summary="Take a tag off a ticket",
    description="Removes a tag from a ticket that is not closed.",
    response_model=TicketOut,
)
async def remove_tag(
    ticket_id: TicketId, tag: Annotated[str, Path(max_length=50, description="Name of the tag")], db: Db
):
    ticket, found = find_unclosed(db, ticket_id), find_tag(db, tag)
    links = [link for link in ticket.tag_links if link.tag_id == found.id]
    if not links:
        raise HTTPException(404, f"Ticket {ticket_id} does not have the tag '{found.name}'.")
    for link in links:
        db.delete(link)
    db.commit()
    db.refresh(ticket)
    return ticket_out(ticket)


if __name__ == "__main__":
    import uvicorn

    uvicorn.run(app, host=os.getenv("HOST", "127.0.0.1"), port=int(os.getenv("PORT", "8000")))

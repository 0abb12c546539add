"""Scenario app of the tiny pack: lamps in rooms, in plain `def` endpoints."""

import os

from fastapi import FastAPI, HTTPException
from pydantic import BaseModel, Field
from sqlalchemy import Boolean, Column, Integer, String, create_engine
from sqlalchemy.orm import declarative_base, sessionmaker

DATABASE_URL = os.getenv("DATABASE_PATH", "sqlite:///./lamps_1.db")
engine = create_engine(
    DATABASE_URL,
    connect_args={"check_same_thread": False},
)
SessionLocal = sessionmaker(autocommit=False, autoflush=False, bind=engine)
Base = declarative_base()


class Lamp(Base):
    __tablename__ = "lamps"
    id = Column(Integer, primary_key=True)
    room = Column(String, nullable=False)
    lit = Column(Boolean, nullable=False, default=False)
    level = Column(Integer, nullable=False, default=0)


Base.metadata.create_all(bind=engine)
app = FastAPI(title="Lamps")


class LampOut(BaseModel):
    id: int
    room: str
    lit: bool
    level: int


class Setting(BaseModel):
    lit: bool = Field(..., description="On or off")
    level: int = Field(100, ge=0, le=100, description="Brightness in percent")


def shown(lamp: Lamp) -> LampOut:
    return LampOut(id=lamp.id, room=lamp.room, lit=bool(lamp.lit), level=lamp.level)


@app.get("/lamps", operation_id="list_lamps", summary="List lamps", response_model=list[LampOut])
def list_lamps():
    with SessionLocal() as session:
        return [shown(lamp) for lamp in session.query(Lamp).order_by(Lamp.id)]


@app.put("/lamps/{lamp_id}", operation_id="set_lamp", summary="Switch a lamp", response_model=LampOut)
def set_lamp(lamp_id: int, setting: Setting):
    with SessionLocal() as session:
        lamp = session.get(Lamp, lamp_id)
        if lamp is None:
            raise HTTPException(status_code=404, detail="Lamp not found")
        lamp.lit, lamp.level = setting.lit, setting.level
        session.commit()
        return shown(lamp)


if __name__ == "__main__":
    import uvicorn

    uvicorn.run(app, host="127.0.0.1", port=8000)

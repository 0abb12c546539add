"""The clock and the randomness of a scenario's process, set by the server for each call, so that calls can be repeated.

Owns Python's clocks, `random` and `os.urandom`, and SQLite's functions of both. Runs in the sandboxed children only
(`host`), where untrusted code can undo it: its effect is never trusted, a replay is compared instead. Without
time-machine `is_there` is false, and worlds keep their real clocks.
"""

import importlib
import os
import random
import sqlite3
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

_DATES = ("date", "time", "datetime", "julianday", "unixepoch")
_STANDING = {"current_date": "date", "current_time": "time", "current_timestamp": "datetime"}
_MOST_BYTES = 1 << 24
_connect = sqlite3.connect


class _Clock:
    """The set values: milliseconds since 1970 as SQLite writes them, and a source of randomness. By default none."""

    def __init__(self) -> None:
        self.now: str | None = None
        self.chance: random.Random | None = None
        self.traveller: Any = None
        self.coordinates: Any = None
        self.plain: sqlite3.Connection | None = None


_clock = _Clock()
_urandom = os.urandom
sys.modules.setdefault("pytest", None)  # type: ignore[arg-type]  # time_machine would import it, for a plugin of tests
try:
    _machine: Any = importlib.import_module("time_machine")
except ImportError:
    _machine = None
is_there = _machine is not None


def install() -> None:
    """Install the clock, once per zygote. It shows the set time, or the real time if none is set."""
    os.urandom = _bytes
    # `random` has a reference of its own, which `SystemRandom` and new seeds use.
    random.__dict__["_urandom"] = _bytes
    for module in (sqlite3, importlib.import_module("sqlite3.dbapi2")):
        module.__dict__["connect"] = connect


def hold(clock_ms: int | None, seed: str) -> None:
    """Set time and seed until the next call of `hold` or `use_real_clocks`. Without a time the clocks are real."""
    if clock_ms is None:
        _real_time()
    else:
        _stand_at(clock_ms)
    # Apart, so that numbers drawn from `random` do not move the bytes of `os.urandom`.
    _clock.chance = random.Random(seed)
    random.seed(f"python/{seed}")


def use_real_clocks() -> None:
    """Use the real clocks and real randomness again."""
    _real_time()
    _clock.chance = None
    random.seed()


def _stand_at(clock_ms: int) -> None:
    moment = datetime.fromtimestamp(clock_ms / 1000, UTC)
    if _machine is not None:
        if _clock.traveller is None:
            _clock.traveller = _machine.travel(clock_ms / 1000, tick=False)
            _clock.coordinates = _clock.traveller.start()
        else:
            _clock.coordinates.move_to(clock_ms / 1000, tick=False)
    _clock.now = moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{clock_ms % 1000:03d}"


def _real_time() -> None:
    if _clock.traveller is not None:
        _clock.traveller.stop()
        _clock.traveller = None
    _clock.now = None


def _bytes(size: int) -> bytes:
    return _clock.chance.randbytes(size) if _clock.chance is not None else _urandom(size)


def connect(*arguments: Any, **options: Any) -> sqlite3.Connection:
    """Call `sqlite3.connect`, with our functions of time and randomness."""
    connection: sqlite3.Connection = _connect(*arguments, **options)
    if is_there:
        # Deterministic, because indexes and constraints take no other functions.
        for name in _DATES:
            connection.create_function(name, -1, _dated(name, 0), deterministic=True)
        connection.create_function("strftime", -1, _dated("strftime", 1), deterministic=True)
        for name, same in _STANDING.items():
            connection.create_function(name, 0, _dated(same, 0), deterministic=True)
        connection.create_function("random", 0, _number)
        connection.create_function("randomblob", 1, _blob)
    return connection


def _dated(name: str, place: int) -> Callable[..., Any]:
    """Return SQLite's own function over a plain connection, with the set time for the argument *now*."""

    def dated(*values: Any) -> Any:
        arguments = list(values)
        if _clock.now is not None:
            if len(arguments) == place:
                arguments.append(_clock.now)
            elif len(arguments) > place and str(arguments[place]).lower() == "now":
                arguments[place] = _clock.now
        if _clock.plain is None:
            _clock.plain = _connect(":memory:", check_same_thread=False)
        marks = ", ".join("?" * len(arguments))
        return _clock.plain.execute(f"SELECT {name}({marks})", arguments).fetchone()[0]

    return dated


def _number() -> int:
    return int.from_bytes(_bytes(8), "little", signed=True)


def _blob(size: Any) -> bytes:
    return _bytes(min(max(int(size or 0), 1), _MOST_BYTES))

"""The embedded Valkey: its configuration, its start, and its health check.

Owns the queue's data folder. Valkey wakes workers and carries live hints; the database is the record, so an unreadable
data folder is set aside. Called by `servers`.
"""

import os
import shutil
import socket
import time
from pathlib import Path

from awmweb.embedded import space
from awmweb.embedded.paths import QUEUE_SOCKET, EmbeddedError, Paths, Secrets, account, own_folder, valkey_program
from awmweb.embedded.processes import ChildProcess, Spec, last_lines

NAME = "valkey"
START_SECONDS = 120  # a long append-only file takes its time to load


def configuration(here: Paths, password: str) -> str:
    """Return the settings: append-only, private socket, a password, and no silent eviction."""
    return "\n".join(
        [
            "port 0",
            f"unixsocket {here.sockets / QUEUE_SOCKET}",
            "unixsocketperm 600",
            f"requirepass {password}",
            f"dir {here.queue}",
            "appendonly yes",
            # A power cut loses a second of calls: the database has the work, and the sweeps call again.
            "appendfsync everysec",
            'save ""',
            "maxmemory 512mb",
            "maxmemory-policy noeviction",
            "daemonize no",
            "loglevel notice",
            "databases 4",
            "io-threads 1",
            "",
        ]
    )


def start(here: Paths, passwords: Secrets) -> ChildProcess:
    """Start the server and return once it answers; set unreadable data aside and try once more."""
    child = _launch(here, passwords)
    if _answers(child, here, passwords.queue):
        return child
    # A server that still runs is slow, and one on a full disk cannot write: its data is not damaged, and stays.
    is_damaged = not child.running and not space.full_among(here.queue)
    child.stop(1)
    if not is_damaged or not (here.queue / "appendonlydir").exists():
        raise _failed(here)
    aside = here.queue.with_name(f"valkey.unreadable-{int(time.time())}")
    here.queue.rename(aside)
    try:
        child = _launch(here, passwords)
        if _answers(child, here, passwords.queue):
            return child
        child.stop(1)
    except OSError:
        _put_back(aside, here)
        raise
    _put_back(aside, here)  # it failed with an empty folder as well: the data was not the cause
    raise _failed(here)


def _put_back(aside: Path, here: Paths) -> None:
    shutil.rmtree(here.queue, ignore_errors=True)
    aside.rename(here.queue)


def ping(here: Paths, password: str) -> bool:
    """Return whether the server accepts the password and answers."""
    try:
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(2)
            line.connect(str(here.sockets / QUEUE_SOCKET))
            # In the protocol itself, so that the supervisor needs no client library.
            line.sendall(f"AUTH {password}\r\nPING\r\n".encode())
            answer = b""
            while answer.count(b"\n") < 2:
                block = line.recv(200)
                if not block:
                    return False
                answer += block
            return answer == b"+OK\r\n+PONG\r\n"
    except OSError:
        return False


def _launch(here: Paths, passwords: Secrets) -> ChildProcess:
    who = account(here)
    program = valkey_program(here)
    own_folder(here.queue, who, 0o700)
    (here.sockets / QUEUE_SOCKET).unlink(missing_ok=True)  # a killed server leaves it behind
    _own_file(here.queue / "valkey.conf", configuration(here, passwords.queue), here)
    command = [str(program), str(here.queue / "valkey.conf")]
    environment = {"LANG": "C.UTF-8", "PATH": "/usr/bin:/bin"}
    return ChildProcess.start(
        Spec(NAME, command, here.logs / "valkey.log", here.queue, environment, who, orphan_signal=15)
    )


def _own_file(file: Path, text: str, here: Paths) -> None:
    """Write a private file that the server's account can read."""
    # Root writes into a folder of another account, which could have put a link here.
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "w") as out:
        out.write(text)
        who = account(here)
        if who:
            os.fchown(out.fileno(), who.uid, who.gid)


def _answers(child: ChildProcess, here: Paths, password: str) -> bool:
    end = time.monotonic() + START_SECONDS
    while child.running and time.monotonic() < end:
        if ping(here, password):
            return True
        time.sleep(0.01)
    return False


def _failed(here: Paths) -> EmbeddedError:
    log = here.logs / "valkey.log"
    return EmbeddedError("Valkey did not start. Its log ends:\n  " + "\n  ".join(last_lines(log)) + f"\n  ({log})")

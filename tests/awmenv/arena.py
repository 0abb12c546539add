"""What attackers are after, set up for real.

A secret file, a secret in the environment, ports, a victim process, databases.
"""

import contextlib
import hashlib
import os
import socket
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.awmenv.attacks import Attack

SECRET = "SECRET-LOOT"
NAME = "AWMENV_TEST_SECRET"


@dataclass
class Arena:
    """What attackers are after, and what tells that they got it."""

    folder: Path
    contacts: list[str] = field(default_factory=list)
    port: int = 0
    victim: subprocess.Popen[bytes] | None = None

    @property
    def canary(self) -> Path:
        return self.folder / "canary"

    def databases(self) -> tuple[str, str]:
        return str(self.folder / "initial.db"), str(self.folder / "final.db")

    def code(self, attack: Attack) -> str:
        names = {
            "CANARY": str(self.canary),
            "FOLDER": str(self.folder),
            "PORT": self.port,
            "UNIX": str(self.folder / "socket"),
            "VICTIM": self.victim.pid if self.victim else 0,
            "SECRET_NAME": NAME,
        }
        return "".join(f"{name} = {value!r}\n" for name, value in names.items()) + attack.code

    def print_of(self) -> dict[str, str]:
        """Every entry of the folder with its kind, mode, times and content."""
        found = {}
        for path in sorted(self.folder.iterdir()):
            stat = path.lstat()
            content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() and not path.is_symlink() else ""
            attributes = os.listxattr(path) if path.is_file() else []
            found[path.name] = f"{stat.st_mode} {stat.st_nlink} {stat.st_mtime_ns} {attributes} {content}"
        return found


@contextlib.contextmanager
def arena_in(folder: Path, user: int | None = None) -> Iterator[Arena]:
    """An arena in a new folder that everybody may write to; the victim is a process of this user."""
    folder.mkdir()
    arena = Arena(folder)
    arena.canary.write_text(SECRET)
    for name, table in (("initial.db", "t(x)"), ("final.db", "t(x)"), ("other.db", "t(x)")):
        connection = sqlite3.connect(folder / name)
        connection.execute(f"CREATE TABLE {table}")
        connection.execute("INSERT INTO t VALUES (?)", (SECRET if name == "other.db" else 1,))
        connection.commit()
        connection.close()
    folder.chmod(0o777)
    for path in folder.iterdir():
        path.chmod(0o666)
    arena.victim = subprocess.Popen(["sleep", "600"], env={**os.environ, NAME: SECRET}, user=user)
    with contextlib.ExitStack() as stack:
        _listen(arena, stack)
        yield arena
    arena.victim.kill()
    arena.victim.wait()


def _listen(arena: Arena, stack: contextlib.ExitStack) -> None:
    """TCP and UDP on one port, and unix sockets of both kinds; whoever gets through is written down."""
    tcp, udp = _pair_of_ports()
    stack.enter_context(tcp)
    stack.enter_context(udp)
    arena.port = tcp.getsockname()[1]
    unix = stack.enter_context(socket.socket(socket.AF_UNIX))
    unix.bind(str(arena.folder / "socket"))
    (arena.folder / "socket").chmod(0o777)
    datagrams = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
    datagrams.bind(str(arena.folder / "socket-datagrams"))
    (arena.folder / "socket-datagrams").chmod(0o777)
    threads = [
        threading.Thread(target=_receive, args=(arena, name, sock))
        for name, sock in (("udp", udp), ("datagrams", datagrams))
    ]
    for name, sock in (("tcp", tcp), ("unix", unix)):
        sock.listen()
        threads.append(threading.Thread(target=_accept, args=(arena, name, sock)))
    for thread in threads:
        thread.start()
    stack.callback(lambda: [thread.join(5) for thread in threads])
    stack.callback(lambda: [sock.shutdown(socket.SHUT_RDWR) for sock in (tcp, unix)])
    stack.callback(lambda: [sock.sendto(b"end", sock.getsockname()) for sock in (udp, datagrams)])


def _pair_of_ports() -> tuple[socket.socket, socket.socket]:
    """One number for both protocols; a number that UDP has taken is given back."""
    while True:
        tcp, udp = socket.socket(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        tcp.bind(("127.0.0.1", 0))
        try:
            udp.bind(tcp.getsockname())
            return tcp, udp
        except OSError:
            tcp.close()
            udp.close()


def _accept(arena: Arena, name: str, sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while True:
            connection, _address = sock.accept()
            arena.contacts.append(name)
            connection.close()


def _receive(arena: Arena, name: str, sock: socket.socket) -> None:
    while sock.recv(100) != b"end":
        arena.contacts.append(name)


def breaches(arena: Arena, said: str, before: dict[str, str]) -> list[str]:
    """What the attack got hold of."""
    found = []
    if SECRET in said or (("canary" in said) and ("initial.db" in said)):
        found.append("secret")
    if arena.print_of() != before:
        found.append("files")
    if arena.contacts:
        found.append("network")
    if arena.victim is not None and arena.victim.poll() is not None:
        found.append("victim")
    return found

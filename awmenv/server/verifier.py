"""Runs verifiers, and trusted readings of untrusted databases, in sandboxed children of one zygote.

Owns `run_verifier`, the public function: it never raises, ends in time, and works imported alone. Called by `sessions`,
by `checkup`, and by tests. It never imports, compiles or runs dataset code itself.
"""

import atexit
import json
import os
import secrets
import shutil
import socket
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from awmenv.errors import AwmenvError, HostFailed, SandboxMissing
from awmenv.server import strict
from awmenv.server.sandbox import confine, framing, plain
from awmenv.server.sandbox.launching import ZygoteClient
from awmenv.server.settings import BadSetting, Settings
from awmenv.server.workplace import Workplace

MAX_CODE = 256 * 1024
MAX_ANSWER = 1 << 20
MAX_DATABASE = 512 << 20
OUTPUT = strict.Bounds(size=plain.MAX_SIZE + 64, values=2 * plain.MAX_NODES + 10, depth=plain.MAX_DEPTH + 1)
GRACE_S = 0.5  # of the whole timeout, kept back for copying and reading
VERDICTS = ("complete", "others")


class RunFailed(AwmenvError):
    """The child crashed, hung, was killed or sent an invalid response."""

    code = "run_failed"


@dataclass(frozen=True)
class VerifierRun:
    """The result of one child, and its cost."""

    value: Any
    tier: str
    duration_ms: float
    cpu_ms: float
    rss_kb: int


class VerifierPool:
    """One zygote and its folder. Any number of threads can run work concurrently."""

    def __init__(
        self, settings: Settings, workplace: Workplace | None = None, *, die_with_thread: bool = False
    ) -> None:
        self.settings = settings
        self._own = workplace is None
        self.workplace = workplace or Workplace(settings.run_dir, settings.uid)
        folder = self.workplace.fresh("verifier-")
        self.zygote = ZygoteClient(
            "verifier", str(folder), self.workplace.uid, settings.declared_tier, die_with_thread=die_with_thread
        )

    def start(self) -> None:
        self.zygote.start()

    def stop(self) -> None:
        self.zygote.stop()
        if self._own:
            self.workplace.remove()

    @property
    def tier(self) -> str:
        return self.zygote.tier

    def require_tier(self) -> None:
        self.zygote.start()
        if confine.TIERS.index(self.tier) < confine.TIERS.index(self.settings.min_tier):
            missing = ", ".join(name for name, holds in self.zygote.probes.items() if not holds)
            raise SandboxMissing(
                f"sandbox_missing: sandbox level '{self.tier}' is below AWMENV_MIN_TIER '{self.settings.min_tier}'"
                + (f" (not held: {missing})" if missing else "")
            )

    def run(
        self,
        work: Literal["code", "sql", "diff", "tables"],
        paths: list[str],
        code: str = "",
        answer: str | None = None,
        *,
        private: bool = False,
    ) -> VerifierRun:
        """Run one child on private copies of the databases.

        `private`: they are private already, and no one writes them. Raises an EnvironmentFault for everything that is
        not a clean response.
        """
        started = time.monotonic()
        self.require_tier()
        if len(code) > MAX_CODE or (answer is not None and len(answer) > MAX_ANSWER):
            raise RunFailed("the verifier's code or the answer is too long")
        if private:
            return self._in_child(work, paths, code, answer, started)
        folder = self.workplace.fresh("run-")
        try:
            copies = [
                copy_database(path, folder / name)
                for path, name in zip(paths, ("initial.db", "final.db"), strict=False)
            ]
            return self._in_child(work, copies, code, answer, started)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _in_child(self, work: str, paths: list[str], code: str, answer: str | None, started: float) -> VerifierRun:
        ends_at = started + self.settings.verifier_timeout_s
        limit_s = max(0.1, ends_at - time.monotonic() - GRACE_S)
        nonce = secrets.token_hex(16)
        request = {"work": work, "paths": paths, "code": code, "answer": answer, "nonce": nonce, "wall": limit_s}
        leash, far_leash = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        data, far_data = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with leash, data:
            with far_leash, far_data:
                self.zygote.request({"wall": limit_s}, [far_leash.fileno(), far_data.fileno()])
            stream, report = _talk(data, leash, framing.encode(request), ends_at)
        value = _accept(stream, report, nonce)
        return VerifierRun(
            value, self.tier, round((time.monotonic() - started) * 1000, 1), report["cpu_ms"], report["rss_kb"]
        )


def copy_database(source: str, target: Path) -> str:
    """Return a private, read-only copy of a plain file.

    It is not opened as a database here: its writer is untrusted.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        fd = os.open(source, flags)
    except OSError as error:
        raise RunFailed(f"no database at {source}: {error.strerror}") from error
    with os.fdopen(fd, "rb") as stream, target.open("xb") as out:
        if not os.path.isfile(f"/proc/self/fd/{fd}") and not os.path.isfile(source):
            raise RunFailed(f"{source} is not a file")
        if os.fstat(fd).st_size > MAX_DATABASE:
            raise RunFailed(f"the database is larger than {MAX_DATABASE} bytes")
        shutil.copyfileobj(stream, out, 1 << 20)
    target.chmod(0o444)
    return str(target)


def _talk(data: socket.socket, leash: socket.socket, request: bytes, ends_at: float) -> tuple[bytes, dict[str, Any]]:
    """Send the request, read the whole response up to a bound, then the zygote's report of the exit."""
    parts: list[bytes] = []
    size = 0
    try:
        data.settimeout(max(0.05, ends_at - time.monotonic()))
        data.sendall(request)
        while size <= OUTPUT.size:
            data.settimeout(max(0.05, ends_at - time.monotonic()))
            part = data.recv(1 << 16)
            if not part:
                break
            parts.append(part)
            size += len(part)
        if size > OUTPUT.size:
            raise RunFailed("the verifier wrote more than it may")
        leash.settimeout(max(0.05, ends_at - time.monotonic()))
        return b"".join(parts), json.loads(leash.recv(4096) or b"{}")
    except TimeoutError as error:
        raise RunFailed("the verifier timed out") from error
    except (ConnectionError, ValueError) as error:
        raise RunFailed(f"the verifier's process has ended: {error}") from error


def _accept(stream: bytes, report: dict[str, Any], nonce: str) -> Any:
    """Return the value, only from a clean end with exactly one good frame."""
    if report.get("timed_out"):
        raise RunFailed("the verifier timed out")
    if report.get("exit") != 0:
        raise RunFailed(f"the verifier's process ended with {report.get('exit', 'nothing')}")
    try:
        # A verifier may have found the nonce and written the frame itself.
        frame = strict.read(framing.only_body(stream), OUTPUT)
    except framing.BadFrame as error:
        raise RunFailed(f"invalid response from the verifier's process: {error}") from error
    if type(frame) is not dict or frame.get("nonce") != nonce:
        raise RunFailed("unexpected response from the verifier's process")
    if frame.get("ok") is not True:
        raise RunFailed(str(frame.get("error", "unknown error"))[:2000])
    return frame.get("value")


def verdict(
    verifiers: VerifierPool,
    code: str,
    mode: str,
    initial_db: str,
    final_db: str,
    final_answer: str | None,
    private: bool = False,
) -> dict[str, Any]:
    """Run a verifier with the given zygote, as `run_verifier` does."""
    started = time.monotonic()
    if mode not in ("code", "sql"):
        return _failed("mode is neither code nor sql", verifiers.tier, started)
    if not isinstance(code, str) or not (final_answer is None or isinstance(final_answer, str)):
        return _failed("code and final_answer must be texts", verifiers.tier, started)
    try:
        paths = [str(initial_db), str(final_db)]
        run = verifiers.run("sql" if mode == "sql" else "code", paths, code, final_answer, private=private)
    except (AwmenvError, OSError, ValueError) as error:
        return _failed(str(error), verifiers.tier, started, getattr(error, "code", "unavailable"))
    value = run.value
    if type(value) is not dict:
        return {**_failed("the verifier returned no dict", run.tier, started), "raw_result": value}
    if mode == "code" and value.get("result") not in VERDICTS:
        return {
            **_failed("the verifier's result is neither complete nor others", run.tier, started),
            "raw_result": value,
        }
    return {
        "result": value["result"] if mode == "code" else "others",
        "execution_status": "success",
        "raw_result": value,
        "error_message": None,
        "tier": run.tier,
        "duration_ms": run.duration_ms,
        "cpu_ms": run.cpu_ms,
        "max_rss_kb": run.rss_kb,
    }


def _failed(message: str, tier: str, started: float, code: str = RunFailed.code) -> dict[str, Any]:
    """Return the result of a failure.

    `error_code` separates a verifier's own failure (run_failed) from one of its environment.
    """
    return {
        "result": "others",
        "execution_status": "error",
        "raw_result": None,
        "error_message": message,
        "error_code": code,
        "tier": tier,
        "duration_ms": round((time.monotonic() - started) * 1000, 1),
    }


_lock = threading.Lock()
_verifiers: VerifierPool | None = None
_verifiers_pid = 0


def shared_verifiers() -> VerifierPool:
    """Return this process's verifiers, made at the first call. A forked child makes its own."""
    global _verifiers, _verifiers_pid
    with _lock:
        if _verifiers is None or _verifiers_pid != os.getpid():
            _verifiers = VerifierPool(Settings.from_environment())
            _verifiers_pid = os.getpid()
            atexit.register(_leave, _verifiers, _verifiers_pid)
        return _verifiers


def _leave(verifiers: VerifierPool, pid: int) -> None:
    if os.getpid() == pid:
        verifiers.stop()


def run_verifier(
    code: str, mode: Literal["code", "sql"], initial_db: str, final_db: str, final_answer: str | None = None
) -> dict[str, Any]:
    """Run one verifier on copies of two databases. Never raises; any outcome but `others` needs a clean run.

    Returns result, execution_status, raw_result, error_message, tier, duration_ms (and cpu_ms, max_rss_kb of a run that
    ended well).
    """
    started = time.monotonic()
    try:
        verifiers = shared_verifiers()
    except (OSError, HostFailed, BadSetting) as error:
        return _failed(str(error), confine.NONE, started, "unavailable")
    return verdict(verifiers, code, mode, initial_db, final_db, final_answer)

"""Commands of a running product without a new interpreter for each: one process loads Django, and forks for each.

`tests.running` starts it in the product's environment. A request is a line of JSON with the arguments and the files
that stdout and stderr go to; the answer is a line with the exit code. The parent never opens a connection, so children
share none. Loading Django costs two seconds of processor time, a child a tenth of one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


class Commands:
    """`manage.py` of one product, loaded with the first command."""

    def __init__(self, environment: Mapping[str, str], code: Path = ROOT) -> None:
        self.environment, self.code = dict(environment), code
        self.process: subprocess.Popen[str] | None = None
        self.turn = threading.Lock()

    def run(self, *arguments: str, timeout: float = 300, folder: Path | None = None) -> tuple[int, str, str]:
        """Return exit code, stdout and stderr of `manage.py` with these arguments, as typed in `folder`."""
        with self.turn, tempfile.TemporaryDirectory(prefix="awmweb-command-") as written:
            out, err = Path(written) / "out", Path(written) / "err"
            process = self.process = self.process or self._start()
            assert process.stdin is not None and process.stdout is not None
            late = threading.Timer(timeout, process.kill)
            late.start()
            try:
                process.stdin.write(json.dumps([arguments, str(out), str(err), str(folder or self.code)]) + "\n")
                process.stdin.flush()
                answer = process.stdout.readline()
            finally:
                late.cancel()
            if not answer:
                process.kill()
                self.process = None
                raise AssertionError(f"manage.py {' '.join(arguments)}: ended without an answer ({timeout} s at most)")
            return int(answer), out.read_text(), err.read_text()

    def _start(self) -> subprocess.Popen[str]:
        # this file also for the code of an earlier release, whose own may speak otherwise
        paths = [str(self.code), self.environment.get("PYTHONPATH", "")]
        return subprocess.Popen(
            [sys.executable, "-P", str(Path(__file__).resolve())],
            cwd=self.code, env={**self.environment, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def stop(self) -> None:
        """End the process; a command that still runs is ended with it."""
        if self.process is not None:
            with suppress(BrokenPipeError, subprocess.TimeoutExpired):
                self.process.communicate(timeout=20)
            self.process.kill()
            self.process = None


def _child(arguments: list[str], out: str, err: str, folder: str) -> int:
    """Do what `manage.py` does, in a process of its own."""
    os.chdir(folder)
    for number, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    from django.core.management import execute_from_command_line

    try:
        execute_from_command_line(["manage.py", *arguments])
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def main() -> None:
    """Load what every command loads, then fork for each request until stdin ends."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "awmweb.settings")
    import django
    from django.conf import settings

    django.setup()
    import_module(settings.ROOT_URLCONF)  # the checks that run before a command read it
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = _child(*json.loads(line))
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    main()

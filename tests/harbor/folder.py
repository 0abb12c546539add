"""A folder in place of Harbor's container, for machines without one: commands are processes of this machine, and the
paths that a container would have are below the folder. It isolates nothing. Loaded by Harbor, in its own environment.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from pathlib import Path
from typing import Any

from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.environments.capabilities import EnvironmentCapabilities

PLACES = re.compile(r"(?<![\w./-])/(logs|tests|solution|app|installed-agent)(?=[/\s\"';:&|)]|$)")


class Folder(BaseEnvironment):
    """The folder of one trial. Its `/logs` are those of the trial, as where a container mounts them."""

    @staticmethod
    def type() -> str:
        return "folder"

    @property
    def capabilities(self) -> EnvironmentCapabilities:
        return EnvironmentCapabilities(mounted=True)

    @property
    def root(self) -> Path:
        return self.trial_paths.trial_dir.resolve() / "folder"

    def _validate_definition(self) -> None:
        """Accept any: nothing is built."""

    def is_path_mounted(self, environment_path: Any, host_path: Path) -> bool:
        return str(environment_path).startswith("/logs")

    async def start(self, force_build: bool) -> None:
        for name in ("app", "home", "tests", "solution"):
            (self.root / name).mkdir(parents=True, exist_ok=True)
        shutil.copytree(self.environment_dir, self.root / "app", dirs_exist_ok=True)

    async def stop(self, delete: bool) -> None:
        """Leave the folder: a test looks at it."""

    def _here(self, place: Any) -> Path:
        return Path(self._words(str(place)))

    def _words(self, text: str) -> str:
        trial = self.trial_paths.trial_dir.resolve()
        return PLACES.sub(lambda place: f"{trial if place[1] == 'logs' else f'{self.root}/{place[1]}'}", text)

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        target = self._here(target_path)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source_path, target)

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        shutil.copytree(source_dir, self._here(target_dir), dirs_exist_ok=True)
        for script in self._here(target_dir).rglob("*.sh"):
            script.write_text(self._words(script.read_text()))

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        shutil.copy(self._here(source_path), target_path)

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        shutil.copytree(self._here(source_dir), target_dir, dirs_exist_ok=True)

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> ExecResult:
        # a path, and no words that name one
        own = {name: str(self._here(value)) if PLACES.match(value) else value for name, value in (env or {}).items()}
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.root / "home"), **(self._merge_env(own) or {})}
        process = await asyncio.create_subprocess_exec(
            *("bash", "-c", self._words(command)),
            cwd=self._here(cwd or "/app"),
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, error = await asyncio.wait_for(process.communicate(), timeout_sec)
        return ExecResult(stdout=out.decode(), stderr=error.decode(), return_code=process.returncode or 0)

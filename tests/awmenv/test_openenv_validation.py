"""`openenv validate` on the environment server: its manifest, its HTTP routes, and what openenv's graders measure over
the wire in an episode of the starter pack."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from openenv.validation.manifest import ExecutionDeclaration
from openenv.validation.providers import ExecResult
from openenv.validation.runner import run_validation, source_digest
from openenv.validation.runtime.contracts import LaunchSpec
from openenv.validation.types import CheckStatus, ProviderCapability

from tests.awmenv.conftest import ROOT, Server, start_server

MEASURED = {
    "static.manifest",
    "runtime.startup",
    "runtime.reward_well_formed",
    "runtime.observation_schema",
    "runtime.state_contract",
}
"""What openenv 0.10 has a grader for. That of the network measures a container, so it needs Docker."""
UNMEASURED = ("grader not implemented in this build", "missing provider capabilities: network_policy")


class StartedServer:
    """The server that a validation talks to."""

    def __init__(self, server: Server) -> None:
        self.base_url, self._server = server.url, server

    def inspect(self) -> dict[str, object]:
        return {"packs": self._server.get("/health")}

    def logs(self, max_bytes: int = 65536) -> str:
        return ""

    def exec(self, argv: list[str], timeout_s: float) -> ExecResult:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout_s)
        return ExecResult(done.returncode, done.stdout, done.stderr, timeout_s)

    def stop(self) -> None:
        self._server.stop()


class ProcessProvider:
    """Starts the package's server as a process, where openenv's own provider starts a container of its image."""

    name, supported_network_modes = "process", frozenset({"public"})
    capabilities = frozenset({ProviderCapability.IMAGE_BUILD})

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def build(self, root: Path, execution: ExecutionDeclaration) -> str:
        self.root = root
        assert (root / execution.dockerfile).is_file() and (root / execution.probe_path).is_file()
        return f"sha256:{source_digest(root).removeprefix('sha256:')}"

    def start(self, spec: LaunchSpec) -> StartedServer:
        return StartedServer(start_server(self.folder, self.root / "packs"))


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """The package as it is published: with a pack in it."""
    package = tmp_path / "awmenv"
    shutil.copytree(ROOT / "awmenv", package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "packs" / "starter", package / "packs")
    return package


def validated(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("openenv")), "validate", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)


@pytest.mark.parametrize("target", ["static", "url"])
def test_manifest_and_routes_pass_openenvs_own_validation(server: Server, target: str) -> None:
    done = validated("--url", server.url) if target == "url" else validated("awmenv", "--level", "static")
    assert done.returncode == 0, done.stdout
    assert "PASS" in done.stdout and "FAIL" not in done.stdout


def test_package_passes_all_that_openenv_can_measure(published: Path, tmp_path: Path) -> None:
    """All levels, on the running server. What this openenv has no grader for is skipped by it, with that reason."""
    report = run_validation(published, provider=ProcessProvider(tmp_path))
    found = {one.check_id: one for one in report.results}
    passed = {name for name, one in found.items() if one.status is CheckStatus.PASS}
    assert passed == MEASURED, [(name, one.status, one.evidence) for name, one in found.items()]
    rest = {name: one.evidence for name, one in found.items() if name not in passed}
    assert all(any(word in str(why) for word in UNMEASURED) for why in rest.values()), rest
    assert {"semantic.oracle_max", "runtime.network_policy"} <= set(rest)


@pytest.mark.long
def test_command_fails_nothing_at_its_highest_level(published: Path) -> None:
    """Without an image: what needs one is measured above, on a process."""
    done = validated(str(published), "--level", "semantic", "--skip-build")
    assert done.returncode == 0 and "FAIL " not in done.stdout and "ERROR" not in done.stdout, done.stdout

"""Which version is this? The number, and the commit that the code is of.

The one home of both; awmweb, the environment server, the wheels and the image take them from here. The standard library
alone, so that builds can run it. docs/developing.md says how the number counts up.

A commit is known from what a build left, from the Git of a checkout, or from the installed wheel. Elsewhere it is
`unknown`. A checkout whose files are not those of the commit says so: `0.3.0+75f12609.changed`.
"""

import os
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path

NUMBER = "0.3.0"
UNKNOWN = "unknown"
BUILT = Path(__file__).with_name("commit.txt")
"""Written by a build of an image, which has no Git."""
TREE = Path(__file__).resolve().parents[1]
PATIENCE_S = 30


@cache
def version() -> str:
    """Return the version, such as `0.3.0+75f12609`."""
    return f"{NUMBER}+{commit_of(TREE)}"


def commit_of(tree: Path) -> str:
    """Return the short commit of the code in this folder."""
    if built := _built():
        return built
    if (tree / ".git").exists():  # and not that of a folder above, of which an environment can be a part
        return _of_checkout(tree)
    return _of_wheel(tree) or UNKNOWN


def _built() -> str:
    try:
        return BUILT.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


def _of_checkout(tree: Path) -> str:
    commit = _git(tree, "rev-parse", "--short=8", "HEAD")
    if not commit:
        return UNKNOWN
    return f"{commit}.changed" if _git(tree, "status", "--porcelain", "--untracked-files=no") else commit


def _git(tree: Path, *words: str) -> str:
    """Return what Git says, also of a checkout of another account; "" without Git."""
    place = (f"--git-dir={tree / '.git'}", f"--work-tree={tree}")
    command = ["git", "-c", "safe.directory=*", "-c", "core.fsmonitor=false", *place, *words]
    environment = os.environ | {"GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return "" if done.returncode else done.stdout.strip()


def _of_wheel(tree: Path) -> str:
    """Return the commit in the version of the wheel that put this folder there."""
    try:
        wheel = metadata.distribution("awmweb")
    except metadata.PackageNotFoundError:
        return ""
    if Path(str(wheel.locate_file("awmweb_home"))).resolve() != tree:
        return ""
    return wheel.version.partition("+")[2]

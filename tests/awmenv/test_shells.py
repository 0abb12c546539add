"""What the environment server leaves out of its process: libraries that openenv imports for other environments."""

from __future__ import annotations

import subprocess
import sys

from tests.commands import ROOT

UNUSED = ("beartype", "gradio", "key_value", "pygments", "pytest", "rich")
"""Parts of what is left out, by which its import would show."""


def loaded(code: str) -> str:
    """Return which of them a process has imported after this code."""
    look = f"import sys; {code}; print([one for one in {UNUSED} if sys.modules.get(one) is not None])"
    return subprocess.run([sys.executable, "-c", look], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_server_imports_no_library_of_other_environments():
    assert loaded("import awmenv.server.__main__") == "[]\n"


def test_scenarios_are_forked_without_what_they_never_use():
    assert loaded("from awmenv.server.world import host; host.preload_libraries()") == "[]\n"


def test_library_that_is_there_stays():
    assert loaded("import rich; from awmenv.server import shells; shells.leave_out()") == "['rich']\n"
    kept = "import mcp.types as real; from awmenv.server import shells; shells.leave_out(); import mcp.types"
    assert loaded(f"{kept}; assert mcp.types is real").startswith("[")

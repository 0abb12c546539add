"""The command `awmweb` of an installed wheel: `manage.py` of this folder, with a data folder of its user."""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

HOME = Path(__file__).resolve().parent


def main() -> None:
    """Run `manage.py` with the arguments of the command line."""
    # The product's packages are found before others of their names; the processes that it starts have this folder, too.
    sys.path.insert(0, str(HOME))
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    os.environ.setdefault("AWMWEB_VAR", str(Path(data) / "awmweb"))
    runpy.run_path(str(HOME / "manage.py"), run_name="__main__")

"""Settings of the running product for commands in another shell, in a file of the data folder. None is secret.

Written by `supervisor`, read by `manage.py` before Django's settings are.
"""

import json
import re
from collections.abc import Mapping

from awmweb.embedded.paths import data_folder

FILE = "settings.json"
# Keys, headers and queries of endpoints are secrets and stay with the processes that call the endpoints. What a server
# cannot share with a command, its folder of sessions and its users, stays with it, too.
NAMES = re.compile(
    r"AWMWEB_(AGENT|EXPERT|PRICE|ENVIRONMENT)S"
    r"|AWMWEB_ENVIRONMENT_[A-Z0-9_]+_(URL|TIMEOUT_S)"
    r"|AWMWEB_(AGENT|EXPERT)_([A-Z0-9_]+_)?(BASE_URL|MODEL|TIMEOUT_S|PARALLEL)"
    r"|AWMENV_(URL|HOST|PORT|PARTIAL|PACKS|CACHE_DIR|MIN_TIER|DECLARED_TIER)"
    r"|AWMENV_(LOAD_TIMEOUT|CALL_TIMEOUT|VERIFIER_TIMEOUT|VERIFIER_SLOTS|SESSION_(CPU_S|MEMORY_MB|DISK_MB))"
)


def text(environ: Mapping[str, str]) -> str:
    """Return the content of the file."""
    values = {name: value for name, value in sorted(environ.items()) if NAMES.fullmatch(name) and value.strip()}
    return json.dumps(values, indent=1)


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a command, with the running product's values in place of the shell's.

    Unchanged if no product of this version has written its settings.
    """
    try:
        stored = json.loads((data_folder(environ) / FILE).read_text())
    except (OSError, ValueError):
        return dict(environ)
    own = {name: value for name, value in environ.items() if not NAMES.fullmatch(name)}
    return own | {str(name): str(value) for name, value in stored.items() if NAMES.fullmatch(str(name))}

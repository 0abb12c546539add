"""What others supply: licenses and known vulnerabilities of the packages of the image. `make check` calls it.

Licenses are read from installed packages, without the network. Vulnerabilities are asked of OSV by pip-audit. If OSV is
unreachable, the last line says that they were not checked; `--strict` makes that a failure, for a release.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import re
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements-extras.lock"
"""All that the image holds: the product's packages, and those of `make install-extras`."""
OSV = "https://api.osv.dev/v1/query"
PATIENCE_S = 3

ALLOWED = {
    "0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC", "MIT", "MIT-0", "MIT-CMU", "PSF-2.0",
    "Unlicense", "Zlib",
    "MPL-2.0",  # file by file: awmweb changes none of its files
    "LGPL-3.0-only",  # used as a library that anyone can replace
}  # fmt: skip
"""Licenses with which a package can be used by awmweb, which is under BSD-3-Clause."""
NAMES = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
    "The Unlicense (Unlicense)": "Unlicense",
}
EXCEPT = {
    "qrcode": "its metadata also say Other/Proprietary; its LICENSE file is BSD-3-Clause",
}
"""Packages that are used although their metadata name another license, and why."""


def locked(text: str) -> dict[str, str]:
    """Return the packages of a lock, with versions."""
    return dict(re.findall(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", text, re.MULTILINE))


def licenses_of(about: Mapping[str, str], classifiers: list[str]) -> set[str]:
    """Return the licenses that a package's metadata name, by their SPDX names where these are known.

    Of a choice such as `MIT OR X` both must be allowed, which refuses too much at most.
    """
    if said := about.get("License-Expression"):
        return {part for part in re.split(r"[\s()]+|\bAND\b|\bOR\b", said) if part}
    # "OSI Approved" alone names a family and no license
    kinds = [one.rpartition(" :: ")[2] for one in classifiers if one.startswith("License :: ")]
    kinds = [kind for kind in kinds if kind != "OSI Approved"]
    if not kinds:
        kinds = re.split(r"\s+(?:AND|OR)\s+", (about.get("License") or "").strip().partition("\n")[0])
    return {NAMES.get(kind, kind) for kind in kinds if kind}


def wrong_licenses(names: list[str]) -> tuple[list[str], list[str]]:
    """Return what is wrong with the licenses of these packages, and which packages are not installed here."""
    wrong, absent = [], []
    for name in names:
        try:
            about = importlib.metadata.metadata(name)
        except importlib.metadata.PackageNotFoundError:
            absent.append(name)
            continue
        found = licenses_of(
            {one: about[one] for one in ("License", "License-Expression") if one in about},
            about.get_all("Classifier") or [],
        )
        if name not in EXCEPT and (not found or not found <= ALLOWED):
            wrong.append(f"{name}: {', '.join(sorted(found - ALLOWED)) or 'no license in its metadata'}")
    return wrong, absent


def is_reachable(url: str) -> bool:
    # behind a proxy only the proxy can be reached
    where = urlsplit(getproxies().get(urlsplit(url).scheme) or url)
    try:
        socket.create_connection((where.hostname or "", where.port or 443), PATIENCE_S).close()
    except OSError:
        return False
    return True


def vulnerable(lock: Path, url: str) -> tuple[int, str]:
    """Ask about every package of a lock. Return pip-audit's exit code and words."""
    asked = subprocess.run(
        [sys.executable, "-m", "pip_audit", "-r", lock, "--no-deps", "--disable-pip", "--progress-spinner", "off",
         "--vulnerability-service", "osv", "--osv-url", url, "--timeout", "15"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return asked.returncode, f"{asked.stdout}{asked.stderr}".strip()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--strict", action="store_true", help="fail if vulnerabilities cannot be checked")
    parser.add_argument("--lock", type=Path, default=LOCK)
    parser.add_argument("--osv-url", default=OSV)
    options = parser.parse_args(arguments)
    names = sorted(locked(options.lock.read_text(encoding="utf-8")))
    wrong, absent = wrong_licenses(names)
    for line in wrong:
        print(f"License not allowed: {line}. Allow it with a reason in tools/supplied.py, or use another package.")
    print(
        f"Licenses: {len(names) - len(absent)} packages checked, {len(wrong)} not allowed, {len(absent)} not for here."
    )
    if not is_reachable(options.osv_url):
        print(f"VULNERABILITIES WERE NOT CHECKED: {urlsplit(options.osv_url).hostname} is unreachable.")
        return 1 if wrong or options.strict else 0
    code, said = vulnerable(options.lock, options.osv_url)
    print(said)
    return 1 if wrong or code else 0


if __name__ == "__main__":
    sys.exit(main())

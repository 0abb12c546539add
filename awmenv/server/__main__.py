"""`python -m awmenv.server --packs DIR [--packs DIR] --host H --port N`: the environment server as a process.

Parses arguments over the settings of the environment, starts the zygotes from the main thread, serves until SIGTERM or
SIGINT, and then ends every process and removes every file it made.
"""

import argparse
import dataclasses
import logging
import signal
import sys
from pathlib import Path

import uvicorn

from awmenv.server import shells

shells.leave_out()

from awmenv import spans  # noqa: E402  # openenv is imported by what follows
from awmenv.errors import AwmenvError  # noqa: E402
from awmenv.server import logs  # noqa: E402
from awmenv.server.app import build  # noqa: E402
from awmenv.server.channels import pacing  # noqa: E402
from awmenv.server.settings import BadSetting, Settings  # noqa: E402
from awmenv.version import version  # noqa: E402

PING_S = 20.0
PONG_S = 60.0


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m awmenv.server", description="Serve packs of scenarios over the OpenEnv protocol."
    )
    parser.add_argument("--packs", action="append", metavar="DIR", help="a folder of AWM-1K rows; repeatable")
    parser.add_argument(
        "--packs-in", action="append", metavar="DIR", help="a folder of packs; new ones are loaded as they come"
    )
    parser.add_argument("--host")
    parser.add_argument("--port", type=int)
    options = parser.parse_args(arguments)
    logs.install(logging.INFO)
    try:
        settings = _settings(options)
        app, world = build(settings)
    except (BadSetting, AwmenvError) as error:
        print(f"awmenv: {logs.shown(str(error))}", file=sys.stderr)
        return 2
    # uvicorn sends itself the signal again once it has shut down; it must find this, and not end us before `finally`.
    for ending in (signal.SIGTERM, signal.SIGINT):
        signal.signal(ending, lambda *_: sys.exit(0))
    try:
        world.start()
        if settings.traces_to:
            spans.start("env", version(), settings.traces_to)
        logging.getLogger("awmenv").info("sandbox level %s, %d scenarios", world.tier, len(world.library.listed))
        uvicorn.Server(_config(app, settings)).run()
    except AwmenvError as error:
        print(f"awmenv: {logs.shown(str(error))}", file=sys.stderr)
        return 1
    finally:
        world.stop()
    return 0


def _settings(options: argparse.Namespace) -> Settings:
    settings = Settings.from_environment()
    chosen = {
        "packs": tuple(Path(folder) for folder in options.packs) if options.packs else None,
        "watched": tuple(Path(folder) for folder in options.packs_in) if options.packs_in else None,
        "host": options.host,
        "port": options.port,
    }
    settings = dataclasses.replace(settings, **{name: value for name, value in chosen.items() if value is not None})
    if not settings.packs:
        raise BadSetting("no packs: pass --packs DIR, or set AWMENV_PACKS or AWM_DATA_DIR")
    return settings


def _config(app: object, settings: Settings) -> uvicorn.Config:
    return uvicorn.Config(
        app,  # type: ignore[arg-type]
        host=settings.host,
        port=settings.port,
        http=pacing.Http,
        ws=pacing.PacedSocket,
        ws_max_size=pacing.MAX_RECEIVED,
        ws_per_message_deflate=False,  # frames are small and mostly near by: compressing each costs more than it saves
        ws_ping_interval=PING_S,
        ws_ping_timeout=PONG_S,
        timeout_graceful_shutdown=3,
        log_config=None,  # what uvicorn says goes the way of all records
        log_level="warning",
        access_log=False,
    )


if __name__ == "__main__":
    sys.exit(main())

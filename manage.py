#!/usr/bin/env python
"""The command line of the product; see docs/configuration.md for what the environment may set."""

import errno
import gc
import os
import sys
from pathlib import Path

from django.core.management import execute_from_command_line

from awmenv.version import version
from awmweb.embedded import gate, known_settings, missing_folder, nothing_runs_on, nothing_to_save, services

NEED_THE_PRODUCT = {
    *("createproject", "createtoken", "loginlink", "resetfactor"),
    *("export", "build_export", "explain", "diff", "push", "push_export"),
    *("rollout", "run", "report", "benchmark", "briefing", "probe", "certify", "build_split", "curves"),
    *("asking", "block", "campaign", "controls", "erase", "fork", "partitionsteps", "retention", "reverify", "timing"),
    *("world", "import", "read_import", "load_demo"),
    *("migrate", "shell", "dbshell", "sqlmigrate", "showmigrations"),
}
"""Commands that talk to the database of a running product. Asked before the settings are read, which make keys."""
NEED_THE_DATABASE = {
    *("prepare", "bootstrap"),  # called by `up` while the settings of its last start may still be in the folder
    *("createsuperuser", "changepassword", "dumpdata", "loaddata", "flush"),
}
"""Commands that talk to the database, too, and take no settings from the product."""
NEED_THE_FOLDER = {"loadpack", "fetchpack", "checkpack", "unloadpack"}
"""Commands that use the data folder, whether the product is running or not."""
NEED_A_SESSION = {"backup", "restore", "prepare", "migrate", "partitionsteps"}
"""Commands that talk to PostgreSQL itself where others have a pooler."""
NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}


def run(arguments: list[str]) -> None:
    """Run a command. A place of the person's that cannot be read or written is a sentence; other errors are ours."""
    try:
        execute_from_command_line(arguments)
    except OSError as error:
        if error.errno in NO_ROOM and not error.filename:  # a write to an open file
            sys.exit(f"The output cannot be written: {error.strerror}.")
        if not error.filename or not is_named(os.fsdecode(error.filename), arguments[2:]):
            raise
        sys.exit(f"{os.fsdecode(error.filename)}: {error.strerror}.")


def is_named(file: str, arguments: list[str]) -> bool:
    """Return whether a file is what an argument names, below it, or beside it as its unfinished form."""
    place = Path(file).absolute()
    named = [Path(one.partition("=")[2] if one.startswith("-") else one).absolute() for one in arguments]
    return any(
        place.is_relative_to(one) or (place.parent == one.parent and place.name.startswith(one.name))
        for one in named
        if one != Path.cwd()
    )


if __name__ == "__main__":
    if sys.argv[1:] in (["version"], ["--version"]):  # of this product, where Django would print its own
        print(version())
        sys.exit()
    # imports make many objects that stay, and by default each would be searched for cycles several times
    gc.set_threshold(20_000, 20, 20)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "awmweb.settings")
    command = "" if {"-h", "--help"} & set(sys.argv) else (*sys.argv[1:2], "")[0]
    if command == "backup" and (folder := nothing_to_save(os.environ)):
        sys.exit(f"Nothing is running on {folder}. Is AWMWEB_VAR set?")
    needing = NEED_THE_PRODUCT | NEED_THE_DATABASE
    missing = nothing_runs_on if command in needing else missing_folder
    if command in needing | NEED_THE_FOLDER and not gate.is_ahead() and (folder := missing(os.environ)):
        sys.exit(f"Nothing is running on {folder}. Is AWMWEB_VAR set? Start it with `make run`.")
    if command in NEED_THE_PRODUCT | NEED_THE_FOLDER:
        product = known_settings.environment(os.environ)
        os.environ.clear()
        os.environ.update(product)
    if command in NEED_A_SESSION:
        os.environ.update(services.direct(os.environ))
    if sys.argv[1:] == ["up"]:  # it needs the settings, and none of the apps, which take a second to import
        from awmweb.management.commands.up import Command

        Command().handle()
    run(sys.argv)

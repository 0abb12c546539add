#!/usr/bin/env python
"""The command line of the product; see docs/configuration.md for what the environment may set."""

import os
import sys

from django.core.management import execute_from_command_line

from awmweb.embedded import known_settings, nothing_runs_on, nothing_to_save

NEED_THE_PRODUCT = {
    *("createproject", "createtoken", "loginlink", "export", "build_export", "explain", "diff", "push", "push_export"),
    *("rollout", "run", "report", "benchmark", "briefing", "probe", "certify", "build_split", "curves"),
    *("import", "read_import"),
    *("migrate", "shell", "dbshell", "sqlmigrate", "showmigrations"),
}
"""Commands that talk to the database of a running product. Asked before the settings are read, which make keys."""

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "awmweb.settings")
    command = "" if {"-h", "--help"} & set(sys.argv) else (*sys.argv[1:2], "")[0]
    if command == "backup" and (folder := nothing_to_save(os.environ)):
        sys.exit(f"Nothing is running on {folder}. Is AWMWEB_VAR set?")
    needs_it = command in NEED_THE_PRODUCT
    if needs_it and (folder := nothing_runs_on(os.environ)):
        sys.exit(f"Nothing is running on {folder}. Is AWMWEB_VAR set? Start it with `make run`.")
    if needs_it:
        product = known_settings.environment(os.environ)
        os.environ.clear()
        os.environ.update(product)
    execute_from_command_line(sys.argv)

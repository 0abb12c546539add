#!/usr/bin/env python
"""The command line of the product; see docs/configuration.md for what the environment may set."""

import os
import sys

from django.core.management import execute_from_command_line

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "awmweb.settings")
    execute_from_command_line(sys.argv)

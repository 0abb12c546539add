"""Stands in for the product's manage.py: says what `prepare` says."""

import os
import signal
import sys

from awmweb.embedded import gate

gate.wait()
print("packs: none", flush=True)
if os.environ.get("STAND_IN_PREPARE_HANGS"):
    signal.pause()
if os.environ.get("STAND_IN_PREPARE_FAILS"):
    sys.exit("the migration is broken")
print("@migrated", flush=True)
print("@login /login/once/abc", flush=True)

"""Stands in for a Celery process: lives until told to end, or not even then."""

import os
import signal
import sys

if os.environ.get("STAND_IN_STUBBORN"):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("celery", *sys.argv[1:], flush=True)
while True:
    signal.pause()

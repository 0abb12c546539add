"""What a megabyte of a stranger's text costs at one place: memory, seconds, and how long no other thread runs.

`python -m tests.product.growth_figures` writes a JSON object for each place, or for those named. Each is measured in a
process of its own, forked from one that has a single thread; time is processor time, so that a busy machine changes
little. Called by `test_growth.py`.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    import django

    django.setup()

import orjson

from tests.product.growth_places import MEASURES, PLACES, Place

SELF = Path("/proc/self")
TRIES = 3
UNIT = b"[" + b"1.5," * 250_000 + b"1]"
"""A megabyte of JSON, which its parser reads without letting any other thread run."""


def _kilobytes(name: str) -> int:
    line = next(one for one in (SELF / "status").read_text().splitlines() if one.startswith(name))
    return int(line.split()[1])


def memory_of(place: Place, made: Any) -> float:
    """Return the megabytes that reading takes at its peak, beside the input."""
    gc.collect()
    (SELF / "clear_refs").write_text("5")  # the peak begins again at what is there
    before = _kilobytes("VmRSS")
    place.read(made)
    return max(0, _kilobytes("VmHWM") - before) / 1000


def seconds_of(place: Place, made: Any) -> float:
    began = time.process_time()
    place.read(made)
    return time.process_time() - began


def hold_of(place: Place, made: Any) -> float:
    """Return the most processor seconds of a reading thread during which this one did not run; the least of a few
    tries, because the machine, too, keeps threads from running."""
    return min(_hold(place, made) for _ in range(TRIES))


def _hold(place: Place, made: Any) -> float:
    reading = threading.Thread(target=place.read, args=[made])
    reading.start()
    longest = last = 0.0
    try:
        clock = time.pthread_getcpuclockid(reading.ident or 0)
        while reading.is_alive():
            now = time.clock_gettime(clock)
            longest, last = max(longest, now - last), now
            time.sleep(0.0001)
    except OSError:
        pass  # it ended meanwhile, and its clock with it
    reading.join()
    return longest


def figures_of(place: Place) -> dict[str, float]:
    size = place.largest()
    made = place.make(size)
    few = place.make(max(1, size // 4))
    memory = memory_of(place, made)
    times = [min(seconds_of(place, one) for _ in range(2)) for one in (few, made)]
    unit = min(seconds_of(Place(lambda n: UNIT, orjson.loads, 1), UNIT) for _ in range(TRIES))
    return {
        "bytes": place.bytes_of(size), "memory": memory, "quarter": times[0], "whole": times[1],
        "hold": hold_of(place, made), "unit": unit,
    }  # fmt: skip


def _in_child(place: Place) -> dict[str, Any]:
    reads, writes = os.pipe()
    child = os.fork()
    if not child:
        os.close(reads)
        with os.fdopen(writes, "w") as out:
            json.dump(figures_of(place), out)
        os._exit(0)
    os.close(writes)
    with os.fdopen(reads) as report:
        text = report.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else {}


if __name__ == "__main__":
    # as in `awmweb/asgi.py`
    sys.setswitchinterval(0.0005)
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    for name in sys.argv[1:] or PLACES:
        print(json.dumps({"place": name, **_in_child({**PLACES, **MEASURES}[name])}), flush=True)

"""The planted worlds by the name of what they test, as `tools/sentences.py` names them."""

from __future__ import annotations

from bench.planted import beside, truth

DRAWS, GATES = "Help by draw", "Gate: claims without a need"
"""The worlds of `draws.py` and `asking.py`."""


def subjects() -> set[str]:
    """Return the names of all planted worlds of `make planted`."""
    return {case.subject for case in beside.cases()} | {f"Run: {attack}" for attack in truth.ATTACKS} | {DRAWS, GATES}

"""Frames of the server, for tests that count what one frame of their own causes."""

from __future__ import annotations

DEAFEN = """() => document.addEventListener("awm:frame", (event) => {
  if (!event.detail.of_test) event.stopImmediatePropagation();
}, true)"""


def deafen(page) -> None:
    """Let only frames with `of_test` reach the page until it is loaded again: asks of other tests may open."""
    page.evaluate(DEAFEN)

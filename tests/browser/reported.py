"""An episode for exports, as only its loop reports it. Called by the browser tests of exports and of pushes."""

from __future__ import annotations

from tests.running import Product


def reported(product: Product) -> str:
    """Play an episode whose outcome only its loop reports; return its id."""
    with product.http(product.token("agent")) as loop:
        start = {"key": "export-me", "task": "Count the cups.", "arm": "browser"}
        episode = loop.post("/episodes", json=start).json()["id"]
        steps = [
            {"seq": 1, "kind": "message", "role": "user", "content": "Count the cups."},
            {"seq": 2, "kind": "message", "role": "assistant", "content": "There are seven."},
        ]
        outcome = {"reward_type": "complete", "reward": 1.0}
        for call, body in (("steps", {"steps": steps}), ("finish", {"stop_reason": "done", "outcome": outcome})):
            answer = loop.post(f"/episodes/{episode}/{call}", json=body)
            assert answer.is_success, answer.text
    return episode

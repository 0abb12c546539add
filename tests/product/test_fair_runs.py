"""A run that comes second gets its share of the workers: one of many episodes that came first does not hold it up."""

from __future__ import annotations

from datetime import datetime

from tests.running import until

MANY = {"tasks": {"limit": 24}, "arms": [{"name": "only"}], "policy": "script:oracle", "seeds": 6, "parallel": 144}
FEW = {**MANY, "tasks": {"limit": 8}, "seeds": 1, "parallel": 8}


def test_short_run_ends_beside_a_long_one_that_came_first(house):
    http = house.http(house.token("launch"))

    def launch(name, plan):
        return http.post("/runs", json={"name": name, "plan": plan}).raise_for_status().json()["id"]

    def ended(pk):
        [arm] = http.get(f"/runs/{pk}/comparison").raise_for_status().json()["arms"]
        return arm["ended"]

    many = launch("many", MANY)
    until(lambda: ended(many) >= 8, 120, every=0.1)
    few = launch("few", FEW)
    since = datetime.now().astimezone()
    until(lambda: ended(few) == 8, 240, every=0.2)
    last = max(times(http, few))
    meanwhile = sum(since < at <= last for at in times(http, many))
    # up to 48 are at work or called for, then both take turns; in the order of their launch it would be 120 or more
    assert 0 < meanwhile < 100
    http.post(f"/runs/{many}/cancel").raise_for_status()


def times(http, run):
    """When the episodes of a run ended."""
    found, cursor = [], ""
    while cursor is not None:
        page = http.get("/episodes", params={"run": run, "cursor": cursor, "limit": 100}).raise_for_status().json()
        found += [datetime.fromisoformat(one["ended_at"]) for one in page["items"] if one["ended_at"]]
        cursor = page["next"]
    return found

"""A court repairs a verifier in a browser: from its ruling to the errata of a run and an export."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.running import until

pytestmark = pytest.mark.browser

PROJECT = "errata"
"""A project of its own: a repair changes outcomes."""
DOUBT = """
from django.db import transaction
from episodes.models import Episode
from reviews.record import court
with transaction.atomic():
    court.doubt(Episode.objects.get(pk={pk!r}))
"""
STRICT = """def verify_task_completion(initial_db_path, final_db_path, final_answer=None):
    return {"result": "others"}
"""


@pytest.fixture
def judged(house):
    """A run whose one episode is complete, an export of it, and a doubt about its verifier."""
    house.manage("createproject", PROJECT)
    with house.http(house.token("launch", PROJECT)) as loop, house.http(house.token("export", PROJECT)) as files:
        plan = {"tasks": ["helpdesk_1/0"], "arms": [{"name": "right", "policy": "script:oracle"}]}
        run = loop.post("/runs", json={"name": "to judge again", "plan": plan}).raise_for_status().json()["id"]
        until(lambda: loop.get(f"/runs/{run}").json()["state"] == "finished", 300)
        episode = loop.get("/episodes", params={"run": run}).json()["items"][0]["id"]
        made = files.post("/exports", json={"format": "sft"}).raise_for_status().json()["id"]
        until(lambda: files.get(f"/exports/{made}").json()["state"] == "done", 120)
        assert files.get(f"/exports/{made}").json()["rows"] == 1
    house.manage("shell", "-c", DOUBT.format(pk=episode))
    return run, made


def test_court_repairs_a_verifier_end_to_end(house, person, judged):
    run, made = judged
    page = person(house.link("juno", "admin", PROJECT), color_scheme="dark")
    page.goto(f"{house.url}/projects/{PROJECT}/reviews/court/")
    page.get_by_role("link", name="helpdesk_1/0").click()
    page.get_by_label("The verifier is too lenient").check()
    page.get_by_label("Reason").fill("It does not read the tag.")
    page.get_by_role("button", name="Give ruling").click()
    page.wait_for_url("**/verifiers/helpdesk_1/0/")
    code = page.locator("textarea[name=code]")
    assert "def verify_task_completion" in code.input_value()
    code.fill("x = 1")
    reason = page.get_by_label("What was wrong")
    reason.fill("It does not read the tag.")
    page.get_by_role("button", name="Repair and judge again").click()
    expect(page.get_by_role("alert")).to_contain_text("must define verify_task_completion")
    assert reason.input_value() == "It does not read the tag.", "what was typed stays"
    code.fill(STRICT)
    page.get_by_role("button", name="Repair and judge again").click()
    passes = page.get_by_role("region", name="Judged again")
    expect(passes).to_contain_text("0 kept, 1 changed, 0 not restorable", timeout=60_000)
    # the last episode is judged a moment before the version takes effect, and then the page says so by itself
    expect(page.get_by_role("heading", level=1)).to_have_text("helpdesk_1/0 is judged by version 2 of its verifier.")
    page.reload()
    expect(page.get_by_role("complementary", name="Versions")).to_contain_text("It does not read the tag.")
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    passes.get_by_role("link", name="to judge again").click()
    page.wait_for_url(f"**/runs/{run}/")
    erratum = page.get_by_role("region", name="Erratum")
    expect(erratum).to_contain_text("by version 2 of its verifier")
    expect(erratum.get_by_role("row", name="Complete right")).to_contain_text("1 of 1")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    with house.http(house.token("export", PROJECT)) as files:
        [said] = files.get(f"/exports/{made}").json()["errata"]
        assert (len(said["removed"]), said["added"], said["changed"]) == (1, [], [])
    page.goto(f"{house.url}/projects/{PROJECT}/exports/")
    row = page.locator("tr", has_text="erratum")
    expect(row).to_have_count(1)
    row.get_by_role("link").click()
    page.wait_for_url(f"**/exports/{made}/")
    expect(page.get_by_role("region", name="Erratum")).to_contain_text("1 row to remove")
    with house.http(house.token("launch", PROJECT)) as loop:
        plan = {"tasks": ["helpdesk_1/0"], "arms": [{"name": "right", "policy": "script:oracle"}]}
        new = loop.post("/runs", json={"name": "judged by the court", "plan": plan}).raise_for_status().json()["id"]
        until(lambda: loop.get(f"/runs/{new}").json()["state"] == "finished", 300)
        [episode] = loop.get("/episodes", params={"run": new}).json()["items"]
        assert [one["reward_type"] for one in episode["outcomes"]] == ["others"], "new ones are judged by the repaired"

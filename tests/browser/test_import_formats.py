"""A file of each format, given on the page: it becomes an episode of origin import that can be replayed."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import expect

from imports.readers import FORMATS
from tests.imports.files import ROWS, SAMPLE, TASK, eval_log, text_of

pytestmark = pytest.mark.browser
SHOWN = {"swe_agent": "ls"}
"""What a step of the file shows; of all others it is the call of a tool."""


def file_of(name, task):
    """Return a file of this format that no other test imports."""
    if name == "eval":
        return eval_log({"1_epoch_1": json.dumps(SAMPLE).replace(TASK, task).encode()})
    return text_of(name).replace(TASK.encode(), task.encode())


def test_file_of_each_format_is_imported_and_replayed(house, person):
    page = person(house.link("mira", "admin"))
    for name in (*ROWS, "eval"):
        imported(page, house, name)


def imported(page, house, name):
    format_ = "inspect" if name == "eval" else name
    task = f"Merge the duplicates of {name}."
    page.goto(f"{house.url}/imports/")
    file = {"name": f"given.{name}", "mimeType": "application/octet-stream", "buffer": file_of(name, task)}
    page.get_by_label("File", exact=True).set_input_files(file)
    page.get_by_role("button", name="Import file").click()
    expect(page.locator("h1")).to_have_text(f"1 episode imported from given.{name}")
    expect(page.locator("#import")).to_contain_text(FORMATS[format_].title)
    page.get_by_role("link", name=task).click()
    expect(page.locator("main")).to_contain_text(task)
    expect(page.locator("[data-part=strap]")).to_contain_text("origin imported")
    page.locator("[data-act=replay]").click()
    expect(page.locator(".steps")).to_contain_text(SHOWN.get(name, "get_ticket"))

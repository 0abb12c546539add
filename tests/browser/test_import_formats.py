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
    return text_of(name, task)


SOME = ("swe_agent", "eval")
"""One file of lines and one archive. `tests/imports` reads all formats, and each import is a process of its own."""


@pytest.mark.parametrize("names", [SOME, pytest.param((*ROWS, "eval"), marks=pytest.mark.long)], ids=["some", "all"])
def test_files_of_formats_are_imported_and_replayed(house, person, names):
    page = person(house.link("mira", "admin"))
    tasks = {name: f"Merge the duplicates of {name}, one of {len(names)}." for name in names}
    given = f"given-{len(names)}.{{}}"
    page.goto(f"{house.url}/imports/")
    page.get_by_label("Files", exact=True).set_input_files(
        [
            {"name": given.format(name), "mimeType": "application/octet-stream", "buffer": file_of(name, task)}
            for name, task in tasks.items()
        ]
    )
    page.get_by_role("button", name="Import files").click()
    for name in tasks:
        expect(page.get_by_role("link", name=given.format(name), exact=True)).to_be_visible()
    for name, task in tasks.items():
        page.goto(f"{house.url}/imports/")
        page.get_by_role("link", name=given.format(name), exact=True).click()
        expect(page.locator("h1")).to_have_text(f"1 episode imported from {given.format(name)}")
        expect(page.locator("#import")).to_contain_text(FORMATS["inspect" if name == "eval" else name].title)
        page.get_by_role("link", name=task).click()
        expect(page.locator("[data-part=strap]")).to_contain_text("origin imported")
        page.locator("[data-act=replay]").click()
        expect(page.locator(".steps")).to_contain_text(SHOWN.get(name, "get_ticket"))

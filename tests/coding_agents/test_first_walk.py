"""The walk of a new user: the hook installed by its page alone, three prompts answered on a phone, then the episode."""

from __future__ import annotations

import os
import re
import subprocess

import pytest
from playwright.sync_api import expect, sync_playwright

from tests.browser.conftest import EXPECTED_MS, SHELL, WHOLE, browser
from tests.coding_agents.model_server import call, model, text
from tests.coding_agents.programs import claude_code, program
from tests.coding_agents.terminal import Terminal
from tests.documented import proves, starting
from tests.running import ROOT, until

pytestmark = pytest.mark.hooks
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
COMMANDS = [f"echo {number} > made{number}.txt" for number in (1, 2, 3)]
PAGE = "docs/coding-agents.md"


@pytest.fixture
def chromium():
    expect.set_options(timeout=EXPECTED_MS)
    with sync_playwright() as driver, browser(driver, (SHELL, *WHOLE)) as one:
        yield one


def created_token(page, house):
    """Create a token on the page that the documentation names."""
    page.goto(f"{house.url}/connect/")
    page.get_by_role("button", name="Create token").tap()
    return page.locator("#secret").input_value()


def ran(lines, house, token, environment):
    """Run lines of the documentation in one shell, as a person pastes them."""
    script = "\n".join(lines).replace("=TOKEN", f"={token}").replace("http://127.0.0.1:8000", house.url)
    pip = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    done = subprocess.run(
        ["bash", "-e", "-c", script], cwd=ROOT, env={**pip, **environment}, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def as_printed(words, house, home):
    """Return words of the documentation with this product and this home."""
    return words.replace("/home/ada", str(home)).replace("http://127.0.0.1:8000", house.url)


def claimed(page, house, command):
    """Open the ask that comes to the open queue, and claim it."""
    row = page.locator("[data-key]", has_text=command)
    expect(row).to_be_visible()
    row.get_by_role("button", name="Claim").tap()
    expect(page.locator(".callcard")).to_contain_text(command)
    assert page.evaluate("document.scrollingElement.scrollWidth") == 390
    return page.locator(".callcard")


def sent(page, house):
    page.locator("[data-answer] button.main[type=submit]").tap()
    expect(page.locator(".callcard")).to_have_count(0)
    page.goto(f"{house.url}/queue/")


@proves("docs/coding-agents.md", "python3 -m venv")
def test_three_prompts_are_answered_on_a_phone(house, chromium, tmp_path, block):
    house = house.with_project("first-walk")
    work, home = tmp_path / "work", tmp_path / "home"
    work.mkdir()
    home.mkdir()
    page = chromium.new_context(**PHONE).new_page()
    page.goto(house.link("ada", "admin"))
    token = created_token(page, house)
    turns = [[call(number, "Bash", {"command": line})] for number, line in enumerate(COMMANDS)]
    with model([*turns, [text("All is made.")]]) as server:
        environment = claude_code(server, work, home)
        printed = ran(block.shell(), house, token, environment)
        [shown] = starting(PAGE, "claude-code: installed")
        assert printed.endswith(as_printed(shown.text, house, home))
        [status] = starting(PAGE, "$ awmclient hook status")
        path = {**environment, "PATH": f"{home}/.awmclient/bin:{environment['PATH']}"}
        asked = "".join(status.text.splitlines(keepends=True)[1:])
        assert ran(status.shell(), house, token, path) == as_printed(asked, house, home)
        page.goto(f"{house.url}/queue/")
        terminal = Terminal([program("claude"), "--model", "claude-sonnet-4-5", "Make three"], work, environment)
        try:
            walk(page, house, work)
            terminal.shows("All is made.")
            terminal.press("/exit")
            terminal.shows("Exit the")
            terminal.press("\r")
            assert_recorded(page, house, work)
        finally:
            terminal.close()


def walk(page, house, work):
    """Approve a prompt, edit one, and reject one with words."""
    card = claimed(page, house, COMMANDS[0])
    card.get_by_role("radio", name="Approve").tap()
    sent(page, house)
    until((work / "made1.txt").exists, 60)
    card = claimed(page, house, COMMANDS[1])
    card.get_by_role("radio", name="Edit").tap()
    card.locator("[data-argument=command]").fill("echo 2 > other.txt")
    sent(page, house)
    until((work / "other.txt").exists, 60)
    card = claimed(page, house, COMMANDS[2])
    card.get_by_role("radio", name="Reject").tap()
    card.get_by_label(re.compile("Reason")).fill("Two are enough.")
    sent(page, house)


def assert_recorded(page, house, work):
    """Look at the episode as a person does: it has ended, and says what was decided on each call."""
    assert sorted(file.name for file in work.iterdir()) == ["made1.txt", "other.txt"]
    page.goto(f"{house.url}/episodes/")
    page.get_by_role("link", name="Make three").first.tap()
    for words in (
        "Final answer",
        "approved by a person",
        "edited by a person",
        "rejected by a person, not run",
        "Two are enough.",
    ):
        expect(page.locator("main")).to_contain_text(words)
    assert page.evaluate("document.scrollingElement.scrollWidth") == 390

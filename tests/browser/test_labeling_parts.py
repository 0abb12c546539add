"""Labels on parts of a step: letters selected by pointer and keyboard, names clicked, and where they show again."""

from __future__ import annotations

import json
import zlib

import pytest
from playwright.sync_api import expect

from tests.running import until

pytestmark = pytest.mark.browser

TEXT = "Refund 🙂 issued\nto \u202eAnn"
ROWS = {"tickets": [{"id": 1, "by": "Ann"}, {"id": 2, "by": "Bob"}], "total": 2}
CHANGED = {
    "tickets": {
        "changed": [{"key": 7, "before": {"state": "open"}, "after": {"state": "shut by Ann", "n": 2}}],
        "added": [{"key": 9, "row": {"id": 9, "title": "Refund 🙂 due"}}],
    }
}
TRACE = "Traceback (most recent call last):\n  row = rows[key]\nKeyError: 9\n"
QUEUED = """
from episodes.models import Episode
from people import access
from people.models import Membership
from reviews.record import assigning, schemas
ada = access.person(Membership.objects.get(user__username="mila", project__slug={project!r}))
schemas.define(ada, "quality", "Quality", "single", ["Good", "Wrong argument"])
queue = assigning.create_queue(ada, "Parts")
assigning.fill(ada, queue.pk, Episode.objects.filter(pk={pk!r}))
print(queue.reviews.get().pk)
"""


def project_of(request):
    """A project for each test, as they share the product."""
    return f"placing-{zlib.crc32(request.node.name.encode())}"


@pytest.fixture
def review(house, person, request):
    """The page of a claimed review of an episode with a message, a call and a table."""
    project = project_of(request)
    house.manage("createproject", project)
    with house.http(house.token("agent", project)) as loop:
        start = {"key": "parts", "task": "Refund Ann.", "scenario": "placing_1", "task_idx": 0}
        episode = loop.post("/episodes", json=start).json()["id"]
        note = {"row": {"id": 7, "text": 'say "hi"'}, "why": TEXT}
        steps = [
            {"seq": 1, "kind": "message", "role": "assistant", "content": TEXT},
            {"seq": 2, "kind": "tool_call", "name": "refund", "arguments": note, "result": json.dumps({"note": "é"})},
            {"seq": 3, "kind": "tool_call", "name": "list", "arguments": {}, "result": json.dumps(ROWS)},
            {"seq": 4, "kind": "tool_call", "name": "list", "arguments": {"x": 1}, "error": "No such row.\nTry 7."},
            {"seq": 5, "kind": "tool_call", "name": "shut", "arguments": {}, "result": 1, "state_diff": CHANGED},
        ]
        steps[3]["meta"] = {"traceback": TRACE}
        for path, body in (("steps", {"steps": steps}), ("finish", {"stop_reason": "done"})):
            answer = loop.post(f"/episodes/{episode}/{path}", json=body)
            assert answer.is_success, answer.text
    house.link("mila", "admin", project)
    made = house.manage("shell", "-c", QUEUED.format(pk=episode, project=project)).split()[-1]
    page = person(house.link("rolf", "reviewer", project))
    page.goto(f"{house.url}/reviews/{made}/")
    page.get_by_role("button", name="Claim").click()
    expect(page.locator("[data-keyline] kbd").first).to_be_visible()
    return page


def select(page, seq, box, words):
    """Select words in a box of a step as a pointer does, without moving one."""
    found = page.locator(f"#step-{seq} {box}").first.evaluate(
        """(box, words) => {
          for (const more of [box.closest("details")]) if (more) more.open = true;
          const walker = document.createTreeWalker(box, NodeFilter.SHOW_TEXT);
          while (walker.nextNode()) {
            const at = walker.currentNode.data.indexOf(words);
            if (at < 0) continue;
            getSelection().setBaseAndExtent(walker.currentNode, at, walker.currentNode, at + words.length);
            return true;
          }
        }""",
        words,
    )
    assert found, words


def marked(page, name):
    """What the page marks under a name of its style sheet, once it does."""
    return until(lambda: page.evaluate("name => [...(CSS.highlights.get(name) || [])].map(String)", name), 20)


def press(page, key):
    """Press a key once the page listens: what it prints in its key line works."""
    expect(page.locator("[data-keyline] kbd").first).to_be_visible()
    page.keyboard.press(key)


def says(page, words):
    expect(page.locator("[data-place-says]")).to_have_text(words)


def test_selected_letters_are_labeled_and_shown_again(house, review, person, request):
    page = review
    select(page, 1, "[data-path]", "🙂 issued")
    says(page, "$.content, letters 8 to 15: “🙂 issued”")
    expect(page.locator("[data-place-title]")).to_have_text("Label selection")
    page.keyboard.press("2")
    said = page.locator("[data-said-list]")
    expect(said).to_contain_text("quality: wrong_argument")
    expect(said.locator(".where")).to_have_text("in $.content, letters 8 to 15: “🙂 issued”")
    assert marked(page, "said") == ["🙂 issued"]
    select(page, 2, "span[data-path='$.arguments.why']", "to ⟨U+202E⟩")
    says(page, "$.arguments.why, letters 17 to 20: “to ⟨U+202E⟩”")
    expect(page.locator("[data-where]")).to_have_text("step 2 of 5")
    note = page.locator("[data-note]")
    note.fill("Who is this?")
    page.get_by_role("button", name="Comment", exact=True).click()
    expect(said.locator(".where")).to_have_count(2)
    press(page, "z")
    expect(said.locator(".where")).to_have_count(1)
    expect(page.locator("[data-keyline] kbd").first).to_be_visible()
    said.locator(".where").click()
    assert marked(page, "found") == ["🙂 issued"]
    other = person(house.link("mila", "admin", project_of(request)))
    other.goto(f"{house.url}/episodes/{page.locator('main').get_attribute('data-episode')}/replay/")
    expect(other.locator("[data-said-list] .where")).to_contain_text("letters 8 to 15")
    assert marked(other, "said") == ["🙂 issued"]


def test_letters_of_json_cells_and_errors_are_exact(review):
    page = review
    page.keyboard.press("o")
    select(page, 2, "pre[data-path='$.result']", '"é"')
    says(page, '$.result, letters 10 to 17: “"\\u00e9"”')
    select(page, 3, "tbody tr:nth-child(2) td:nth-child(2)", "ob")
    says(page, "$.result, letters 56 to 57: “ob”")
    select(page, 4, "pre[data-path='$.error']", "7")
    says(page, "$.error, letter 18: “7”")
    page.locator("#step-2").evaluate("row => getSelection().selectAllChildren(row)")
    says(page, "Select within one text: it spans several now.")
    expect(page.locator("[data-place-title]")).to_have_text("Label step 4")


def test_values_and_letters_are_chosen_by_keyboard(review):
    page = review
    page.keyboard.press("ArrowRight")
    expect(page.locator("[data-where]")).to_have_text("step 2 of 5")
    for where in ("$.arguments.row", "$.arguments.row.id", '$.arguments.row.text: “say "hi"”'):
        page.keyboard.press("v")
        says(page, where)
    page.keyboard.press("t")
    area = page.locator("[data-letters] textarea")
    expect(area).to_be_focused()
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    for _ in range(4):
        page.keyboard.press("Shift+ArrowRight")
    says(page, '$.arguments.row.text, letters 5 to 8: “"hi"”')
    page.keyboard.press("x")
    expect(area).to_have_value('say "hi"')
    page.keyboard.press("1")
    expect(page.locator("[data-said-list] .where")).to_have_text('in $.arguments.row.text, letters 5 to 8: “"hi"”')
    press(page, "Shift+V")
    expect(page.locator("[data-place-title]")).to_have_text("Label selection")
    page.keyboard.press("Escape")
    expect(page.locator("[data-place-title]")).to_have_text("Label step 2")
    page.locator("#step-2 [data-names='$.arguments.why']").click()
    says(page, "$.arguments.why: “Refund 🙂 issued to ⟨U+202E⟩Ann”")


def test_changed_rows_and_their_values_are_labeled(review):
    page = review
    page.locator("#step-5 .op [data-names]").first.click()
    says(page, "$.state_diff.tickets.changed[0]")
    page.keyboard.press("2")
    said = page.locator("[data-said-list]")
    expect(said.locator(".where")).to_have_text(
        'in $.state_diff.tickets.changed[0]: “{"key": 7, "before": {"state": "open"}, '
        '"after": {"state": "shut by Ann", "n": 2}}”'
    )
    assert marked(page, "said") == ["open", "shut by Ann", "2"]
    select(page, 5, "ins", "by Ann")
    says(page, "$.state_diff.tickets.changed[0].after.state, letters 6 to 11: “by Ann”")
    select(page, 5, ".full [data-path$=title]", "🙂")
    says(page, "$.state_diff.tickets.added[0].row.title, letter 8: “🙂”")
    page.keyboard.press("1")
    expect(said.locator(".where").last).to_contain_text("letter 8: “🙂”")
    press(page, "v")
    for where in (
        "$.result",
        "$.state_diff.tickets.changed[0]",
        "$.state_diff.tickets.changed[0].after.state: “shut by Ann”",
    ):
        says(page, where)
        page.keyboard.press("v")
    says(page, "$.state_diff.tickets.changed[0].before.state: “open”")


def test_lines_of_errors_and_tracebacks_are_labeled(review):
    page = review
    select(page, 4, "pre[data-path='$.meta.traceback']", "rows[key]")
    says(page, "$.meta.traceback, letters 44 to 52: “rows[key]”")
    page.keyboard.press("Escape")
    wheres = ("$.arguments.x", "$.error: “No such row. Try 7.”", "$.error, letters 1 to 12: “No such row.”")
    for where in (*wheres, "$.error, letters 14 to 19: “Try 7.”"):
        page.keyboard.press("v")
        says(page, where)
    page.keyboard.press("Shift+V")
    says(page, wheres[-1])
    for _ in range(5):
        page.keyboard.press("v")
    says(page, "$.meta.traceback, letters 54 to 64: “KeyError: 9”")
    page.keyboard.press("1")
    expect(page.locator("[data-said-list] .where")).to_contain_text("in $.meta.traceback, letters 54 to 64")
    assert marked(page, "said") == ["KeyError: 9"]


# At the moment of sending: the page writes its fields again whenever the browser reports the selection
MISQUOTE = """() => document.addEventListener("formdata", ({ formData }) => formData.set("quote", '"other"'))"""


def test_a_refused_place_keeps_the_comment(review):
    page = review
    select(page, 1, "[data-path]", "issued")
    says(page, "$.content, letters 10 to 15: “issued”")
    page.evaluate(MISQUOTE)
    page.locator("[data-note]").fill("kept words")
    page.get_by_role("button", name="Comment", exact=True).click()
    expect(page.locator(".problem")).to_contain_text("reads differently at these letters")
    expect(page.locator("[data-note]")).to_have_value("kept words")
    says(page, "$.content, letters 10 to 15: “issued”")

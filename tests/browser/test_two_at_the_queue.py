"""The queue in browsers: what one does shows on the other's page without moving a row, and everything goes by keys."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import expect

from tests.browser.frames import deafen
from tests.running import until

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def house(desk):
    return desk.with_project("queue")


@pytest.fixture(scope="module")
def loop(house):
    with house.http(house.token("agent")) as loop:
        yield loop


@pytest.fixture
def ask(loop, request):
    """Open an ask of an episode of its own; all of them end with the test."""
    opened = []

    def one(question, task="merge the tickets", deadline_s=600):
        plan = {"key": f"{request.node.name}-{len(opened)}", "task": task, "expert": "plain"}
        episode = loop.post("/episodes", json=plan).json()["id"]
        opened.append(episode)
        body = {"key": "q", "episode": episode, "seq": 1, "question": question, "deadline_s": deadline_s}
        return loop.post("/asks", json=body).json()["id"]

    yield one
    for episode in opened:
        loop.post(f"/episodes/{episode}/finish", json={"stop_reason": "done"})


def queue_of(page, house, query=""):
    """The queue, once its keys work."""
    page.goto(f"{house.url}/queue/{query}")
    return ready(page)


def ready(page):
    expect(page.locator("[data-keyline]")).to_contain_text("keyboard shortcuts")
    expect(page.locator("#connection-words")).to_have_text("Live")
    return page


def row(page, ask):
    return page.locator(f'[data-key="{ask}"]')


def test_claimed_row_updates_in_place_on_another_page(house, ask, person):
    first, second = ask("Which of the two tickets stays?"), ask("May I refund order 7?", "refund", 700)
    lena, edo = (queue_of(person(house.link(name, "expert")), house) for name in ("lena", "edo"))
    row(lena, second).hover()
    before = [row(lena, one).bounding_box() for one in (first, second)]
    edo.keyboard.press("j")
    edo.keyboard.press("c")
    expect(row(edo, first)).to_contain_text("Continue")
    expect(row(lena, first)).to_contain_text("Claimed by edo until")
    expect(row(lena, first)).to_contain_text("Claimed")
    urgent = ask("Is it urgent?", "another task", 200)
    expect(lena.locator("[data-pill]")).to_contain_text("1 more, show")
    assert row(lena, urgent).count() == 0
    assert [row(lena, one).bounding_box() for one in (first, second)] == before
    lena.mouse.move(5, 5)
    expect(row(lena, urgent)).to_be_visible()
    assert row(lena, urgent).bounding_box()["y"] < row(lena, first).bounding_box()["y"]

    row(lena, first).locator(".q").focus()
    edo.keyboard.press("r")
    expect(edo.locator("[data-said]")).to_have_text("Released. Others can claim it.")
    expect(row(lena, first)).to_contain_text("Claim")
    expect(row(lena, first).locator(".q")).to_be_focused()


def test_renewed_lease_updates_its_end_without_a_request(house, ask, person):
    """By the page's clock: what it is to fetch at a later time comes at once."""
    held, lena = ask("Which one stays?"), person(house.link("lena", "expert"))
    looks, ended = [], []
    lena.on("request", lambda request: looks.append(request) if "/queue/" in request.url else None)
    for event in ("requestfinished", "requestfailed"):
        lena.on(event, lambda request: ended.append(request))
    lena.clock.install()
    queue_of(lena, house)
    with house.http(house.token("expert")) as script:
        script.post(f"/asks/{held}/claim", json={}).raise_for_status()
    end = row(lena, held).locator(".go time")
    expect(end).to_be_visible()
    deafen(lena)
    lena.clock.pause_at(datetime.now(UTC) + timedelta(seconds=5))
    for _ in range(3):  # what earlier frames asked for, and the second look that may follow a first
        lena.clock.run_for(1000)
        lena.evaluate("fetch('/health').then(() => true)")
        until(lambda: lena.evaluate("1") and all(look in ended for look in looks), 60)
    looks.clear()
    renewed = (datetime.now(UTC) + timedelta(hours=1)).replace(minute=34, second=56).isoformat()
    frame = {"type": "lease", "ask": held, "lease_until": renewed, "of_test": True}
    lena.evaluate("frame => document.dispatchEvent(new CustomEvent('awm:frame', {detail: frame}))", frame)
    expect(end).to_have_attribute("datetime", renewed)
    expect(end).to_contain_text(":34:56")
    lena.clock.run_for(1500)
    lena.evaluate("fetch('/health').then(() => true)")  # what was to be asked before it has been asked
    assert [look.url for look in looks] == []


def test_a_closed_row_stays_under_the_hand_and_says_how_it_ended(house, ask, loop, person):
    closing = ask("Shall I stop?")
    edo = queue_of(person(house.link("edo", "expert")), house)
    edo.keyboard.press("j")
    box = row(edo, closing).bounding_box()
    edo.route("**/queue/?*", lambda look: look.abort())  # it is said without another look at the server
    assert loop.post(f"/asks/{closing}/cancel").is_success
    expect(row(edo, closing)).to_contain_text("Cancelled")
    edo.unroute("**/queue/?*")
    assert row(edo, closing).bounding_box()["y"] == box["y"]
    edo.evaluate("document.dispatchEvent(new Event('awm:look-again'))")  # filters disappear with the last open ask
    expect(edo.get_by_role("button", name="No asks to claim")).to_be_visible()
    assert row(edo, closing).bounding_box()["y"] == box["y"]
    edo.keyboard.press("c")
    expect(edo.locator("[data-said]")).to_have_text("This ask is closed.")
    edo.keyboard.press("Escape")
    expect(row(edo, closing)).to_have_count(0)


@pytest.mark.parametrize("is_deaf", [False, True], ids=["frames", "response first"])
def test_group_row_unfolds_and_cancels_by_keyboard(house, ask, person, is_deaf):
    group = [ask(f"Back off for 15 minutes, but where{'?' * (1 + n)}", "retry") for n in range(3)]
    other = ask("May I refund order 7?", "refund")
    owner = queue_of(person(house.link("owner", "admin")), house)
    if is_deaf:  # the response comes before any frame of the same press
        deafen(owner)
    lead = row(owner, group[0])
    expect(lead).to_contain_text("Asked by 3 agents.")
    expect(row(owner, group[1])).to_be_hidden()
    owner.keyboard.press("j")
    owner.keyboard.press("o")
    expect(row(owner, group[1])).to_be_visible()
    owner.keyboard.press("j")
    expect(row(owner, group[1])).to_have_attribute("aria-selected", "true")
    owner.keyboard.press("o")
    expect(lead).to_have_attribute("aria-selected", "true")
    owner.keyboard.press("x")
    expect(owner.locator("[data-chosen]")).to_have_text("3 asks selected")
    owner.keyboard.press("b")
    owner.keyboard.type("12")
    owner.keyboard.press("Tab")
    owner.keyboard.press("Enter")
    expect(owner.locator("[data-said]")).to_have_text("3 asks set to priority 12.")
    expect(row(ready(owner), group[0]).locator(".sub").first).to_contain_text("priority 12")
    expect(lead).to_have_attribute("aria-selected", "true")
    owner.keyboard.press("x")
    owner.keyboard.press("b")
    for _ in range(4):
        owner.keyboard.press("Tab")
    owner.keyboard.press("Enter")
    dialog = owner.get_by_role("dialog", name="Cancel 3 asks?")
    expect(dialog.get_by_role("button", name="Keep open")).to_be_focused()
    owner.keyboard.press("Shift+Tab")
    owner.keyboard.press("Enter")
    expect(owner.locator("[data-said]")).to_have_text("3 asks cancelled.")
    closed = owner.locator("[data-list] > .askrow[data-gone]")  # by its last ask, if a refresh came between
    expect(closed).to_have_count(1)
    expect(closed).to_contain_text("Closed" if is_deaf else "Cancelled")
    expect(row(owner, other)).to_have_attribute("aria-selected", "true")


def test_passing_next_and_newest_go_by_keys_from_any_page(house, ask, person):
    passed, newest = ask("Not for edo?", "one"), ask("For edo, surely?", "two")
    edo = person(house.link("edo", "expert"), viewport={"width": 1180, "height": 900})  # no ask beside the list
    queue_of(edo, house, "?q=no-such-ask")
    edo.keyboard.press("j")
    expect(edo.locator("[data-list] .empty")).to_contain_text("Show all")  # no row: Enter would leave the queue
    expect(edo.locator("[aria-selected=true]")).to_have_count(0)
    queue_of(edo, house, "?sort=oldest")
    edo.keyboard.press("j")
    edo.keyboard.press("p")
    edo.keyboard.type("not my field")
    edo.keyboard.press("Enter")
    expect(row(edo, passed)).to_contain_text("You declined.")
    edo.keyboard.press("c")
    expect(edo.locator("[data-said]")).to_contain_text("You declined.")
    edo.goto(house.url + "/")
    assert row(edo, newest).locator(".body").bounding_box()["width"] > 440, "a question has room on Home"
    edo.goto(house.url + "/members/")
    edo.keyboard.press("g")
    edo.keyboard.press("a")
    edo.wait_for_url(f"**/asks/{newest}/")
    edo.goto(house.url + "/episodes/")
    edo.keyboard.press("Shift+N")
    edo.wait_for_url(f"**/asks/{newest}/")
    expect(edo.locator("#advice")).to_be_visible()


def test_claim_next_follows_the_list_and_keeps_first_letters(house, ask, person):
    ask("Which of these?", "one")
    newest = ask("And which of those?", "two", deadline_s=900)
    edo = queue_of(person(house.link("edo", "expert")), house, "?sort=newest")
    held = []
    edo.route("**/queue/next", lambda route: held.append(route))
    with edo.expect_request("**/queue/next"):
        edo.keyboard.press("Shift+N")
    edo.keyboard.type("Into 9")  # by now the page of the ask is on its way
    held[0].continue_()
    edo.wait_for_url(f"**/asks/{newest}/")
    expect(edo.locator("#advice")).to_have_value("Into 9")
    expect(edo.locator("#advice")).to_be_focused()
    edo.keyboard.type(".")
    expect(edo.locator("#advice")).to_have_value("Into 9.")


def test_views_and_transfer_work_by_keyboard(house, ask, person):
    red, blue = ask("The red one or the green one?", "one"), ask("Blue, or none?", "two")
    owner = queue_of(person(house.link("owner", "admin")), house, "?q=red&sort=newest")
    owner.keyboard.press("Shift+V")
    expect(owner.locator("#views input[name=name]")).to_be_focused()
    owner.keyboard.type("Reds")
    owner.keyboard.press("Enter")
    expect(owner.locator("#views [data-pick]")).to_be_focused()
    expect(owner.locator("#views [data-pick]")).to_have_text("Reds 1 open")
    queue_of(owner, house)
    expect(row(owner, blue)).to_be_visible()
    owner.keyboard.press("Shift+V")
    expect(owner.locator("#views [data-pick]")).to_be_focused()
    owner.keyboard.press("Enter")
    owner.wait_for_url(re.compile(r"/queue/\?q=red&sort=newest$"))
    expect(row(ready(owner), red)).to_be_visible()
    owner.keyboard.press("j")
    owner.keyboard.press("Shift+T")
    expect(owner.locator("#hand-row")).to_contain_text("The red one")
    owner.keyboard.press("Tab")
    owner.keyboard.type("ask the painter")
    owner.keyboard.press("Enter")
    expect(owner.locator("[data-said]")).to_contain_text(re.compile("^Transferred to "))
    expect(owner.locator("#list")).to_be_focused()
    owner.keyboard.press("Shift+V")
    expect(owner.locator("#views [data-pick]")).to_be_focused()
    owner.keyboard.press("Tab")
    owner.keyboard.press("Enter")
    expect(owner.locator("#views")).to_contain_text("No saved views yet.")


def test_away_by_key_is_seen_by_others_and_survives_reload(house, person):
    edo, lena = person(house.link("edo", "expert"), at_home=True), person(house.link("lena", "expert"))
    lena.goto(house.url + "/queue/")
    seats = lena.locator('[data-part="seats"]')
    expect(seats).to_contain_text(re.compile(r"edo\s*online"))
    edo.keyboard.press("Shift+A")
    expect(edo.locator("[data-said]")).to_have_text("You are set to Away.")
    expect(seats).to_contain_text(re.compile(r"edo\s*away"))
    edo.reload()
    expect(edo.locator(".top [data-duty] [data-say]").first).to_have_text("Away")
    edo.keyboard.press("Shift+A")
    expect(seats).to_contain_text(re.compile(r"edo\s*online"))


def test_phone_filters_fold_behind_a_counting_button(house, ask, person):
    first = ask("Which of the two tickets stays?")
    edo = person(house.link("edo", "expert"), viewport={"width": 390, "height": 844})
    edo.goto(f"{house.url}/queue/?sight=blind")
    more, sort = edo.get_by_role("button", name="Filters 1"), edo.get_by_label("Sort")
    expect(row(edo, first)).to_be_in_viewport()
    expect(sort).to_be_hidden()
    more.click()
    expect(sort).to_be_visible()
    expect(edo.locator("#choices select").first).to_be_focused()
    sort.select_option("newest")
    edo.wait_for_url(lambda url: "sort=newest" in url and "sight=blind" in url)
    expect(row(edo, first)).to_be_visible()
    more.click()
    expect(sort).to_have_value("newest")


def test_phone_shows_a_claim_without_overlap_or_overflow(house, ask, person):
    claimed = ask("Which of the two invoices is right?")
    ada = person(house.link("adalbert-from-the-second-floor", "admin"))
    ada.goto(f"{house.url}/asks/{claimed}/")
    ada.locator("[data-act=claim]").click()
    expect(ada.locator("textarea").first).to_be_visible()
    phone = person(house.link("edo", "expert"), viewport={"width": 390, "height": 844})
    phone.goto(f"{house.url}/queue/")
    expect(row(phone, claimed).locator(".go")).to_contain_text("Claimed by")
    since, holder = (row(phone, claimed).locator(part).bounding_box() for part in (".when", ".go"))
    assert holder["y"] >= since["y"] + since["height"] or holder["x"] >= since["x"] + since["width"]
    phone.goto(f"{house.url}/asks/{claimed}/")
    expect(phone.locator(".chips")).to_contain_text("Claimed by")
    assert phone.evaluate("document.scrollingElement.scrollWidth - document.scrollingElement.clientWidth") <= 0

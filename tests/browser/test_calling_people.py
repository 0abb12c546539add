"""Notifications in a browser: turned on by keys, tested, shown by the real service worker, refused with a reason.

The push service of a browser vendor is not reached: the page's `PushManager` hands out an address of ours, whose keys
this test holds. What the house sends there is decrypted and given to the service worker through the browser's own door.
"""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import WHOLE, browser
from tests.notices.receivers import Browser, receiver
from tests.running import until

pytestmark = pytest.mark.browser

STUB = """
const stub = { endpoint: ENDPOINT, toJSON: () => ({ endpoint: ENDPOINT, keys: KEYS }), unsubscribe: async () => true };
let on = sessionStorage.getItem("on");
PushManager.prototype.subscribe = async function (options) {
  if (!options.userVisibleOnly || options.applicationServerKey.length !== 65) throw new Error("not a key");
  sessionStorage.setItem("on", on = "1");
  return stub;
};
PushManager.prototype.getSubscription = async () => (on ? stub : null);
Notification.requestPermission = async () => "granted";
"""


@pytest.fixture(scope="module")
def house(desk):
    return desk.with_project("calling")


@pytest.fixture(scope="module")
def chromium(driver):
    """A browser that can notify."""
    with browser(driver, WHOLE) as one:
        yield one


@pytest.fixture(scope="module")
def loop(house):
    with house.http(house.token("agent")) as loop:
        yield loop


@pytest.fixture
def there():
    with receiver() as one:
        yield one


def open_ask(loop, key, question, **typed):
    episode = loop.post("/episodes", json={"key": key, "task": key, "expert": "plain"}).json()["id"]
    return loop.post("/asks", json={"key": "q", "episode": episode, "seq": 1, "question": question, **typed}).json()[
        "id"
    ]


def notices_of(page, house):
    page.context.grant_permissions(["notifications"], origin=house.url)
    page.goto(f"{house.url}/notifications/")
    expect(page.locator("#connection-words")).to_have_text("Live")
    return page


def test_push_is_switched_on_by_keys_tried_and_brings_an_ask(house, loop, there, person):
    keys, page = Browser(), person(house.link("edo", "expert"))
    endpoint = f"{there.url}/push/1"
    page.add_init_script(STUB.replace("ENDPOINT", json.dumps(endpoint)).replace("KEYS", json.dumps(keys.secret)))
    notices_of(page, house)
    page.get_by_role("button", name="Turn on push here").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("You're notified by push.")
    expect(page.locator("[data-this]")).to_be_visible()
    page.get_by_role("button", name="Send test by Push").focus()
    page.keyboard.press("Enter")
    expect(page.locator("[data-test=sent]")).to_have_text("Test by push: Accepted by the push service (201).")

    ask = open_ask(loop, "push", "Into which one?\nsecond line")
    posted = until(lambda: there.posted[1:], 60)[0]
    told = keys.opened(posted.body)
    assert json.loads(told)["path"] == f"/projects/{house.project}/asks/{ask}/" and b"second line" not in told

    shown = deliver(page, house, told.decode())
    assert [(one["title"], one["body"]) for one in shown] == [("An agent asks in calling", "Into which one?")]
    page.goto(f"{house.url}/queue/")
    expect(page.locator("#connection-words")).to_have_text("Live")
    loop.post(f"/asks/{ask}/cancel")
    until(lambda: not notifications(page), 60)


def deliver(page, house, text):
    """Hand a push to the service worker as the browser's own push client does."""
    session = page.context.new_cdp_session(page)
    found = []
    session.on("ServiceWorker.workerRegistrationUpdated", lambda event: found.extend(event["registrations"]))
    session.send("ServiceWorker.enable")
    until(lambda: page.evaluate("1") and found, 60)
    to = {"origin": house.url, "registrationId": found[0]["registrationId"], "data": text}
    session.send("ServiceWorker.deliverPushMessage", to)
    return until(lambda: notifications(page), 60)


def notifications(page):
    return page.evaluate(
        """async () => (await (await navigator.serviceWorker.getRegistration("/")).getNotifications())
           .map(({title, body, data}) => ({title, body, data}))"""
    )


def test_open_page_notice_is_silent_while_visible(house, loop, person):
    page = person(house.link("lena", "expert"))
    page.add_init_script(
        """Notification.requestPermission = async () => "granted";
           const post = ServiceWorker.prototype.postMessage;
           ServiceWorker.prototype.postMessage = function (told) {
             (window.told ||= []).push(told);
             post.call(this, told);
           };"""
    )
    notices_of(page, house)
    page.get_by_role("button", name="Turn on for open tabs", exact=True).first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("You're notified by open tabs.")
    expect(page.locator("#connection-words")).to_have_text("Live")
    ask = open_ask(loop, "pages", "Which colour?")
    told = until(lambda: page.evaluate("window.told"), 60)
    assert (told[0]["ask"], told[0]["body"]) == (ask, "Which colour?")
    assert notifications(page) == []


def test_answer_link_is_opened_on_a_phone_without_a_session(house, loop, there, person):
    setting = person(house.link("edo", "expert"))
    setting.goto(f"{house.url}/notifications/")
    setting.get_by_label("URL", exact=True).fill(f"{there.url}/hook")
    setting.get_by_role("button", name="Add webhook").click()
    calls = [
        {"id": "1", "name": "create_refund", "arguments": {"order_id": 9007199254740993, "amount": 249.0}},
        {"id": "2", "name": "send_reply", "arguments": {"body": "Refunded."}},
    ]
    ask = open_ask(loop, "link", "Refund the duplicate?", kind="approval", calls=calls, on_timeout="reject")
    notice = until(lambda: [json.loads(one.body) for one in there.posted if ask.encode() in one.body], 60)[0]
    page = person(notice["answer_url"], viewport={"width": 390, "height": 844}, has_touch=True)
    expect(page.locator("h1")).to_have_text("Refund the duplicate?")
    expect(page.locator("main")).to_contain_text("No answer: reject")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    cards = page.locator(".callcard")
    cards.nth(0).get_by_role("radio", name="Edit").tap()
    cards.nth(0).locator('[data-argument="amount"]').fill("124.5")
    page.get_by_role("button", name="Send approval").tap()
    expect(page.locator("[data-problem]")).to_contain_text("Decide call 2")
    cards.nth(1).get_by_role("radio", name="Approve").tap()
    expect(cards.nth(1).locator(".standing-box")).to_be_hidden()
    page.get_by_role("button", name="Send approval").tap()
    expect(page.locator("h1")).to_contain_text("You answered this ask")
    said = loop.get(f"/asks/{ask}").json()["advice"]
    assert [one["verdict"] for one in said["decision"]["calls"]] == ["edit", "approve"]
    assert said["decision"]["calls"][0]["arguments"] == {"order_id": 9007199254740993, "amount": 124.5}
    page.goto(notice["answer_url"])
    expect(page.locator("main")).to_contain_text("This link is used.")


def test_a_browser_that_refuses_is_told_so_in_words(house, person):
    page = person(house.link("mira", "expert"))
    page.add_init_script("Object.defineProperty(Notification, 'permission', {get: () => 'denied'});")
    page.goto(f"{house.url}/notifications/")
    expect(page.locator('[data-obstacle="push"]')).to_contain_text("Notifications are blocked for this site.")
    expect(page.get_by_role("button", name="Turn on push here")).to_be_disabled()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_cut_off_on_a_phone(house, person, scheme):
    page = person(house.link("edo", "expert"), viewport={"width": 390, "height": 844}, color_scheme=scheme)
    page.goto(f"{house.url}/notifications/")
    expect(page.locator("h1")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390

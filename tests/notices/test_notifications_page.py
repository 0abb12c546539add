"""The page Notices: what a person can switch on, what they read, and the worker's script at the root."""

from __future__ import annotations

import json
import re

import pytest

from awmweb.variables import MailServer
from notices import sending
from notices.models import Delivery, QuietHours, Subscription
from notices.record import deliveries, subscriptions
from people.models import Membership
from tests.browsing import as_person, html
from tests.notices.receivers import Browser
from tests.people_by_name import person

JSON = {"accept": "application/json"}
HOOK = {"kind": "webhook", "target": "https://hooks.example.org/a"}


def text(page):
    return html(page)


def test_notifications_off_page_explains_missing_email(edo):
    page = text(as_person(edo).get("/notifications/"))
    assert "Notifications are off." in page and "AWMWEB_MAIL_URL" in page
    assert 'href="/projects/lab/notifications/"' in page and len(re.search(r'data-key="([\w-]+)"', page)[1]) == 87


def test_a_webhook_shows_its_secret_once(edo):
    client = as_person(edo)
    page = text(client.post("/notifications/on", HOOK))
    secret = Subscription.objects.get().secret["key"]
    assert secret in page and "You&#x27;re notified by webhook." in page
    assert secret not in text(client.get("/notifications/"))


def test_a_browser_switches_on_push_as_a_script(edo, settings):
    client, browser = as_person(edo), Browser()
    body = {"kind": "push", "target": "https://push.example.org/1", "name": "Firefox on Linux", **browser.secret}
    said = client.post("/notifications/on", body, headers=JSON)
    assert said.json()["id"] == Subscription.objects.get().pk
    assert "Firefox on Linux" in text(client.get("/notifications/"))
    refused = client.post("/notifications/on", {**body, "target": "https://10.0.0.1/"}, headers=JSON)
    assert refused.status_code == 422 and "private address" in refused.json()["error"]["message"]


def test_refused_address_is_kept_in_the_form_with_reason(edo):
    page = as_person(edo).post("/notifications/on", {"kind": "webhook", "target": "https://127.0.0.1/x"})
    assert page.status_code == 422 and "private address" in text(page) and 'value="https://127.0.0.1/x"' in text(page)


def test_a_test_is_followed_in_the_log_until_it_is_through(edo, settings):
    client = as_person(edo)
    client.post("/notifications/on", HOOK)
    way = Subscription.objects.get()
    client.post(f"/notifications/{way.pk}/test")
    assert 'hx-trigger="every 1s"' in text(client.get("/notifications/"))
    step = deliveries.take(Delivery.objects.get().due_at)[1]
    deliveries.record_result(step, deliveries.SendResult(False, "the webhook answered 500 <b>oops</b>"))
    log = text(client.get("/notifications/log"))
    assert "every 1s" not in log and "500 &lt;b&gt;oops" in log and 'data-test="failed"' in log


def test_mail_rules_and_quiet_hours_are_kept(edo, settings):
    settings.MAIL_SERVER = MailServer("127.0.0.1", 1, "", "", False, False)
    client = as_person(edo)
    client.post("/notifications/on", {"kind": "email", "target": "edo@example.org"})
    way = Subscription.objects.get()
    assert "Code from the mail" in text(client.get("/notifications/"))
    assert client.post(f"/notifications/{way.pk}/confirm", {"code": "no"}).status_code == 422
    client.post(f"/notifications/{way.pk}/confirm", {"code": way.secret["code"]})
    client.post(f"/notifications/{way.pk}/rules", {"delay_s": "120", "every_s": "600"})
    way.refresh_from_db()
    assert (way.is_confirmed, way.delay_s, way.every_s) == (True, 120, 600)
    client.post("/notifications/quiet", {"starts": "22:00", "ends": "07:00", "zone": "Europe/Madrid", "do": "keep"})
    assert str(QuietHours.objects.get()) == "22:00 to 07:00 Europe/Madrid"
    page = text(client.get("/notifications/"))
    assert 'value="22:00"' in page and 'value="Europe/Madrid"' in page and 'value="120"' in page
    client.post("/notifications/quiet", {"do": "off"})
    assert not QuietHours.objects.exists()


@pytest.mark.parametrize(
    ("address", "body"),
    [
        ("rules", {"delay_s": "-1", "every_s": "60"}),
        ("rules", {"delay_s": "3601", "every_s": "60"}),
        ("rules", {"delay_s": "soon", "every_s": "60"}),
    ],
)
def test_figures_out_of_range_are_refused(edo, address, body):
    way = subscriptions.subscribe(edo, "browser")
    assert as_person(edo).post(f"/notifications/{way.pk}/{address}", body).status_code == 422
    way.refresh_from_db()
    assert way.delay_s == 0


@pytest.mark.parametrize(
    "body",
    [
        {"starts": "22:00", "ends": "", "zone": "UTC"},
        {"starts": "25:00", "ends": "07:00", "zone": "UTC"},
        {"starts": "22:00", "ends": "07:00", "zone": "../../etc/passwd"},
        {"starts": "22:00", "ends": "07:00", "zone": "Mars/Olympus"},
        {"starts": "22:00", "ends": "07:00", "zone": "Europe"},
    ],
)
def test_quiet_hours_that_cannot_be_are_refused(edo, body):
    assert as_person(edo).post("/notifications/quiet", body).status_code == 422
    assert not QuietHours.objects.exists()


def test_strangers_viewers_and_other_sites_cannot_write(edo, max_, project):
    viewer = person(project, "vera", "viewer")
    way = subscriptions.subscribe(edo, "browser")
    for action in ("off", "test", "rules", "confirm"):
        body = {"delay_s": "1", "every_s": "1"}
        assert as_person(max_).post(f"/notifications/{way.pk}/{action}", body).status_code == 404
        assert as_person(viewer).post(f"/notifications/{way.pk}/{action}", body).status_code == 403
        forged = as_person(edo, enforce_csrf_checks=True).post(f"/notifications/{way.pk}/{action}", body)
        assert forged.status_code == 403
    assert as_person(viewer).get("/notifications/").status_code == 403
    assert as_person(edo).get(f"/notifications/{way.pk}/off").status_code == 405
    assert Subscription.objects.current().count() == 1


def test_a_way_of_one_project_is_not_shown_in_another(edo, elsewhere):
    subscriptions.subscribe(edo, "webhook", HOOK["target"])
    Membership.objects.create(project=elsewhere, user=edo.person, role="expert")
    client = as_person(edo)
    assert "hooks.example.org" not in text(client.get("/projects/elsewhere/notifications/"))


def test_removed_is_removed_and_its_log_stays(edo, asked):
    way = subscriptions.subscribe(edo, "browser")
    asked("Into which one?")
    sending.work()
    client = as_person(edo)
    assert "Channel removed." in text(client.post(f"/notifications/{way.pk}/off", follow=True))
    page = text(client.get("/notifications/"))
    assert "No notifications set up." in page and "Sent to your open tabs." in page and "Into which" not in page


def test_the_service_worker_stands_at_the_root_and_keeps_nothing(client):
    answer = client.get("/sw.js")
    assert answer["Service-Worker-Allowed"] == "/" and answer["Cache-Control"] == "no-cache"
    assert (
        answer["Content-Type"].startswith("text/javascript")
        and "worker-src 'self'" in answer["Content-Security-Policy"]
    )
    assert "caches" not in text(answer) and '"fetch"' not in text(answer)


def test_the_manifest_names_icons_that_are_there(settings):
    static = settings.STATICFILES_DIRS[0]
    icons = json.loads((static / "manifest.webmanifest").read_text())["icons"]
    assert len(icons) == 3 and all((static / one["src"].removeprefix("/static/")).exists() for one in icons)

"""The project in the address of every page: redirects to it, rights in it, and what is made below it."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import Client
from django.urls import get_resolver, reverse

from awmclient.schema import AskOpen, EpisodeStart
from awmweb.old_addresses import RENAMED
from episodes.live.consumers import PROJECT, actor_for
from episodes.record import recording
from experts.record import opening
from people.access import SESSION_ENTRIES
from people.errors import NotFound
from people.record import members
from tests.browsing import as_person, html
from tests.people_by_name import token

FREE = {"health", "login", "logout", "projects", "scrape", "service_worker"}
"""Names of addresses without arguments that belong to no project."""


@pytest.fixture
def both(ada, elsewhere):
    """A browser of Ada, who is an admin of Lab and an expert of Elsewhere."""
    members.ensure_member(elsewhere, ada.person.username, "expert")
    return as_person(ada)


@pytest.fixture
def ours(ada):
    return recording.start_episode(ada, EpisodeStart(key="one", task="ours", expert="plain"))[0]


@pytest.fixture
def theirs(max_):
    return recording.start_episode(max_, EpisodeStart(key="one", task="theirs"))[0]


def moved(client, path, **more):
    """Where an address leads that is opened as typed."""
    answer = Client.get(client, path, **more)
    return answer.headers.get("Location", answer.status_code)


def test_old_address_leads_to_the_project_of_its_object(both, ours, theirs):
    for one, slug in ((ours, "lab"), (theirs, "elsewhere"), (ours, "lab")):
        where = f"/episodes/{one.pk}/replay/?step=2"
        assert moved(both, where) == f"/projects/{slug}{where}" and moved(both, f"/projects/{slug}{where}") == 200


def test_old_address_without_object_leads_to_the_last_project(both):
    assert moved(both, "/queue/?sort=newest") == "/projects/lab/queue/?sort=newest"
    assert moved(both, "/projects/elsewhere/members/") == 200
    assert moved(both, "/") == "/projects/elsewhere/" and moved(both, "/queue/") == "/projects/elsewhere/queue/"


def test_part_fetched_by_a_script_leaves_the_last_project(both):
    both.get("/projects/lab/")
    for headers in ({"HX-Request": "true"}, {"Accept": "application/json"}, {"Sec-Fetch-Dest": "empty"}):
        assert moved(both, "/projects/elsewhere/wall.html", headers=headers) == 200
    assert moved(both, "/") == "/projects/lab/"


def test_every_page_without_arguments_is_in_a_project(both, db):
    names = [name for name in get_resolver().reverse_dict if isinstance(name, str)]
    paths = {name: reverse(name) for name in names if not get_resolver().reverse_dict.getlist(name)[0][0][0][1]}
    script = {"HX-Request": "true"}
    told = {name: moved(both, path, headers=script) for name, path in paths.items() if name not in FREE}
    assert {name: where for name, where in told.items() if where not in (405, f"/projects/lab{paths[name]}")} == {}
    assert sum(where != 405 for where in told.values()) > 20


def test_project_of_others_is_not_found(ada, ours, theirs, both):
    stranger = as_person(ada)
    session = stranger.session
    session[SESSION_ENTRIES] = [ada.entry]
    session.save()
    for where in ("", "queue/", "nowhere", f"episodes/{theirs.pk}/", "api/v1/episodes"):
        assert moved(stranger, f"/projects/elsewhere/{where}") == 404
    assert moved(stranger, "/projects/no-such-project/queue/") == 404
    for slug, one in (("lab", theirs), ("elsewhere", ours)):
        assert moved(both, f"/projects/{slug}/episodes/{one.pk}/") == 404
        assert both.post(f"/projects/{slug}/episodes/{one.pk}/stop").status_code == 404
    page = html(stranger.get("/projects/elsewhere/queue/"))
    assert "Page not found." in page and "lsewhere" not in page and "Check the address" in page


def test_addresses_made_by_a_page_are_in_its_project(both, ours):
    page = html(both.get(f"/projects/lab/episodes/{ours.pk}/"))
    assert 'data-base="/projects/lab/"' in page and 'data-queue="/projects/lab/ws/queue"' in page
    assert f'data-socket="/projects/lab/ws/episodes/{ours.pk}?pictures=1"' in page
    assert '<a href="/projects/elsewhere/">Elsewhere</a>' in page
    sent = both.post(f"/projects/lab/episodes/{ours.pk}/stop")
    assert sent["Location"] == f"/projects/lab/episodes/{ours.pk}/"
    assert reverse("home") == "/"


def test_form_without_project_goes_to_that_of_its_object(both, theirs, ours):
    both.get("/projects/elsewhere/")
    assert both.post(f"/episodes/{ours.pk}/stop")["Location"] == f"/projects/lab/episodes/{ours.pk}/"
    assert both.post("/queue/next")["Location"] == "/projects/elsewhere/queue/"


def test_pages_of_no_project_keep_their_addresses(both):
    both.get("/projects/elsewhere/")
    page = html(both.get("/projects/"))
    assert moved(both, "/projects/") == 200 and moved(both, "/health") == 200
    assert 'action="/logout"' in page and 'href="/projects/elsewhere/queue/"' in page
    assert moved(both, "/projects/lab") == "/projects/lab/"


def test_login_link_opens_its_project_or_the_page_asked_for(client, ada, elsewhere):
    _, secret = members.invite(ada, "zoe", "expert")
    # by "/", which any version has: in an update another one can serve the next request
    assert client.get(f"/login/once/{secret}")["Location"] == "/" and moved(client, "/") == "/projects/lab/"
    _, secret = members.invite(ada, "zed", "expert")
    where = "/projects/lab/queue/?sort=newest"
    assert client.get(f"/login/once/{secret}", {"next": where})["Location"] == where
    assert Client().get(where)["Location"] == "/login?next=%2Fprojects%2Flab%2Fqueue%2F%3Fsort%3Dnewest"


def test_api_by_cookie_answers_for_the_project_of_the_address(both, ours, theirs):
    for slug, one in (("lab", ours), ("elsewhere", theirs)):
        listed = both.get(f"/projects/{slug}/api/v1/episodes").json()["items"]
        assert [item["id"] for item in listed] == [one.pk]
    assert both.get(f"/projects/lab/api/v1/episodes/{theirs.pk}").json()["error"]["code"] == "not_found"


def test_token_of_another_project_is_refused_below_an_address(project, elsewhere, ours):
    door = {"headers": {"Authorization": f"Bearer {token(project, 'export')[1]}"}}
    for where, status in (("", 200), ("/projects/lab", 200), ("/projects/elsewhere", 404)):
        assert Client().get(f"{where}/api/v1/episodes", **door).status_code == status


def test_socket_admits_to_the_project_of_its_address(both, ada, ours, theirs, elsewhere):
    scope = {"headers": [], "user": ada.person, "session": both.session}
    assert actor_for({**scope, PROJECT: "elsewhere"}).project == elsewhere
    assert actor_for({**scope, PROJECT: "lab"}, ours.project_id).project.slug == "lab"
    for slug, project_id in (("lab", theirs.project_id), ("no-such-project", None)):
        with pytest.raises(NotFound):
            actor_for({**scope, PROJECT: slug}, project_id)
    bearer = [(b"authorization", f"Bearer {token(elsewhere, 'expert')[1]}".encode())]
    with pytest.raises(NotFound):
        actor_for({"headers": bearer, PROJECT: "lab"})


@pytest.fixture
def asking(ada, ours):
    return opening.open_ask(ada, AskOpen(key="q", episode=ours.pk, seq=1, question="Which?"))[0]


def opened_alone(ours, asking):
    """Every address, with IDs of what exists, that answers a GET."""
    known = {"episodes": ours.pk, "asks": asking.pk, "reviews/said": ours.pk}
    for name, ways in get_resolver().reverse_dict.lists():
        for pattern, _, _, _ in ways if isinstance(name, str) and not name.startswith("api") else []:
            path, arguments = pattern[0]
            start = next((one for one in known if path.startswith(f"{one}/%")), "")
            yield (
                name,
                "/" + path % {one: 1 if one in ("seq", "task_idx") else known.get(start, "x") for one in arguments},
            )


def test_every_address_opened_alone_is_a_page_or_a_file(both, ours, asking):
    bare, opened = {}, 0
    for name, path in opened_alone(ours, asking):
        answer = Client.get(both, f"/projects/lab{path}", follow=True)
        if answer.status_code == 405 or not answer.headers["Content-Type"].startswith("text/html"):
            continue
        opened += 1
        if '<header class="top">' not in answer.content.decode():
            bare[name] = path
    assert bare == {} and opened > 40
    assert '<header class="top">' in html(both.get("/projects/lab/queue/?parts=day"))


def test_signing_in_never_leads_to_a_part_of_a_page(ours, asking):
    pages = (f"/asks/{asking.pk}/", f"/episodes/{ours.pk}/", f"/episodes/{ours.pk}/replay/", "/", "/queue/")
    parts = (f"{pages[0]}steps.html", f"{pages[0]}tables", f"{pages[0]}similar", f"{pages[1]}steps.html")
    more = (f"{pages[1]}find", f"{pages[2]}tables", "/wall.html", "/queue/views")
    for part in (*parts, *more):
        last = Client().get(f"/projects/lab{part}", {"since": 1}, follow=True).redirect_chain[-1][0]
        back = parse_qs(urlsplit(last).query)["next"][0]
        assert back.startswith("/projects/lab/") and urlsplit(back).path.removeprefix("/projects/lab") in pages, part
        assert Client().get(f"/projects/lab{part}", headers={"HX-Request": "true"}).status_code == 401


def test_form_sent_without_a_session_leads_back_to_its_page(ours):
    page = f"http://testserver/projects/lab/episodes/{ours.pk}/?step=2"
    for referer, back in ((page, page.removeprefix("http://testserver")), ("https://evil.example/x", "/"), ("", "/")):
        answer = Client().post(f"/episodes/{ours.pk}/stop", headers={"Referer": referer})
        assert parse_qs(urlsplit(answer["Location"]).query)["next"] == [back]


def test_part_that_a_link_leads_to_is_shown_without_scripts(both, asking):
    page = html(Client.get(both, f"/projects/lab/asks/{asking.pk}/tables"))
    assert "<h1>Changed rows</h1>" in page and f'<a href="/projects/lab/asks/{asking.pk}/">Back to the page</a>' in page
    assert "<h1>" not in html(both.get(f"/projects/lab/asks/{asking.pk}/tables"))


@pytest.mark.parametrize(("old", "new"), [(old, new) for old, new in RENAMED.items()])
def test_renamed_page_is_found_at_its_old_address(both, old, new):
    for before in ("/projects/lab", ""):
        answer = Client.get(both, f"{before}/{old}/x%3Fy/%C3%A9?time=all&q=a%20b")
        assert answer.status_code == 301
        assert answer.headers["Location"] == f"{before}/{new}/x%3Fy/%C3%A9?time=all&q=a%20b"
    assert Client.get(both, f"/projects/lab/{old}/", follow=True).request["PATH_INFO"] == f"/projects/lab/{new}/"


def test_form_of_an_old_page_keeps_method_and_body(ada):
    form = {"do": "invite", "name": "Kim", "role": "expert"}
    answer = as_person(ada).post("/projects/lab/people/", form, follow=True)
    assert answer.redirect_chain == [("/projects/lab/members/", 308)] and "Kim" in html(answer)


def test_address_that_only_begins_like_an_old_one_is_unknown(both):
    for path in ("/desks/", "/peoples/", "/queue/mined/", "/api/v1/people/"):
        assert Client.get(both, f"/projects/lab{path}").status_code == 404


def test_metrics_without_a_token_in_a_project_is_the_page(both):
    assert Client.get(both, "/projects/lab/metrics").headers["Location"] == "/projects/lab/metrics/"
    assert Client.get(both, "/metrics").status_code == 401

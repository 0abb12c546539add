"""An ask whose skill no member has warns those who can help, and counts for no one who cannot claim it."""

from __future__ import annotations

import re

from django.utils import timezone

from experts import notifications
from experts.consumers import _open_now
from experts.models import Ask, Presence
from experts.record import desk, queue
from experts.who import advisers
from people import operating
from people.models import Membership
from tests.browsing import as_person, html
from tests.people_by_name import token


def facet(page, word):
    return int(re.search(rf">{word} (\d+)<", page)[1])


def bell(page):
    return int(re.search(r'id="bell".*?data-open="(\d+)"', page)[1])


def subject(ask):
    return notifications.AskSubject(Ask.objects.select_related("project", "assignment").get(pk=ask.pk))


def test_an_ask_of_a_skill_no_one_has_counts_for_no_one(asked, edo):
    asked("Which one?")
    strange = asked("Which tax rate?", skills=["tax"])
    page = html(as_person(edo).get("/queue/"))
    assert (bell(page), facet(page, "Unclaimed"), facet(page, "Open")) == (1, 1, 2)
    assert bell(html(as_person(edo).get("/"))) == 1
    assert _open_now(edo)["declined"] == []  # the page knows its reader's skills
    assert strange.pk not in html(as_person(edo).get("/queue/?show=unclaimed"))


def test_a_declined_ask_is_not_counted_as_unclaimed(asked, ada, edo):
    ask = asked()
    queue.decline_unclaimed(edo, ask.pk)
    assert _open_now(edo)["declined"] == [ask.pk]
    assert bell(html(as_person(edo).get("/queue/"))) == 0
    assert bell(html(as_person(ada).get("/queue/"))) == 1


def test_a_viewer_counts_all_open_asks(asked, rita):
    asked(skills=["tax"])
    page = html(as_person(rita).get("/queue/"))
    assert (bell(page), facet(page, "Unclaimed")) == (1, 1)


def test_the_row_and_the_page_say_that_no_member_has_the_skill(asked, ada, edo):
    ask = asked(skills=["tax"])
    row = html(as_person(edo).get("/queue/"))
    assert "No member has the skill: tax. An admin can set it on Members." in " ".join(row.split())
    assert "No member has the skill: tax</a>" in html(as_person(ada).get("/queue/"))
    page = html(as_person(edo).get(f"/asks/{ask.pk}/"))
    assert "Requires: tax. No member has that: an admin can set it on Members." in page


def test_home_of_an_admin_names_the_skill_until_someone_has_it(asked, ada, edo):
    asked(skills=["tax"]), asked("Which second rate?", skills=["tax", "law"])
    needs = operating.needs_of(ada, timezone.now())
    assert [one.what for one in needs if one.page == "people"] == ["Skill law", "Skill tax"]
    home = html(as_person(ada).get("/"))
    assert "2 open asks require it, and no member has it. Set it on Members, or transfer or cancel the asks." in home
    assert "Skill tax" not in html(as_person(edo).get("/"))
    Membership.objects.filter(user=edo.person).update(skills=["tax", "law"])
    assert not [one for one in operating.needs_of(ada, timezone.now()) if one.page == "people"]
    assert bell(html(as_person(edo).get("/"))) == 2


def test_leads_are_notified_of_an_ask_that_no_one_can_answer(asked, ada, edo):
    ask = subject(asked(skills=["tax"]))
    assert ask.recipients(timezone.now()) == {ada.key}
    assert ask.title(1) == "No member of lab has the skill tax: an agent waits"
    Membership.objects.filter(user=edo.person).update(skills=["tax"])
    assert ask.recipients(timezone.now()) == {edo.key}
    assert ask.title(1) == "An agent asks in lab"


def test_leads_who_are_away_are_not_notified(asked, ada):
    desk.seen(ada, away=True)
    assert subject(asked(skills=["tax"])).recipients(timezone.now()) == set()


def test_home_names_skills_that_no_one_has_together(asked, ada, edo):
    Membership.objects.filter(user=edo.person).update(skills=["tax"])
    Membership.objects.filter(user=ada.person).update(skills=["law"])
    ask = asked(skills=["tax", "law"])
    [need] = [need for need in operating.needs_of(ada, timezone.now()) if need.page == "people"]
    assert need.what == "Skills law, tax" and "1 open ask requires all of them, and no one member has them." in need.why
    assert subject(ask).title(1) == "No member of lab has all of the skills law, tax: an agent waits"
    assert "No member has all of that" in html(as_person(edo).get(f"/asks/{ask.pk}/"))


def test_a_script_online_with_the_skill_is_someone(asked, project):
    clerk, _ = token(project, "expert")
    desk.seen(clerk)
    Presence.objects.filter(actor_key=clerk.key).update(skills=["tax"])
    assert advisers.reach_of(project, timezone.now()).missing(["tax"]) == []
    assert advisers.reach_of(project, timezone.now()).missing(["tax", "law"]) == ["law"]


def test_skills_that_no_one_has_together_are_missing(asked, ada, edo, project):
    Membership.objects.filter(user=edo.person).update(skills=["tax"])
    Membership.objects.filter(user=ada.person).update(skills=["law"])
    assert advisers.reach_of(project, timezone.now()).missing(["tax", "law"]) == ["law", "tax"]

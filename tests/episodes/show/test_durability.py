"""What pages say about an episode that was parked, resumed or replayed."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from episodes.models import Certificate, Episode
from episodes.show import durability
from tests.browsing import as_person, html

pytestmark = pytest.mark.django_db


def certificate(grade="exact", checked=41, episode=None, **more):
    place = {"scenario": "shop_1", "task_idx": 0, "source": "episode" if episode else "oracle"}
    return Certificate.objects.create(episode=episode, grade=grade, calls=41, checked=checked, **place | more)


def test_chips_say_parked_attempt_and_certificate(ada):
    now = timezone.now()
    parked = {"state": "parked", "parked_at": now - timedelta(hours=3), "attempt": 2}
    episode = Episode.objects.create(project=ada.project, key="k", body_digest="", task="t", **parked)
    said = [words for _, words in durability.chips(episode, now)]
    assert said == ["parked 3 h, waits for a person", "resumed, attempt 2"]
    certificate(episode=episode)
    assert durability.chips(episode, now)[-1] == ("good", "certified, 41 of 41 calls")
    certificate("refused", 16, episode, differs_at=17)
    assert durability.chips(episode, now)[-1] == ("bad", "differs from step 17")
    page = html(as_person(ada).get(f"/episodes/{episode.pk}/"))
    for words in ("parked 3 h, waits for a person", "resumed, attempt 2", "differs from step 17"):
        assert words in page


def test_environment_page_names_what_cannot_be_replayed(ada, settings):
    settings.AWMENV_URL = "http://127.0.0.1:9"
    certificate()
    certificate("refused", task_idx=1)
    certificate("refused", 3, task_idx=2, difference="late, call 4, brings something else now")
    certificate(task_idx=1)  # newer
    page = html(as_person(ada).get("/environment/"))
    assert "2 of 3 tasks can be replayed exactly" in " ".join(page.split())
    assert "shop_1/2" in page and "late, call 4, brings something else now" in page
    assert "shop_1/1" not in page

"""Reviews by a person's own token: the person who holds it judges, and what is withheld from one is from the other."""

from __future__ import annotations

from importlib import import_module

import pytest
from django.db import connection

from episodes.models import OutcomeHold
from episodes.visible import visibility
from people.access import bearer
from people.record import members
from reviews.errors import Declined, NotYourAnnotation
from reviews.models import ReviewDecline, Verdict
from reviews.record import annotating, assigning, deciding
from reviews.record.deciding import Wanted
from reviews.visible.places import Place
from tests.people_by_name import person

pytestmark = pytest.mark.attack("tokens and doors")


def own_of(actor, scope="review", **more):
    return bearer(members.issue_token(actor, "cli", scope, personal=True, **more)[0])


def test_claim_by_a_token_withholds_from_its_person(ada, review, episode):
    own = own_of(ada)
    lease = assigning.claim(own, review.pk)
    assert not visibility.sees_outcome(ada, episode) and not visibility.sees_outcome(own, episode)
    assert deciding.decide(own, review.pk, lease.lease_token, Wanted("reject")).is_blind
    assert visibility.sees_outcome(ada, episode) and visibility.sees_outcome(own, episode)


def test_rows_of_earlier_token_keys_become_their_persons(ada, rita, queue, review, episode):
    first, other = (members.issue_token(ada, name, "review", personal=True)[0] for name in ("one", "two"))
    shared = members.issue_token(ada, "shared", "review")[0]
    for key in (f"token:{first.pk}", f"token:{other.pk}", f"token:{shared.pk}"):
        OutcomeHold.objects.create(actor_key=key, episode=episode, by=review.pk)
    ReviewDecline.objects.create(review=review, author_key=f"token:{first.pk}", author="token one")
    assert visibility.sees_outcome(ada, episode)
    with connection.cursor() as cursor:
        for statement in import_module("reviews.migrations.0003_one_key_of_a_person").statements():
            cursor.execute(statement)
    assert not visibility.sees_outcome(ada, episode)
    holders = {ada.key, f"token:{other.pk}", f"token:{shared.pk}", rita.key}
    assert set(OutcomeHold.objects.values_list("actor_key", flat=True)) == holders
    with pytest.raises(Declined):
        assigning.claim(ada, review.pk)


def test_person_goes_on_with_a_review_of_their_token(rita, queue, review):
    first = assigning.claim(own_of(rita), review.pk)
    assert assigning.claim(rita, review.pk).slot_id == first.slot_id


def test_verdict_of_a_program_names_its_model(ada, rita, queue, review):
    own = own_of(rita, behind="model")
    lease = assigning.claim(own, review.pk)
    deciding.decide(own, review.pk, lease.lease_token, Wanted("reject", model="judge-1"))
    verdict = Verdict.objects.get(review=review)
    assert (verdict.author, verdict.author_kind, verdict.author_key) == ("judge-1", "model", rita.key)


def test_person_edits_what_their_token_wrote(rita, project, episode):
    own = own_of(rita)
    row = annotating.annotate(own, episode, Place(), "comment", "one")
    assert row.author_key == rita.key
    type(row).objects.filter(pk=row.pk).update(author_key=f"token:{own.token.pk}")
    later = annotating.reword(rita, row.pk, "two")
    assert later.supersedes_id == row.pk
    with pytest.raises(NotYourAnnotation):
        annotating.reword(person(project, "ron", "reviewer"), later.pk, "three")

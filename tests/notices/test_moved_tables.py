"""The tables of notifications move from `experts` to `notices` with every row in them."""

from __future__ import annotations

from datetime import UTC, datetime, time

import pytest
from django.db import IntegrityError, connection, transaction
from django.db.migrations.executor import MigrationExecutor

from notices.models import Delivery, QuietHours, Subscription

BEFORE = [("experts", "0011_queue_views")]
NAME = "awmweb_earlier"
T1, T2 = datetime(2026, 11, 1, 12, tzinfo=UTC), datetime(2026, 11, 1, 13, tzinfo=UTC)


@pytest.fixture
def earlier(house_servers, django_db_blocker):
    """Django works on an empty database of its own meanwhile, as migrations of data know only the default one."""
    with django_db_blocker.unblock():
        with connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {NAME}")
        usual = _turn_to(NAME)
        try:
            yield
        finally:
            _turn_to(usual)
            with connection.cursor() as cursor:
                cursor.execute(f"DROP DATABASE {NAME}")
            connection.close()


def _turn_to(name):
    connection.close()
    connection.close_pool()
    usual, connection.settings_dict["NAME"] = connection.settings_dict["NAME"], name
    return usual


def migrated(targets=None):
    """The models of a version, once the database stands there."""
    executor = MigrationExecutor(connection)
    return executor.migrate(targets or executor.loader.graph.leaf_nodes()).apps


def filled(apps):
    """Rows as the version before wrote them; the asks that they are about."""

    def made(app, model, **values):
        return apps.get_model(app, model).objects.create(**values)

    project = made("people", "Project", slug="lab", name="Lab")
    user = made("auth", "User", username="edo")
    episode = made("episodes", "Episode", project=project, key="e", task="t")
    asks = [
        made(
            *("experts", "Ask"),
            **{"project": project, "episode": episode, "key": str(n), "seq": n, "question": "?", "tier": tier},
            **{"group": f"group{n}", "deadline_at": T2},
        )
        for n, tier in enumerate(["people", "senior"])
    ]
    push = {"kind": "push", "target": "https://push.example.org/1", "secret": {"auth": "a"}, "name": "Firefox"}
    ways = [
        made("experts", "Subscription", project=project, user=user, delay_s=30, every_s=90, told_at=T1, **push),
        made("experts", "Subscription", project=project, user=user, kind="email", ended_at=T1, is_confirmed=False),
    ]
    told = [
        {"subscription": ways[0], "ask": asks[0], "tier": "people", "state": "sent", "words": "taken", "attempts": 2},
        {"subscription": ways[0], "ask": asks[1], "tier": "senior", "state": "waiting", "due_at": T1},
        {"subscription": ways[0], "purpose": "test", "state": "failed", "words": "500"},
        {"subscription": ways[1], "purpose": "code", "state": "skipped", "words": "switched off"},
    ]
    for values in told:
        made("experts", "Delivery", **{"ended_at": None if values["state"] == "waiting" else T2}, **values)
    made("experts", "QuietHours", user=user, starts=time(22), ends=time(7), zone="Europe/Madrid")
    return [ask.pk for ask in asks]


def rows(apps, app, model):
    return list(apps.get_model(app, model).objects.order_by("pk").values())


def test_every_row_keeps_its_values_and_names_its_subject(earlier):
    before = migrated(BEFORE)
    first, second = filled(before)
    kept = {name: rows(before, "experts", name) for name in ("Subscription", "QuietHours", "Delivery")}
    after = migrated()
    assert rows(after, "notices", "Subscription") == kept["Subscription"] and len(kept["Subscription"]) == 2
    assert rows(after, "notices", "QuietHours") == kept["QuietHours"] and len(kept["QuietHours"]) == 1
    about = {first: ("group0", T2), second: ("group1", T2), None: ("", None)}
    assert rows(after, "notices", "Delivery") == [
        {
            **{name: value for name, value in row.items() if name not in ("ask_id", "tier", "purpose")},
            **{"kind": row["purpose"], "subject_id": row["ask_id"] or "", "rank": row["tier"]},
            **dict(zip(("group", "expires_at"), about[row["ask_id"]], strict=True)),
        }
        for row in kept["Delivery"]
    ]
    assert [name for name in connection.introspection.table_names() if "subscription" in name] == [
        "notices_subscription"
    ]


def test_moved_tables_take_new_rows_and_keep_their_rules(earlier):
    filled(migrated(BEFORE))
    migrated()
    old = Delivery.objects.get(state="sent")
    again = {name: getattr(old, name) for name in ("subscription_id", "kind", "subject_id", "rank")}
    with pytest.raises(IntegrityError, match="one_notice_per_rank"), transaction.atomic():
        Delivery.objects.create(**again, due_at=T1)
    with pytest.raises(IntegrityError, match="one_subscription_per_target"), transaction.atomic():
        Subscription.objects.create(
            **{name: getattr(old.subscription, name) for name in ("user_id", "project_id", "kind", "target")}
        )
    quiet = QuietHours.objects.get()
    quiet.delete()
    quiet.pk = None
    quiet.save()
    assert quiet.pk == 2

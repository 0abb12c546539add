from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore
from django.db import migrations

from people.models import new_id


def give(apps, schema_editor):
    """Sessions and links of accounts in one project open that one, as they did. An account of several signs in anew:
    nobody knows for which of them a session was begun."""
    Membership = apps.get_model("people", "Membership")
    LoginLink = apps.get_model("people", "LoginLink")
    entries = {}
    for membership in Membership.objects.order_by("pk"):
        membership.entry = new_id()  # adding the column gave all rows the same one
        membership.save(update_fields=["entry"])
        entries.setdefault(str(membership.user_id), []).append(membership.entry)
    alone = {user: found for user, found in entries.items() if len(found) == 1}
    for user, opens in alone.items():
        LoginLink.objects.filter(user_id=user, used_at__isnull=True).update(opens=opens)
    store = SessionStore()
    for session in apps.get_model("sessions", "Session").objects.iterator():
        data = store.decode(session.session_data)
        if opens := alone.get(str(data.get(SESSION_KEY))):
            session.session_data = store.encode({**data, "entries": opens})
            session.save(update_fields=["session_data"])


class Migration(migrations.Migration):
    dependencies = [
        ("people", "0003_membership_entry_and_link_opens"),
        ("sessions", "0001_initial"),
    ]

    operations = [migrations.RunPython(give, migrations.RunPython.noop)]

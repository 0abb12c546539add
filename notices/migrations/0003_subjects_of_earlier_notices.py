"""Deliveries of before: their ask as kind and id, with its group and deadline."""

from django.db import migrations
from django.db.models import F, OuterRef, Subquery


def fill(apps, schema_editor):
    rows = apps.get_model('notices', 'Delivery').objects.filter(ask__isnull=False)
    ask = apps.get_model('experts', 'Ask').objects.filter(pk=OuterRef('ask_id'))
    rows.update(
        subject_id=F('ask_id'), group=Subquery(ask.values('group')[:1]), expires_at=Subquery(ask.values('deadline_at')[:1])
    )


class Migration(migrations.Migration):

    dependencies = [
        ('notices', '0002_subjects'),
        ('experts', '0012_notices_move_out'),
    ]

    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]

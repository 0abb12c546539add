"""Asks from before the desk had tiers: each is its own group and went to people."""

from django.db import migrations
from django.db.models import F


def fill(apps, schema_editor):
    apps.get_model("experts", "Ask").objects.filter(group="").update(group=F("id"), tiers=["people"])


class Migration(migrations.Migration):
    dependencies = [("experts", "0003_desk")]
    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]

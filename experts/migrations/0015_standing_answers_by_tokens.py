"""A standing answer that was given by a token ends with it."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("people", "0008_subject_of_tickets"), ("experts", "0014_defaults_for_the_version_before")]
    operations = [
        migrations.AddField(
            "standinganswer",
            "token",
            models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to="people.apitoken",
            ),
        )
    ]

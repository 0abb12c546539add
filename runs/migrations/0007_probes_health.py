"""Probes keep the check of the verifier that the environment server told them."""

from django.db import migrations

import people.models


class Migration(migrations.Migration):
    dependencies = [("runs", "0006_begun_tries")]

    operations = [
        migrations.AddField(
            model_name="probe",
            name="health",
            field=people.models.JsonText(blank=True, default=dict),
        ),
    ]

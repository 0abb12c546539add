"""Each call of an expert model has the model's name and the options with which it was asked."""

from django.db import migrations, models

import people.models


class Migration(migrations.Migration):
    dependencies = [("experts", "0017_held_answers")]
    operations = [
        migrations.AddField("modelcall", "model", models.TextField(blank=True, db_default="", default="")),
        migrations.AddField("modelcall", "options", people.models.JsonText(blank=True, null=True)),
    ]

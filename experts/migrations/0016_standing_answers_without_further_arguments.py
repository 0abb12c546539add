"""A standing answer can name all arguments that a call can have."""

from django.db import migrations

import people.models


class Migration(migrations.Migration):
    dependencies = [("experts", "0015_standing_answers_by_tokens")]
    operations = [migrations.AddField("standinganswer", "any_value", people.models.JsonText(blank=True, null=True))]

"""A correction can be withdrawn by a row that supersedes it."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("reviews", "0004_blind_from_the_start")]

    operations = [migrations.AddField(model_name="correction", name="withdrawn", field=models.BooleanField(default=False))]

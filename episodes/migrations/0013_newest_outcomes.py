from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    # built while outcomes are written: a project can have millions
    atomic = False
    dependencies = [("episodes", "0012_undone_orders")]
    operations = [
        AddIndexConcurrently(
            "verifieroutcome", models.Index(fields=["-at"], name="outcome_newest_first")
        )
    ]

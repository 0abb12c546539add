"""What a run will say, as its launch fixed it. Runs from before have none; it then follows from their plan."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("runs", "0001_initial")]

    operations = [
        migrations.AddField("plan", "claims", models.JSONField(db_default=models.Value({}, models.JSONField()), default=dict)),
        migrations.AddField("plan", "claims_digest", models.CharField(blank=True, db_default="", default="", max_length=64)),
    ]

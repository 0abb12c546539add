from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("episodes", "0001_initial")]

    operations = [
        migrations.AddField(
            model_name="certificate",
            name="scenario_digest",
            field=models.CharField(blank=True, db_default="", default="", max_length=64),
        ),
        migrations.AddField(
            model_name="episode",
            name="scenario_digest",
            field=models.CharField(blank=True, db_default="", default="", max_length=64),
        ),
    ]

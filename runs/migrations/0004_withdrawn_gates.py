from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("runs", "0003_scenario_digest")]

    operations = [
        migrations.AddField(
            model_name="arm",
            name="withdrawn",
            field=models.TextField(blank=True, db_default="", default=""),
        ),
        migrations.AddField(
            model_name="arm",
            name="withdrawn_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
    ]

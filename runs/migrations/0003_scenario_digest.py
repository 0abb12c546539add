from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("runs", "0002_claims")]

    operations = [
        migrations.AddField(
            model_name="probe",
            name="scenario_digest",
            field=models.CharField(blank=True, db_default="", default="", max_length=64),
        ),
    ]

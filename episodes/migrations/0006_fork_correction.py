from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("episodes", "0005_forks"),
    ]

    operations = [
        migrations.AddField(
            model_name="fork",
            name="correction",
            field=models.CharField(blank=True, db_default="", default="", max_length=40),
        ),
    ]

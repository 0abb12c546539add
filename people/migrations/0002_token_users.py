from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("people", "0001_initial")]

    operations = [
        migrations.AddField(
            model_name="apitoken",
            name="behind",
            field=models.CharField(
                choices=[("script", "A program"), ("person", "A person"), ("model", "A model")],
                db_default="script",
                default="script",
                max_length=8,
            ),
        ),
    ]

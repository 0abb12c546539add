from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("experts", "0004_shared_replies")]

    operations = [
        migrations.AddField(
            model_name="advice",
            name="behind",
            field=models.CharField(blank=True, db_default="", default="", max_length=8),
        ),
    ]

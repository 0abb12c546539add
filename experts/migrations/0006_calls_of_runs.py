import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("episodes", "0001_initial"), ("experts", "0005_advice_behind")]

    operations = [
        migrations.AddField(
            model_name="modelcall",
            name="run",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="model_calls",
                to="episodes.run",
            ),
        ),
        migrations.AddField(
            model_name="modelcall",
            name="arm",
            field=models.CharField(blank=True, db_default="", default="", max_length=200),
        ),
    ]

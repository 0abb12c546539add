"""What questions with equal words differ in: their pictures."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("experts", "0019_quorum")]
    operations = [
        migrations.AddField(
            "ask", "pictures_digest", models.CharField(blank=True, db_default="", default="", max_length=64)
        )
    ]

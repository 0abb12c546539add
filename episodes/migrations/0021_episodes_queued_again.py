"""Those that a worker had begun before are found among thousands that wait for their first."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("episodes", "0020_briefings")]

    operations = [
        migrations.AddIndex(
            model_name="episode",
            index=models.Index(
                condition=models.Q(("attempt__gt", 0), ("state", "queued")),
                fields=["run"],
                name="episodes_queued_again",
            ),
        ),
    ]

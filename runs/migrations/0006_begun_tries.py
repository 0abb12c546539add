"""Tries that no worker was called for have an index, and those that a worker was called for and has not begun."""

from django.db import migrations, models

BEGUN = """
UPDATE runs_plannedtry AS try SET begun_at = try.called_at
  FROM episodes_episode AS episode
 WHERE episode.id = try.episode_id AND episode.attempt > 0 AND try.called_at IS NOT NULL
"""


class Migration(migrations.Migration):
    dependencies = [("episodes", "0021_episodes_queued_again"), ("runs", "0005_prices_and_servers")]

    operations = [
        migrations.AddField(
            model_name="plannedtry",
            name="begun_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.RunSQL(BEGUN, migrations.RunSQL.noop),
        migrations.AddIndex(
            model_name="plannedtry",
            index=models.Index(
                condition=models.Q(("called_at", None)),
                fields=["plan", "wave", "position"],
                name="tries_uncalled",
            ),
        ),
        migrations.AddIndex(
            model_name="plannedtry",
            index=models.Index(
                condition=models.Q(("begun_at", None), ("called_at__isnull", False)),
                fields=["plan"],
                name="tries_called",
            ),
        ),
    ]

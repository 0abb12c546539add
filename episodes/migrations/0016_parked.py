from django.db import migrations, models

STATES = [
    ("queued", "Queued"),
    ("running", "Running"),
    ("waiting", "Waiting"),
    ("parked", "Parked"),
    ("finished", "Finished"),
    ("failed", "Failed"),
    ("cancelled", "Cancelled"),
]


class Migration(migrations.Migration):
    dependencies = [("episodes", "0012_search")]

    operations = [
        migrations.RemoveConstraint(model_name="episode", name="episode_state_known"),
        migrations.AddField(
            model_name="episode",
            name="parked_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AlterField(
            model_name="episode",
            name="state",
            field=models.CharField(choices=STATES, default="running", max_length=10),
        ),
        migrations.AddConstraint(
            model_name="episode",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", [name for name, _ in STATES])), name="episode_state_known"
            ),
        ),
    ]

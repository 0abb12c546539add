"""A reviewer can change their verdict; both rows are kept."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("reviews", "0001_initial")]

    operations = [
        migrations.AddField(
            model_name="verdict",
            name="supersedes",
            field=models.OneToOneField(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="superseded_by",
                to="reviews.verdict",
            ),
        ),
        migrations.RemoveConstraint(model_name="verdict", name="one_verdict_per_reviewer"),
        migrations.AddConstraint(
            model_name="verdict",
            constraint=models.UniqueConstraint(
                condition=models.Q(("is_late", False), ("supersedes__isnull", True)),
                fields=("review", "author_key"),
                name="one_verdict_per_reviewer",
            ),
        ),
    ]

"""Away can have an end."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('experts', '0002_named_handover'),
    ]

    operations = [
        migrations.AddField(
            model_name='presence',
            name='away_until',
            field=models.DateTimeField(blank=True, null=True),
        ),
    ]

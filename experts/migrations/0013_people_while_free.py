"""That people come before the model while they have room becomes a setting of its own, off at first."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('experts', '0012_notices_move_out'),
    ]

    operations = [
        migrations.AddField(
            model_name='desk',
            name='people_while_free',
            field=models.BooleanField(default=False),
        ),
    ]

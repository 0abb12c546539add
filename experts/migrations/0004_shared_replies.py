"""Quick replies can be shared with the project."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('experts', '0003_away_until'),
    ]

    operations = [
        migrations.AddField(
            model_name='quickreply',
            name='author',
            field=models.CharField(blank=True, db_default='', default='', max_length=160),
        ),
        migrations.AddField(
            model_name='quickreply',
            name='shared',
            field=models.BooleanField(db_default=False, default=False),
        ),
    ]

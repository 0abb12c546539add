"""The colleague that an ask was handed to by name."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('experts', '0001_initial'),
    ]

    operations = [
        migrations.AddField(
            model_name='ask',
            name='handed_to',
            field=models.CharField(blank=True, db_default='', default='', max_length=160),
        ),
        migrations.AddField(
            model_name='ask',
            name='handed_to_name',
            field=models.CharField(blank=True, db_default='', default='', max_length=160),
        ),
    ]

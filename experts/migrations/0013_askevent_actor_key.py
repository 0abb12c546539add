from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('experts', '0012_ask_blocker'),
    ]

    operations = [
        migrations.AddField(
            model_name='askevent',
            name='actor_key',
            field=models.CharField(blank=True, db_default='', default='', max_length=160),
        ),
    ]

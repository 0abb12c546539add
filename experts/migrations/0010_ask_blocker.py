from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('experts', '0009_risk_links_second_look'),
    ]

    operations = [
        migrations.AddField(
            model_name='ask',
            name='blocker',
            field=models.CharField(blank=True, db_default='', default='', max_length=60),
        ),
    ]

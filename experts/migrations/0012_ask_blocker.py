from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('experts', '0011_second_look_of_a_model'),
    ]

    operations = [
        migrations.AddField(
            model_name='ask',
            name='blocker',
            field=models.CharField(blank=True, db_default='', default='', max_length=60),
        ),
    ]

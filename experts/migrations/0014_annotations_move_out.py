"""Annotations go to the app `reviews` with their table and rows (its 0001); they keep their ask as a plain id."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('experts', '0013_people_while_free'),
    ]

    operations = [
        migrations.AlterField(
            'annotation', 'ask', models.CharField(blank=True, db_column='ask_id', default='', max_length=40),
        ),
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.AlterModelTable('annotation', 'reviews_annotation')],
            state_operations=[migrations.DeleteModel('annotation')],
        ),
    ]

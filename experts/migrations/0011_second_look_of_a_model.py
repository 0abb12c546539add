from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('experts', '0010_equal_calls'),
    ]

    operations = [
        migrations.AddField(
            model_name='desk',
            name='second_look_model',
            field=models.CharField(blank=True, db_default='', default='', max_length=60),
        ),
        migrations.AddField(
            model_name='advice',
            name='overruled',
            field=models.TextField(blank=True, db_default='', default=''),
        ),
        migrations.AlterField(
            model_name='modelcall',
            name='purpose',
            field=models.CharField(choices=[('answer', 'Answer'), ('draft', 'Draft'), ('criteria', 'Criteria'), ('briefing', 'Briefing'), ('look', 'Second look')], max_length=8),
        ),
    ]

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('experts', '0004_plans_of_earlier_asks'),
    ]

    operations = [
        migrations.AddField(
            model_name='draft',
            name='drafted_by',
            field=models.CharField(blank=True, max_length=160),
        ),
    ]

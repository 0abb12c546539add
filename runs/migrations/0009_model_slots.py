from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('runs', '0008_model_outages'),
    ]

    operations = [
        migrations.CreateModel(
            name='ModelSlots',
            fields=[
                ('address', models.CharField(max_length=2000, primary_key=True, serialize=False)),
                ('slots', models.IntegerField()),
                ('looked_at', models.DateTimeField()),
            ],
        ),
    ]

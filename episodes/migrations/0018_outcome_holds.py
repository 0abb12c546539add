import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('episodes', '0017_worlds_and_certificates'),
    ]

    operations = [
        migrations.CreateModel(
            name='OutcomeHold',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('actor_key', models.CharField(max_length=160)),
                ('by', models.CharField(max_length=40)),
                ('since', models.DateTimeField(auto_now_add=True)),
                ('episode', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='holds', to='episodes.episode')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('actor_key', 'episode', 'by'), name='one_hold_per_review')],
            },
        ),
    ]

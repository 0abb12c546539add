"""All tables of this app as of 0.2.0. Data folders that development versions made have them already (`replaces`)."""

import django.db.models.deletion
import people.models
from django.db import migrations, models
from people.migrations._tables import Tables


class Migration(migrations.Migration):

    initial = True

    replaces = [
        ('imports', '0001_first'),
    ]

    dependencies = [
        ('episodes', '0001_initial'),
        ('people', '0001_initial'),
    ]

    operations = [
        Tables([
            migrations.CreateModel(
                name='Import',
                fields=[
                    ('id', people.models.IdField(default=people.models.new_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                    ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='imports', to='people.project')),
                    ('name', models.CharField(max_length=255)),
                    ('format', models.CharField(blank=True, max_length=20)),
                    ('size', models.BigIntegerField(default=0)),
                    ('behind', models.BigIntegerField(default=0)),
                    ('state', models.CharField(choices=[('queued', 'Queued'), ('reading', 'Reading'), ('done', 'Done'), ('refused', 'Refused'), ('failed', 'Failed')], default='queued', max_length=10)),
                    ('attempt', models.IntegerField(default=0)),
                    ('rows', models.IntegerField(default=0)),
                    ('episodes', models.IntegerField(default=0)),
                    ('known', models.IntegerField(default=0)),
                    ('steps', models.IntegerField(default=0)),
                    ('refused', models.IntegerField(default=0)),
                    ('refusals', people.models.JsonText(blank=True, default=list)),
                    ('lost', people.models.JsonText(blank=True, default=dict)),
                    ('problem', models.TextField(blank=True)),
                    ('requested_by', models.CharField(blank=True, max_length=160)),
                    ('created_at', models.DateTimeField(auto_now_add=True)),
                    ('heartbeat_at', models.DateTimeField(blank=True, null=True)),
                    ('ended_at', models.DateTimeField(blank=True, null=True)),
                ],
                options={
                    'indexes': [models.Index(fields=['project', '-created_at'], name='imports_newest')],
                    'constraints': [models.CheckConstraint(condition=models.Q(('state__in', ['queued', 'reading', 'done', 'refused', 'failed'])), name='import_state_known')],
                },
            ),
            migrations.CreateModel(
                name='Imported',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('of', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='made', to='imports.import')),
                    ('episode', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='imported', to='episodes.episode')),
                    ('place', models.CharField(max_length=255)),
                    ('lost', people.models.JsonText(blank=True, default=dict)),
                ],
            ),
        ]),
    ]

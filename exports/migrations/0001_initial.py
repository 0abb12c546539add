"""All tables of this app as of 0.2.0. Data folders that development versions made have them already (`replaces`)."""

import django.db.models.deletion
import people.models
from django.db import migrations, models
from people.migrations._tables import Tables


class Migration(migrations.Migration):

    initial = True

    replaces = [
        ('exports', '0001_first'),
        ('exports', '0002_pushes'),
        ('exports', '0003_measured_speed'),
    ]

    dependencies = [
        ('people', '0001_initial'),
    ]

    operations = [
        Tables([
            migrations.CreateModel(
                name='Export',
                fields=[
                    ('id', people.models.IdField(default=people.models.new_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                    ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='exports', to='people.project')),
                    ('recipe', models.JSONField()),
                    ('format', models.CharField(max_length=20)),
                    ('dataset', models.CharField(blank=True, max_length=64)),
                    ('state', models.CharField(choices=[('queued', 'Queued'), ('building', 'Building'), ('done', 'Done'), ('failed', 'Failed'), ('cancelled', 'Cancelled')], default='queued', max_length=10)),
                    ('attempt', models.IntegerField(default=0)),
                    ('episodes', models.IntegerField(default=0)),
                    ('episodes_done', models.IntegerField(default=0)),
                    ('rows', models.IntegerField(default=0)),
                    ('manifest', people.models.JsonText(blank=True, null=True)),
                    ('problem', models.TextField(blank=True)),
                    ('requested_by', models.CharField(blank=True, max_length=160)),
                    ('created_at', models.DateTimeField(auto_now_add=True)),
                    ('started_at', models.DateTimeField(blank=True, null=True)),
                    ('heartbeat_at', models.DateTimeField(blank=True, null=True)),
                    ('ended_at', models.DateTimeField(blank=True, null=True)),
                    ('measured_at', models.DateTimeField(blank=True, null=True)),
                    ('measured_episodes', models.IntegerField(default=0)),
                ],
                options={
                    'indexes': [models.Index(fields=['project', '-created_at'], name='exports_newest'), models.Index(fields=['dataset'], name='exports_of_dataset')],
                    'constraints': [models.CheckConstraint(condition=models.Q(('state__in', ['queued', 'building', 'done', 'failed', 'cancelled'])), name='export_state_known')],
                },
            ),
            migrations.CreateModel(
                name='Push',
                fields=[
                    ('id', people.models.IdField(default=people.models.new_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                    ('export', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='pushes', to='exports.export')),
                    ('repo', models.CharField(max_length=200)),
                    ('private', models.BooleanField(default=True)),
                    ('state', models.CharField(choices=[('queued', 'Queued'), ('pushing', 'Pushing'), ('done', 'Done'), ('failed', 'Failed')], default='queued', max_length=10)),
                    ('attempt', models.IntegerField(default=0)),
                    ('bytes_total', models.BigIntegerField(default=0)),
                    ('bytes_done', models.BigIntegerField(default=0)),
                    ('address', models.CharField(blank=True, max_length=500)),
                    ('problem', models.TextField(blank=True)),
                    ('requested_by', models.CharField(blank=True, max_length=160)),
                    ('created_at', models.DateTimeField(auto_now_add=True)),
                    ('heartbeat_at', models.DateTimeField(blank=True, null=True)),
                    ('ended_at', models.DateTimeField(blank=True, null=True)),
                ],
                options={
                    'indexes': [models.Index(fields=['export', '-created_at'], name='pushes_newest')],
                    'constraints': [models.CheckConstraint(condition=models.Q(('state__in', ['queued', 'pushing', 'done', 'failed'])), name='push_state_known'), models.UniqueConstraint(condition=models.Q(('state__in', ('queued', 'pushing'))), fields=('export', 'repo'), name='one_push_at_a_time')],
                },
            ),
        ]),
    ]

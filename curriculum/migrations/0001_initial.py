"""All tables of this app as of 0.2.0. Data folders that development versions made have them already (`replaces`)."""

import django.db.models.deletion
import people.models
from django.db import migrations, models
from people.migrations._tables import Tables


class Migration(migrations.Migration):

    initial = True

    replaces = [
        ('curriculum', '0001_first'),
    ]

    dependencies = [
        ('episodes', '0001_initial'),
    ]

    operations = [
        Tables([
            migrations.CreateModel(
                name='TrainingStep',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('run', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='training_steps', to='episodes.run')),
                    ('training_step', models.IntegerField()),
                    ('losses', people.models.JsonText(blank=True, default=dict)),
                    ('components', people.models.JsonText(blank=True, default=dict)),
                    ('checkpoint', models.CharField(blank=True, max_length=200)),
                    ('rollouts', models.IntegerField()),
                    ('format_errors', models.IntegerField()),
                    ('not_counted', models.IntegerField(default=0)),
                    ('reported_by', models.CharField(blank=True, max_length=160)),
                    ('at', models.DateTimeField(auto_now_add=True)),
                ],
                options={
                    'ordering': ['run', 'training_step'],
                    'constraints': [models.UniqueConstraint(fields=('run', 'training_step'), name='one_report_per_training_step'), models.CheckConstraint(condition=models.Q(('training_step__gte', 1)), name='training_step_from_one')],
                },
            ),
            migrations.CreateModel(
                name='Decision',
                fields=[
                    ('id', people.models.IdField(default=people.models.new_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                    ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='curriculum_decisions', to='episodes.run')),
                    ('kind', models.CharField(choices=[('override', 'Override'), ('pin', 'Pin'), ('skip', 'Skip'), ('freeze', 'Freeze')], max_length=8)),
                    ('subject', models.CharField(max_length=300)),
                    ('reason', models.TextField()),
                    ('after', models.IntegerField()),
                    ('until', models.CharField(choices=[('undone', 'I undo it'), ('step', 'a step ends'), ('agrees', 'the rule agrees')], default='undone', max_length=8)),
                    ('until_step', models.IntegerField(blank=True, null=True)),
                    ('made_by', models.CharField(max_length=160)),
                    ('made_at', models.DateTimeField(auto_now_add=True)),
                    ('undone_by', models.CharField(blank=True, max_length=160)),
                    ('undone_at', models.DateTimeField(blank=True, null=True)),
                    ('undone_after', models.IntegerField(blank=True, null=True)),
                ],
                options={
                    'ordering': ['made_at', 'pk'],
                    'constraints': [models.CheckConstraint(condition=models.Q(('kind__in', ['override', 'pin', 'skip', 'freeze'])), name='decision_kind_known'), models.CheckConstraint(condition=models.Q(('until__in', ['undone', 'step', 'agrees'])), name='decision_until_known')],
                },
            ),
            migrations.CreateModel(
                name='Snapshot',
                fields=[
                    ('id', people.models.IdField(default=people.models.new_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                    ('run', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='snapshots', to='episodes.run')),
                    ('basis', models.CharField(max_length=120)),
                    ('training_step', models.IntegerField()),
                    ('digest', models.CharField(max_length=64)),
                    ('content', people.models.JsonText()),
                    ('made_at', models.DateTimeField(auto_now_add=True)),
                ],
                options={
                    'indexes': [models.Index(fields=['run', '-made_at'], name='snapshots_newest')],
                    'constraints': [models.UniqueConstraint(fields=('run', 'basis'), name='one_snapshot_per_basis')],
                },
            ),
            migrations.CreateModel(
                name='LevelOpened',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('run', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='levels_opened', to='episodes.run')),
                    ('level', models.CharField(max_length=40)),
                    ('training_step', models.IntegerField()),
                    ('at', models.DateTimeField(auto_now_add=True)),
                ],
                options={
                    'constraints': [models.UniqueConstraint(fields=('run', 'level'), name='level_opens_once')],
                },
            ),
        ]),
    ]

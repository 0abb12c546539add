"""All tables of this app as of 0.2.0. Data folders that development versions made have them already (`replaces`)."""

import django.db.models.deletion
import people.models
from django.db import migrations, models
from people.migrations._tables import Tables


class Migration(migrations.Migration):

    initial = True

    replaces = [
        ('runs', '0001_plans'),
        ('runs', '0002_probes'),
        ('runs', '0003_offers_by_draw'),
        ('runs', '0004_briefings'),
        ('runs', '0005_prices_and_servers'),
        ('runs', '0006_begun_tries'),
        ('runs', '0007_probes_health'),
        ('runs', '0008_stored_rewards'),
    ]

    dependencies = [
        ('episodes', '0001_initial'),
        ('people', '0001_initial'),
    ]

    operations = [
        Tables([
            migrations.CreateModel(
                name='Plan',
                fields=[
                    ('run', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='plan', serialize=False, to='episodes.run')),
                    ('document', models.JSONField()),
                    ('digest', models.CharField(max_length=64)),
                    ('control', models.CharField(max_length=200)),
                    ('waves', models.SmallIntegerField(default=1)),
                    ('seeds', models.IntegerField()),
                    ('parallel', models.IntegerField()),
                    ('prices', models.JSONField(default=dict)),
                    ('server', models.JSONField(default=dict)),
                    ('state', models.CharField(choices=[('planned', 'Planned'), ('running', 'Running'), ('paused', 'Paused'), ('finished', 'Finished'), ('cancelled', 'Cancelled')], default='planned', max_length=10)),
                    ('changed_by', models.CharField(blank=True, max_length=160)),
                    ('changed_at', models.DateTimeField(blank=True, null=True)),
                    ('started_at', models.DateTimeField(blank=True, null=True)),
                    ('ended_at', models.DateTimeField(blank=True, null=True)),
                    ('paid_at', models.DateTimeField(blank=True, null=True)),
                ],
                options={
                    'constraints': [models.CheckConstraint(condition=models.Q(('state__in', ['planned', 'running', 'paused', 'finished', 'cancelled'])), name='plan_state_known')],
                },
            ),
            migrations.CreateModel(
                name='Arm',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('plan', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='arms', to='runs.plan')),
                    ('name', models.CharField(max_length=200)),
                    ('place', models.SmallIntegerField()),
                    ('expert', models.CharField(choices=[('off', 'Off'), ('plain', 'Plain'), ('informed', 'Informed')], default='off', max_length=8)),
                    ('policy', models.CharField(max_length=200)),
                ],
                options={
                    'ordering': ['place'],
                    'constraints': [models.UniqueConstraint(fields=('plan', 'name'), name='arm_name_once')],
                },
            ),
            migrations.CreateModel(
                name='Briefing',
                fields=[
                    ('id', people.models.IdField(default=people.models.new_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                    ('project', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='briefings', to='people.project')),
                    ('scenario', models.CharField(max_length=200)),
                    ('task_idx', models.IntegerField()),
                    ('run', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='briefings', to='episodes.run')),
                    ('arm', models.CharField(blank=True, max_length=200)),
                    ('text', models.TextField(blank=True)),
                    ('reason', models.TextField(blank=True)),
                    ('source', models.CharField(choices=[('human', 'Human'), ('llm', 'Model')], max_length=5)),
                    ('author', models.CharField(max_length=160)),
                    ('privilege', models.CharField(max_length=13)),
                    ('sources', models.JSONField(default=list)),
                    ('at', models.DateTimeField(auto_now_add=True)),
                ],
                options={
                    'indexes': [models.Index(fields=['project', 'scenario', 'task_idx', '-at'], name='briefings_of_task')],
                    'constraints': [models.UniqueConstraint(condition=models.Q(('run__isnull', False)), fields=('run', 'arm', 'scenario', 'task_idx'), name='distilled_once'), models.CheckConstraint(condition=models.Q(('source__in', ['human', 'llm'])), name='briefing_source_known'), models.CheckConstraint(condition=models.Q(('privilege__in', ['blind', 'sees_verifier'])), name='briefing_privilege_known'), models.CheckConstraint(condition=models.Q(models.Q(('text', ''), _negated=True), models.Q(('reason', ''), _negated=True), _connector='OR'), name='briefing_or_reason')],
                },
            ),
            migrations.CreateModel(
                name='PlannedTry',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('plan', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='tries', to='runs.plan')),
                    ('arm', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='runs.arm')),
                    ('scenario', models.CharField(max_length=200)),
                    ('task_idx', models.IntegerField()),
                    ('seed', models.IntegerField()),
                    ('wave', models.SmallIntegerField(default=0)),
                    ('position', models.IntegerField()),
                    ('episode', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='planned', to='episodes.episode')),
                    ('tries', models.SmallIntegerField(default=1)),
                    ('called_at', models.DateTimeField(blank=True, null=True)),
                    ('begun_at', models.DateTimeField(blank=True, null=True)),
                    ('offered', models.BooleanField(blank=True, null=True)),
                    ('chance', models.FloatField(blank=True, null=True)),
                    ('briefing', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='runs.briefing')),
                ],
                options={
                    'indexes': [models.Index(fields=['plan', 'wave', 'position'], name='tries_in_order'), models.Index(condition=models.Q(('called_at', None)), fields=['plan', 'wave', 'position'], name='tries_uncalled'), models.Index(condition=models.Q(('begun_at', None), ('called_at__isnull', False)), fields=['plan'], name='tries_called')],
                    'constraints': [models.UniqueConstraint(fields=('plan', 'arm', 'scenario', 'task_idx', 'seed'), name='planned_once'), models.CheckConstraint(condition=models.Q(models.Q(('chance', None), ('offered', None)), models.Q(('chance__gte', 0.1), ('chance__isnull', False), ('chance__lte', 0.9), ('offered__isnull', False)), _connector='OR'), name='offer_has_its_chance')],
                },
            ),
            migrations.CreateModel(
                name='Probe',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('scenario', models.CharField(max_length=200)),
                    ('task_idx', models.IntegerField()),
                    ('verifier', models.CharField(blank=True, max_length=64)),
                    ('server', models.CharField(blank=True, max_length=60)),
                    ('state', models.CharField(choices=[('clean', 'Clean'), ('trivial', 'Passes without work'), ('answer_only', 'Passes on an answer alone'), ('unverifiable', 'Verifier does not run'), ('error', 'Could not be probed')], max_length=12)),
                    ('attempts', models.JSONField(default=dict)),
                    ('health', people.models.JsonText(blank=True, default=dict)),
                    ('reason', models.TextField(blank=True)),
                    ('at', models.DateTimeField(auto_now_add=True)),
                ],
                options={
                    'indexes': [models.Index(fields=['scenario', 'task_idx', '-at'], name='probes_of_task')],
                    'constraints': [models.CheckConstraint(condition=models.Q(('state__in', ['clean', 'trivial', 'answer_only', 'unverifiable', 'error'])), name='probe_state_known')],
                },
            ),
            migrations.CreateModel(
                name='ShapedReward',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('episode', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='episodes.episode')),
                    ('profile', models.CharField(max_length=40)),
                    ('reference', models.FloatField(null=True)),
                    ('total', models.FloatField(null=True)),
                    ('pattern', models.CharField(blank=True, max_length=40)),
                    ('flags', models.JSONField(default=list)),
                    ('components', models.JSONField(default=dict)),
                    ('at', models.DateTimeField(auto_now_add=True)),
                ],
                options={
                    'constraints': [models.UniqueConstraint(fields=('episode', 'profile', 'reference'), name='paid_once_by_reference', nulls_distinct=False)],
                },
            ),
        ]),
    ]

"""All tables of this app as of 0.2.0. Data folders that development versions made have them already (`replaces`)."""

import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.contrib.postgres.search
import django.db.models.deletion
import people.models
from django.db import migrations, models
from people.migrations._tables import Tables

# A list asks for this on connections that live long, so its plan must be good whatever the word: PostgreSQL keeps one plan
# for all of them after five calls. OFFSET keeps other indexes out of it. Those of episodes would read the words of
# thousands; that of all steps has millions of entries for a frequent word, where the few episodes with steps that were not
# joined yet can be asked one after the other. Parallel plans, for which an embedded server has no workers, would only
# pass rows on once more.
FOUND = """
CREATE FUNCTION episodes_with_words(wanted text, query text, first text) RETURNS SETOF text
LANGUAGE sql STABLE ROWS 5000 SET enable_seqscan = off SET max_parallel_workers_per_gather = 0 AS $$
SELECT episode_id FROM (SELECT episode_id FROM episodes_episodewords
                         WHERE words @@ plainto_tsquery('simple', wanted) OFFSET 0) joined
 WHERE episode_id >= first
 UNION ALL
SELECT episode_id FROM episodes_episodefacts facts
 WHERE joined_seq < read_seq AND episode_id >= first AND EXISTS (
       SELECT FROM (SELECT words FROM episodes_stepwords
                     WHERE episode_id = facts.episode_id AND seq > facts.joined_seq OFFSET 0) late
        WHERE words @@ websearch_to_tsquery('simple', query))
$$
"""
DROP = "DROP FUNCTION episodes_with_words(text, text, text)"


class Migration(migrations.Migration):

    initial = True

    replaces = [
        ('episodes', '0001_first'),
        ('episodes', '0002_step_cut_form'),
        ('episodes', '0003_verifier_health'),
        ('episodes', '0004_steps_found_by_their_pair'),
        ('episodes', '0005_partial_scenario'),
        ('episodes', '0006_run_expert'),
        ('episodes', '0007_origin'),
        ('episodes', '0008_origin_of_earlier_episodes'),
        ('episodes', '0009_run_key_and_newest'),
        ('episodes', '0010_attempts'),
        ('episodes', '0011_attested_outcomes'),
        ('episodes', '0012_search'),
        ('episodes', '0016_parked'),
        ('episodes', '0017_worlds_and_certificates'),
        ('episodes', '0018_outcome_holds'),
        ('episodes', '0019_certificate_database'),
        ('episodes', '0020_briefings'),
        ('episodes', '0021_episodes_queued_again'),
        ('episodes', '0022_episode_words'),
        ('episodes', '0023_words_not_joined'),
    ]

    dependencies = [
        ('people', '0001_initial'),
    ]

    operations = [
        Tables([
            migrations.CreateModel(
                name='Run',
                fields=[
                    ('id', people.models.IdField(default=people.models.new_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                    ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='runs', to='people.project')),
                    ('key', models.CharField(blank=True, max_length=200)),
                    ('name', models.CharField(max_length=200)),
                    ('arm', models.CharField(blank=True, max_length=200)),
                    ('policy', people.models.JsonText(blank=True, default=dict)),
                    ('metadata', people.models.JsonText(blank=True, default=dict)),
                    ('expert', models.CharField(choices=[('off', 'Off'), ('plain', 'Plain'), ('informed', 'Informed')], default='plain', max_length=8)),
                    ('created_by', models.CharField(blank=True, max_length=160)),
                    ('created_at', models.DateTimeField(auto_now_add=True)),
                ],
                options={
                    'indexes': [models.Index(fields=['project', '-created_at'], name='runs_newest')],
                    'constraints': [models.CheckConstraint(condition=models.Q(('expert__in', ['off', 'plain', 'informed'])), name='run_expert_known'), models.UniqueConstraint(condition=models.Q(('key', ''), _negated=True), fields=('project', 'key'), name='run_key_once')],
                },
            ),
            migrations.CreateModel(
                name='Episode',
                fields=[
                    ('id', people.models.IdField(default=people.models.new_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                    ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='episodes', to='people.project')),
                    ('key', models.CharField(max_length=200)),
                    ('body_digest', models.CharField(max_length=64)),
                    ('run', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='episodes', to='episodes.run')),
                    ('task', models.TextField()),
                    ('scenario', models.CharField(blank=True, max_length=200)),
                    ('task_idx', models.IntegerField(blank=True, null=True)),
                    ('environment', models.CharField(default='awm', max_length=200)),
                    ('tools', people.models.JsonText(blank=True, default=list)),
                    ('partial', people.models.JsonText(blank=True, default=dict)),
                    ('arm', models.CharField(blank=True, max_length=200)),
                    ('seed', models.BigIntegerField(blank=True, null=True)),
                    ('split', models.CharField(blank=True, max_length=200)),
                    ('policy', people.models.JsonText(blank=True, default=dict)),
                    ('origin', models.CharField(choices=[('builtin', 'Built-in'), ('external', 'External'), ('import', 'Imported'), ('branch', 'Branch')], default='external', max_length=8)),
                    ('policy_kind', models.CharField(blank=True, max_length=40)),
                    ('policy_name', models.CharField(blank=True, max_length=200)),
                    ('training_step', models.IntegerField(blank=True, null=True)),
                    ('checkpoint', models.CharField(blank=True, max_length=200)),
                    ('group_key', models.CharField(blank=True, max_length=200)),
                    ('expert', models.CharField(choices=[('off', 'Off'), ('plain', 'Plain'), ('informed', 'Informed')], default='off', max_length=8)),
                    ('max_steps', models.IntegerField(blank=True, null=True)),
                    ('state', models.CharField(choices=[('queued', 'Queued'), ('running', 'Running'), ('waiting', 'Waiting'), ('parked', 'Parked'), ('finished', 'Finished'), ('failed', 'Failed'), ('cancelled', 'Cancelled')], default='running', max_length=10)),
                    ('stop_reason', models.CharField(blank=True, max_length=12)),
                    ('fault', models.CharField(blank=True, max_length=12)),
                    ('fault_detail', models.TextField(blank=True)),
                    ('final_answer', people.models.JsonText(blank=True, null=True)),
                    ('last_seq', models.IntegerField(default=0)),
                    ('strip', models.TextField(blank=True, default='')),
                    ('started_by', models.CharField(blank=True, max_length=160)),
                    ('token', models.CharField(blank=True, max_length=40)),
                    ('worker', models.CharField(blank=True, max_length=200)),
                    ('attempt', models.IntegerField(default=0)),
                    ('attempt_seq', models.IntegerField(default=0)),
                    ('idle_attempts', models.SmallIntegerField(default=0)),
                    ('parked_at', models.DateTimeField(blank=True, null=True)),
                    ('world', people.models.JsonText(blank=True, default=dict)),
                    ('created_at', models.DateTimeField(auto_now_add=True)),
                    ('started_at', models.DateTimeField(blank=True, null=True)),
                    ('heartbeat_at', models.DateTimeField(blank=True, null=True)),
                    ('ended_at', models.DateTimeField(blank=True, null=True)),
                ],
                options={
                    'indexes': [models.Index(fields=['project', '-created_at', '-id'], name='episodes_newest'), models.Index(fields=['project', 'state', '-created_at'], name='episodes_by_state'), models.Index(fields=['state', 'heartbeat_at'], name='episodes_by_heartbeat'), models.Index(fields=['token', '-created_at'], name='episodes_by_token'), models.Index(fields=['created_at'], name='episodes_by_creation'), models.Index(condition=models.Q(('attempt__gt', 0), ('state', 'queued')), fields=['run'], name='episodes_queued_again')],
                    'constraints': [models.UniqueConstraint(fields=('project', 'key'), name='episode_key_unique'), models.CheckConstraint(condition=models.Q(('state__in', ['queued', 'running', 'waiting', 'parked', 'finished', 'failed', 'cancelled'])), name='episode_state_known'), models.CheckConstraint(condition=models.Q(('expert__in', ['off', 'plain', 'informed'])), name='episode_expert_known'), models.CheckConstraint(condition=models.Q(('origin__in', ['builtin', 'external', 'import', 'branch'])), name='episode_origin_known')],
                },
            ),
            migrations.CreateModel(
                name='Step',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('episode', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='steps', to='episodes.episode')),
                    ('seq', models.IntegerField()),
                    ('kind', models.CharField(choices=[('message', 'Message'), ('tool_call', 'Tool call'), ('action', 'Action'), ('briefing', 'Briefing'), ('ask', 'Ask'), ('nudge', 'Nudge'), ('note', 'Note'), ('verification', 'Verification')], max_length=12)),
                    ('body', models.TextField()),
                    ('cut', models.TextField(null=True)),
                    ('at', models.DateTimeField()),
                ],
                options={
                    'ordering': [models.F('episode'), models.F('seq')],
                    'constraints': [models.UniqueConstraint(fields=('episode', 'seq'), name='step_seq_unique'), models.CheckConstraint(condition=models.Q(('kind__in', ['message', 'tool_call', 'action', 'briefing', 'ask', 'nudge', 'note', 'verification'])), name='step_kind_known'), models.CheckConstraint(condition=models.Q(('seq__gte', 1)), name='step_seq_from_one')],
                },
            ),
            migrations.CreateModel(
                name='VerifierOutcome',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('episode', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='outcomes', to='episodes.episode')),
                    ('source', models.CharField(choices=[('verifier', 'Verifier'), ('attested', 'Attested'), ('reported', 'Reported')], max_length=8)),
                    ('reward_type', models.CharField(max_length=200)),
                    ('reward', models.FloatField(blank=True, null=True)),
                    ('details', people.models.JsonText(blank=True, default=dict)),
                    ('state_diff', people.models.JsonText(blank=True, default=dict)),
                    ('tier', models.CharField(blank=True, max_length=40)),
                    ('health', people.models.JsonText(blank=True, default=dict)),
                    ('partial', people.models.JsonText(blank=True, default=dict)),
                    ('session', models.CharField(blank=True, max_length=64, null=True, unique=True)),
                    ('at', models.DateTimeField(auto_now_add=True)),
                ],
                options={
                    'constraints': [models.UniqueConstraint(fields=('episode', 'source'), name='one_outcome_per_source'), models.CheckConstraint(condition=models.Q(('source__in', ['verifier', 'attested', 'reported'])), name='outcome_source_known')],
                },
            ),
            migrations.CreateModel(
                name='OutcomeHold',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('episode', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='holds', to='episodes.episode')),
                    ('actor_key', models.CharField(max_length=160)),
                    ('by', models.CharField(max_length=40)),
                    ('since', models.DateTimeField(auto_now_add=True)),
                ],
                options={
                    'constraints': [models.UniqueConstraint(fields=('actor_key', 'episode', 'by'), name='one_hold_per_review')],
                },
            ),
            migrations.CreateModel(
                name='EpisodeEvent',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('episode', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='events', to='episodes.episode')),
                    ('at', models.DateTimeField(auto_now_add=True)),
                    ('verb', models.CharField(max_length=30)),
                    ('actor', models.CharField(blank=True, max_length=160)),
                    ('reason', models.TextField(blank=True)),
                ],
            ),
            migrations.CreateModel(
                name='Certificate',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('episode', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='certificates', to='episodes.episode')),
                    ('scenario', models.CharField(max_length=200)),
                    ('task_idx', models.IntegerField(null=True)),
                    ('source', models.CharField(choices=[('episode', 'Episode'), ('oracle', 'Oracle')], max_length=8)),
                    ('grade', models.CharField(choices=[('exact', 'Exact'), ('content', 'Same rows'), ('database', 'Put back'), ('refused', 'Differs')], max_length=8)),
                    ('calls', models.IntegerField()),
                    ('checked', models.IntegerField()),
                    ('difference', models.TextField(blank=True)),
                    ('differs_at', models.IntegerField(null=True)),
                    ('at', models.DateTimeField(auto_now_add=True)),
                ],
                options={
                    'indexes': [models.Index(fields=['scenario', 'task_idx', '-at'], name='certificates_of_task')],
                    'constraints': [models.CheckConstraint(condition=models.Q(('grade__in', ['exact', 'content', 'database', 'refused'])), name='certificate_grade_known')],
                },
            ),
            migrations.CreateModel(
                name='EpisodeFacts',
                fields=[
                    ('episode', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='facts', serialize=False, to='episodes.episode')),
                    ('read_seq', models.IntegerField(default=0)),
                    ('joined_seq', models.IntegerField(default=0)),
                    ('done', models.BooleanField(default=False)),
                    ('errors', models.IntegerField(default=0)),
                    ('asks', models.IntegerField(default=0)),
                    ('tools', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=200), blank=True, default=list, size=None)),
                    ('answered', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=20), blank=True, default=list, size=None)),
                    ('waiting', django.contrib.postgres.fields.ArrayField(base_field=models.IntegerField(), blank=True, default=list, size=None)),
                ],
                options={
                    'indexes': [models.Index(condition=models.Q(('done', False)), fields=['done'], name='facts_to_read'), models.Index(condition=models.Q(('joined_seq__lt', models.F('read_seq'))), fields=['episode'], name='facts_to_join'), django.contrib.postgres.indexes.GinIndex(fields=['tools'], name='facts_by_tool')],
                },
            ),
            migrations.CreateModel(
                name='StepWords',
                fields=[
                    ('step', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='words', serialize=False, to='episodes.step')),
                    ('episode', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='episodes.episode')),
                    ('seq', models.IntegerField()),
                    ('words', django.contrib.postgres.search.SearchVectorField()),
                ],
                options={
                    'indexes': [django.contrib.postgres.indexes.GinIndex(fields=['words'], name='words_of_steps'), models.Index(fields=['episode', 'seq'], name='words_by_episode')],
                },
            ),
            migrations.CreateModel(
                name='EpisodeWords',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('episode', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='episodes.episode')),
                    ('words', django.contrib.postgres.search.SearchVectorField()),
                ],
                options={
                    'indexes': [django.contrib.postgres.indexes.GinIndex(fields=['words'], name='words_of_episodes')],
                },
            ),
            migrations.CreateModel(
                name='SearchMark',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('read_until', models.DateTimeField()),
                    ('swept_at', models.DateTimeField()),
                ],
            ),
            migrations.CreateModel(
                name='SavedView',
                fields=[
                    ('id', people.models.IdField(default=people.models.new_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                    ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='episode_views', to='people.project')),
                    ('author_key', models.CharField(max_length=60)),
                    ('author', models.CharField(max_length=160)),
                    ('name', models.CharField(max_length=60)),
                    ('query', models.TextField()),
                    ('shared', models.BooleanField(default=False)),
                ],
                options={
                    'constraints': [models.UniqueConstraint(fields=('project', 'author_key', 'name'), name='one_episode_view_per_name')],
                },
            ),
            migrations.CreateModel(
                name='Split',
                fields=[
                    ('id', people.models.IdField(default=people.models.new_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                    ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='splits', to='people.project')),
                    ('name', models.CharField(max_length=200)),
                    ('unit', models.CharField(choices=[('scenario', 'Scenario'), ('task', 'Task'), ('instance', 'Instance')], max_length=8)),
                    ('seed', models.BigIntegerField()),
                    ('digest', models.CharField(max_length=64)),
                    ('about', models.JSONField(blank=True, default=dict)),
                    ('created_by', models.CharField(blank=True, max_length=160)),
                    ('created_at', models.DateTimeField(auto_now_add=True)),
                ],
                options={
                    'constraints': [models.UniqueConstraint(fields=('project', 'name'), name='one_split_per_name')],
                },
            ),
            migrations.CreateModel(
                name='SplitTask',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('split', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='tasks', to='episodes.split')),
                    ('task', models.CharField(max_length=300)),
                    ('side', models.CharField(choices=[('train', 'Train'), ('val', 'Held out')], max_length=5)),
                ],
                options={
                    'indexes': [models.Index(fields=['task'], name='splits_of_task')],
                    'constraints': [models.UniqueConstraint(fields=('split', 'task'), name='one_side_per_task')],
                },
            ),
        ]),
        migrations.RunSQL(FOUND, DROP),
    ]

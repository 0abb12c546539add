"""All tables of this app as of 0.2.0. Data folders that development versions made have them already (`replaces`)."""

import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.db.models.deletion
import django.db.models.functions.text
import django.utils.timezone
import people.models
from django.db import migrations, models
from people.migrations._tables import Tables


class Migration(migrations.Migration):

    initial = True

    replaces = [
        ('experts', '0001_first'),
        ('experts', '0002_late_advice_may_be_sent_again'),
        ('experts', '0003_desk'),
        ('experts', '0004_plans_of_earlier_asks'),
        ('experts', '0005_drafts_that_began_with_a_model'),
        ('experts', '0006_quick_replies'),
        ('experts', '0007_notices'),
        ('experts', '0008_newest_asks'),
        ('experts', '0009_earlier_answers'),
        ('experts', '0010_marks_of_earlier_asks'),
        ('experts', '0011_queue_views'),
        ('experts', '0012_notices_move_out'),
        ('experts', '0013_people_while_free'),
        ('experts', '0014_annotations_move_out'),
        ('experts', '0015_briefing_calls'),
        ('experts', '0016_tokens_by_kind'),
    ]

    dependencies = [
        ('episodes', '0001_initial'),
        ('people', '0001_initial'),
    ]

    operations = [
        Tables([
            migrations.CreateModel(
                name='Ask',
                fields=[
                    ('id', people.models.IdField(default=people.models.new_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                    ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='asks', to='people.project')),
                    ('episode', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='asks', to='episodes.episode')),
                    ('key', models.CharField(max_length=200)),
                    ('body_digest', models.CharField(max_length=64)),
                    ('seq', models.IntegerField()),
                    ('question', people.models.JsonText()),
                    ('context', people.models.JsonText(blank=True, null=True)),
                    ('status', models.CharField(choices=[('open', 'Open'), ('answered', 'Answered'), ('fell_back', 'Fell back'), ('cancelled', 'Cancelled')], default='open', max_length=10)),
                    ('reason', models.CharField(blank=True, max_length=40)),
                    ('privilege', models.CharField(choices=[('blind', 'Blind'), ('sees_verifier', 'Sees verifier')], default='blind', max_length=14)),
                    ('priority', models.IntegerField(default=0)),
                    ('skills', people.models.JsonText(blank=True, default=list)),
                    ('group_key', models.CharField(blank=True, max_length=200)),
                    ('group', models.CharField(blank=True, max_length=40)),
                    ('marks', django.contrib.postgres.fields.ArrayField(base_field=models.IntegerField(), blank=True, default=list, size=None)),
                    ('tiers', models.JSONField(default=list)),
                    ('tier', models.CharField(choices=[('cache', 'Cache'), ('llm', 'Model'), ('people', 'People'), ('senior', 'Senior')], default='people', max_length=6)),
                    ('tier_reason', models.CharField(blank=True, max_length=40)),
                    ('chance', models.FloatField(default=1.0)),
                    ('expected_wait_s', models.FloatField(blank=True, null=True)),
                    ('draft_at', models.DateTimeField(blank=True, null=True)),
                    ('draft_hint', models.TextField(blank=True)),
                    ('deadline_at', models.DateTimeField()),
                    ('human_deadline_at', models.DateTimeField(blank=True, null=True)),
                    ('created_at', models.DateTimeField(auto_now_add=True)),
                    ('closed_at', models.DateTimeField(blank=True, null=True)),
                    ('delivered_at', models.DateTimeField(blank=True, null=True)),
                    ('consumed_at', models.DateTimeField(blank=True, null=True)),
                    ('accepted', models.OneToOneField(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='experts.advice')),
                ],
                options={
                    'indexes': [models.Index(fields=['project', 'status', 'deadline_at'], name='asks_in_turn'), models.Index(fields=['project', '-created_at'], name='asks_newest'), models.Index(fields=['status', 'deadline_at'], name='asks_due'), models.Index(condition=models.Q(('status', 'open')), fields=['tier', 'created_at'], name='asks_of_tier'), models.Index(condition=models.Q(('status', 'open')), fields=['draft_at'], name='asks_wanting_draft'), django.contrib.postgres.indexes.GinIndex(condition=models.Q(('status', 'answered')), fields=['marks'], name='asks_alike')],
                    'constraints': [models.UniqueConstraint(fields=('episode', 'key'), name='ask_key_unique'), models.UniqueConstraint(fields=('episode', 'seq'), name='ask_seq_unique'), models.CheckConstraint(condition=models.Q(('status__in', ['open', 'answered', 'fell_back', 'cancelled'])), name='ask_status_known'), models.CheckConstraint(condition=models.Q(('privilege__in', ['blind', 'sees_verifier'])), name='ask_privilege_known'), models.CheckConstraint(condition=models.Q(('tier__in', ['cache', 'llm', 'people', 'senior'])), name='ask_tier_known'), models.CheckConstraint(condition=models.Q(models.Q(('status__in', ['answered', 'fell_back']), _negated=True), ('accepted__isnull', False), _connector='OR'), name='closed_ask_has_advice')],
                },
            ),
            migrations.CreateModel(
                name='Assignment',
                fields=[
                    ('state', models.CharField(choices=[('queued', 'Queued'), ('claimed', 'Claimed'), ('submitted', 'Submitted'), ('void', 'Void')], default='queued', max_length=10)),
                    ('holder', models.CharField(blank=True, max_length=160)),
                    ('holder_name', models.CharField(blank=True, max_length=160)),
                    ('lease_token', models.CharField(blank=True, max_length=64)),
                    ('lease_until', models.DateTimeField(blank=True, null=True)),
                    ('claimed_at', models.DateTimeField(blank=True, null=True)),
                    ('id', people.models.IdField(default=people.models.new_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                    ('ask', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='assignment', to='experts.ask')),
                ],
                options={
                    'indexes': [models.Index(condition=models.Q(('state', 'claimed')), fields=['holder'], name='assignments_held')],
                    'constraints': [models.CheckConstraint(condition=models.Q(('state__in', ['queued', 'claimed', 'submitted', 'void'])), name='assignment_state_known')],
                },
            ),
            migrations.CreateModel(
                name='Advice',
                fields=[
                    ('id', people.models.IdField(default=people.models.new_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                    ('ask', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='advice', to='experts.ask')),
                    ('text', people.models.JsonText()),
                    ('tool_calls', people.models.JsonText(blank=True, null=True)),
                    ('source', models.CharField(choices=[('human', 'Human'), ('llm', 'Model'), ('cache', 'Cache'), ('fallback', 'Fallback')], max_length=8)),
                    ('author', models.CharField(blank=True, max_length=160)),
                    ('author_key', models.CharField(blank=True, max_length=160)),
                    ('privilege', models.CharField(choices=[('blind', 'Blind'), ('sees_verifier', 'Sees verifier')], default='blind', max_length=14)),
                    ('nonce', models.CharField(blank=True, max_length=200)),
                    ('late', models.BooleanField(default=False)),
                    ('reason', models.CharField(blank=True, max_length=40)),
                    ('confidence', models.FloatField(blank=True, null=True)),
                    ('supersedes', models.OneToOneField(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='amended_by', to='experts.advice')),
                    ('drafted_by', models.CharField(blank=True, max_length=160)),
                    ('draft_kept', models.FloatField(blank=True, null=True)),
                    ('taken_from', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='taken_up_by', to='experts.advice')),
                    ('taken_kept', models.FloatField(blank=True, null=True)),
                    ('took_s', models.FloatField(blank=True, null=True)),
                    ('created_at', models.DateTimeField(auto_now_add=True)),
                ],
                options={
                    'constraints': [models.UniqueConstraint(condition=models.Q(('nonce', ''), _negated=True), fields=('ask', 'author_key', 'nonce', 'late'), name='one_advice_per_nonce'), models.CheckConstraint(condition=models.Q(models.Q(('source', 'fallback'), _negated=True), ('text', ''), _connector='OR'), name='fallback_has_no_text')],
                },
            ),
            migrations.CreateModel(
                name='Draft',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('ask', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='drafts', to='experts.ask')),
                    ('author', models.CharField(max_length=160)),
                    ('author_key', models.CharField(max_length=160)),
                    ('text', people.models.JsonText(blank=True, null=True)),
                    ('tool_calls', people.models.JsonText(blank=True, null=True)),
                    ('confidence', models.FloatField(blank=True, null=True)),
                    ('privilege', models.CharField(choices=[('blind', 'Blind'), ('sees_verifier', 'Sees verifier')], default='blind', max_length=14)),
                    ('failed', models.BooleanField(default=False)),
                    ('drafted_by', models.CharField(blank=True, max_length=160)),
                    ('version', models.IntegerField(default=1)),
                    ('saved_at', models.DateTimeField(default=django.utils.timezone.now)),
                ],
                options={
                    'constraints': [models.UniqueConstraint(fields=('ask', 'author_key'), name='one_draft_per_author')],
                },
            ),
            migrations.CreateModel(
                name='Decline',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('ask', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='declines', to='experts.ask')),
                    ('author_key', models.CharField(max_length=160)),
                    ('author', models.CharField(max_length=160)),
                    ('reason', models.TextField(blank=True)),
                    ('at', models.DateTimeField(auto_now_add=True)),
                ],
                options={
                    'constraints': [models.UniqueConstraint(fields=('ask', 'author_key'), name='one_decline_per_expert')],
                },
            ),
            migrations.CreateModel(
                name='AskEvent',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('ask', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='events', to='experts.ask')),
                    ('at', models.DateTimeField(auto_now_add=True)),
                    ('verb', models.CharField(max_length=30)),
                    ('actor', models.CharField(blank=True, max_length=160)),
                    ('reason', models.TextField(blank=True)),
                ],
            ),
            migrations.CreateModel(
                name='QuickReply',
                fields=[
                    ('id', people.models.IdField(default=people.models.new_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                    ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='quick_replies', to='people.project')),
                    ('author_key', models.CharField(max_length=160)),
                    ('text', people.models.JsonText()),
                    ('created_at', models.DateTimeField(auto_now_add=True)),
                ],
                options={
                    'constraints': [models.UniqueConstraint(models.F('project'), models.F('author_key'), django.db.models.functions.text.MD5('text'), name='one_quick_reply_per_text')],
                },
            ),
            migrations.CreateModel(
                name='QueueView',
                fields=[
                    ('id', people.models.IdField(default=people.models.new_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                    ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='queue_views', to='people.project')),
                    ('author_key', models.CharField(max_length=160)),
                    ('author', models.CharField(max_length=160)),
                    ('name', models.CharField(max_length=60)),
                    ('query', models.TextField()),
                    ('shared', models.BooleanField(default=False)),
                    ('created_at', models.DateTimeField(auto_now_add=True)),
                ],
                options={
                    'constraints': [models.UniqueConstraint(fields=('project', 'author_key', 'name'), name='one_queue_view_per_name')],
                },
            ),
            migrations.CreateModel(
                name='Desk',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('project', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='desk', to='people.project')),
                    ('model_first', models.BooleanField(default=False)),
                    ('people_while_free', models.BooleanField(default=False)),
                    ('cache', models.CharField(choices=[('off', 'Off'), ('models', "Models' answers"), ('all', 'All answers')], default='off', max_length=6)),
                    ('audit_share', models.FloatField(default=0.05)),
                    ('low_confidence', models.FloatField(default=0.4)),
                    ('large_group', models.IntegerField(default=4)),
                    ('seed', models.IntegerField(default=1)),
                    ('per_hour', models.IntegerField(blank=True, null=True)),
                    ('per_training_step', models.IntegerField(blank=True, null=True)),
                    ('wait_limit_s', models.IntegerField(blank=True, null=True)),
                    ('capacity', models.IntegerField(default=3)),
                    ('senior', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='senior_of', to='people.membership')),
                    ('model_tokens_per_hour', models.IntegerField(blank=True, null=True)),
                ],
                options={
                    'constraints': [models.CheckConstraint(condition=models.Q(('audit_share__gte', 0), ('audit_share__lte', 1), ('low_confidence__gte', 0), ('low_confidence__lte', 1)), name='shares_from_0_to_1'), models.CheckConstraint(condition=models.Q(('capacity__gte', 1)), name='desk_can_work')],
                },
            ),
            migrations.CreateModel(
                name='Presence',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='presence', to='people.project')),
                    ('actor_key', models.CharField(max_length=160)),
                    ('name', models.CharField(max_length=160)),
                    ('skills', models.JSONField(default=list)),
                    ('away', models.BooleanField(default=False)),
                    ('seen_at', models.DateTimeField()),
                ],
                options={
                    'constraints': [models.UniqueConstraint(fields=('project', 'actor_key'), name='one_presence_per_expert')],
                },
            ),
            migrations.CreateModel(
                name='ModelCall',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='model_calls', to='people.project')),
                    ('ask', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='model_calls', to='experts.ask')),
                    ('model_key', models.CharField(max_length=160)),
                    ('purpose', models.CharField(choices=[('answer', 'Answer'), ('draft', 'Draft'), ('criteria', 'Criteria'), ('briefing', 'Briefing')], max_length=8)),
                    ('fault', models.TextField(blank=True)),
                    ('tokens', models.IntegerField(default=0)),
                    ('prompt_tokens', models.IntegerField(null=True)),
                    ('completion_tokens', models.IntegerField(null=True)),
                    ('cached_tokens', models.IntegerField(null=True)),
                    ('duration_s', models.FloatField()),
                    ('at', models.DateTimeField(auto_now_add=True)),
                ],
                options={
                    'indexes': [models.Index(fields=['project', '-at'], name='model_calls_newest')],
                },
            ),
        ]),
    ]

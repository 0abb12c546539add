"""All tables of this app as of 0.2.0. Data folders that development versions made have them already (`replaces`)."""

import django.db.models.deletion
import people.models
from django.conf import settings
from django.db import migrations, models
from people.migrations._tables import Tables


class Migration(migrations.Migration):

    initial = True

    replaces = [
        ('reviews', '0001_annotations'),
        ('reviews', '0002_reviewing'),
        ('reviews', '0003_mention'),
        ('reviews', '0004_blind_from_the_start'),
        ('reviews', '0005_correction_withdrawn'),
    ]

    dependencies = [
        ('auth', '__first__'),
        ('episodes', '0001_initial'),
        ('people', '0001_initial'),
    ]

    operations = [
        Tables([
            migrations.CreateModel(
                name='LabelSchema',
                fields=[
                    ('id', people.models.IdField(default=people.models.new_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                    ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='label_schemas', to='people.project')),
                    ('name', models.CharField(max_length=60)),
                    ('version', models.IntegerField()),
                    ('title', models.CharField(max_length=120)),
                    ('kind', models.CharField(choices=[('single', 'One of several'), ('multi', 'Any of several'), ('score', 'Score'), ('text', 'Text')], max_length=6)),
                    ('options', models.JSONField(default=list)),
                    ('author', models.CharField(blank=True, max_length=160)),
                    ('created_at', models.DateTimeField(auto_now_add=True)),
                    ('ended_at', models.DateTimeField(blank=True, null=True)),
                ],
                options={
                    'constraints': [models.UniqueConstraint(fields=('project', 'name', 'version'), name='one_schema_per_version'), models.UniqueConstraint(condition=models.Q(('ended_at__isnull', True)), fields=('project', 'name'), name='one_current_schema'), models.CheckConstraint(condition=models.Q(('kind__in', ['single', 'multi', 'score', 'text'])), name='schema_kind_known')],
                },
            ),
            migrations.CreateModel(
                name='Annotation',
                fields=[
                    ('author', models.CharField(max_length=160)),
                    ('author_key', models.CharField(max_length=160)),
                    ('author_kind', models.CharField(choices=[('human', 'Human'), ('model', 'Model'), ('code', 'Code')], max_length=5)),
                    ('privilege', models.CharField(choices=[('blind', 'Blind'), ('sees_verifier', 'Sees verifier')], default='blind', max_length=14)),
                    ('created_at', models.DateTimeField(auto_now_add=True)),
                    ('id', people.models.IdField(default=people.models.new_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                    ('episode', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='annotations', to='episodes.episode')),
                    ('seq', models.IntegerField(blank=True, null=True)),
                    ('ask_id', models.CharField(blank=True, default='', max_length=40)),
                    ('label', models.CharField(max_length=60)),
                    ('text', people.models.JsonText(blank=True)),
                    ('path', models.CharField(blank=True, default='', max_length=500)),
                    ('start', models.IntegerField(blank=True, null=True)),
                    ('end', models.IntegerField(blank=True, null=True)),
                    ('schema', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='annotations', to='reviews.labelschema')),
                    ('supersedes', models.OneToOneField(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='superseded_by', to='reviews.annotation')),
                    ('withdrawn', models.BooleanField(default=False)),
                ],
                options={
                    'indexes': [models.Index(fields=['episode', 'seq'], name='annotations_of_step')],
                    'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('end__isnull', True), ('start__isnull', True)), models.Q(('end__gt', models.F('start')), ('start__gte', 0)), _connector='OR'), name='annotation_range_forwards')],
                },
            ),
            migrations.CreateModel(
                name='Mention',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('annotation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='mentions', to='reviews.annotation')),
                    ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='mentions', to=settings.AUTH_USER_MODEL)),
                    ('at', models.DateTimeField(auto_now_add=True)),
                    ('seen_at', models.DateTimeField(blank=True, null=True)),
                ],
                options={
                    'indexes': [models.Index(fields=['user', '-at'], name='mentions_newest')],
                    'constraints': [models.UniqueConstraint(fields=('annotation', 'user'), name='one_mention_each')],
                },
            ),
            migrations.CreateModel(
                name='Correction',
                fields=[
                    ('author', models.CharField(max_length=160)),
                    ('author_key', models.CharField(max_length=160)),
                    ('author_kind', models.CharField(choices=[('human', 'Human'), ('model', 'Model'), ('code', 'Code')], max_length=5)),
                    ('privilege', models.CharField(choices=[('blind', 'Blind'), ('sees_verifier', 'Sees verifier')], default='blind', max_length=14)),
                    ('created_at', models.DateTimeField(auto_now_add=True)),
                    ('id', people.models.IdField(default=people.models.new_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                    ('episode', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='corrections', to='episodes.episode')),
                    ('seq', models.IntegerField()),
                    ('kind', models.CharField(choices=[('call', 'Another call'), ('message', 'Another message'), ('ask', 'Ask here'), ('no_ask', 'Should not have asked')], max_length=7)),
                    ('name', people.models.JsonText(blank=True, default='')),
                    ('arguments', people.models.JsonText(blank=True, default=dict)),
                    ('text', people.models.JsonText(blank=True, default='')),
                    ('why', people.models.JsonText(blank=True, default='')),
                    ('supersedes', models.OneToOneField(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='superseded_by', to='reviews.correction')),
                    ('withdrawn', models.BooleanField(default=False)),
                ],
                options={
                    'constraints': [models.CheckConstraint(condition=models.Q(('kind__in', ['call', 'message', 'ask', 'no_ask'])), name='correction_kind_known'), models.UniqueConstraint(condition=models.Q(('supersedes__isnull', True)), fields=('episode', 'seq', 'author_key'), name='one_correction_chain_per_reviewer')],
                },
            ),
            migrations.CreateModel(
                name='ReviewQueue',
                fields=[
                    ('id', people.models.IdField(default=people.models.new_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                    ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='review_queues', to='people.project')),
                    ('name', models.CharField(max_length=120)),
                    ('reviews_required', models.SmallIntegerField(default=1)),
                    ('is_blind', models.BooleanField(default=True)),
                    ('lease_s', models.IntegerField(default=900)),
                    ('gold_share', models.FloatField(default=0.0)),
                    ('rubric', models.JSONField(blank=True, default=list)),
                    ('failure_types', models.JSONField(blank=True, default=list)),
                    ('schemas', models.JSONField(blank=True, default=list)),
                    ('seed', models.IntegerField(default=1)),
                    ('author', models.CharField(blank=True, max_length=160)),
                    ('created_at', models.DateTimeField(auto_now_add=True)),
                    ('closed_at', models.DateTimeField(blank=True, null=True)),
                ],
                options={
                    'constraints': [models.UniqueConstraint(fields=('project', 'name'), name='one_review_queue_per_name'), models.CheckConstraint(condition=models.Q(('reviews_required__gte', 1), ('reviews_required__lte', 20)), name='reviews_required_in_range'), models.CheckConstraint(condition=models.Q(('gold_share__gte', 0), ('gold_share__lte', 0.5)), name='gold_share_in_range'), models.CheckConstraint(condition=models.Q(('lease_s__gte', 60), ('lease_s__lte', 86400)), name='review_lease_in_range')],
                },
            ),
            migrations.CreateModel(
                name='Review',
                fields=[
                    ('id', people.models.IdField(default=people.models.new_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                    ('queue', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='reviews', to='reviews.reviewqueue')),
                    ('episode', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='reviews', to='episodes.episode')),
                    ('worth', models.FloatField(default=0.0)),
                    ('reason', models.CharField(blank=True, max_length=40)),
                    ('in_sample', models.BooleanField(default=False)),
                    ('gold', models.CharField(blank=True, choices=[('accept', 'Accept'), ('reject', 'Reject')], max_length=6)),
                    ('created_at', models.DateTimeField(auto_now_add=True)),
                ],
                options={
                    'constraints': [models.UniqueConstraint(fields=('queue', 'episode'), name='one_review_per_queue_and_episode'), models.CheckConstraint(condition=models.Q(('gold__in', ['', 'accept', 'reject'])), name='gold_known')],
                },
            ),
            migrations.CreateModel(
                name='ReviewSlot',
                fields=[
                    ('state', models.CharField(choices=[('queued', 'Queued'), ('claimed', 'Claimed'), ('submitted', 'Submitted'), ('void', 'Void')], default='queued', max_length=10)),
                    ('holder', models.CharField(blank=True, max_length=160)),
                    ('holder_name', models.CharField(blank=True, max_length=160)),
                    ('lease_token', models.CharField(blank=True, max_length=64)),
                    ('lease_until', models.DateTimeField(blank=True, null=True)),
                    ('claimed_at', models.DateTimeField(blank=True, null=True)),
                    ('id', people.models.IdField(default=people.models.new_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                    ('review', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='slots', to='reviews.review')),
                    ('number', models.SmallIntegerField()),
                    ('queue', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='slots', to='reviews.reviewqueue')),
                    ('worth', models.FloatField(default=0.0)),
                    ('is_gold', models.BooleanField(default=False)),
                    ('submitted_at', models.DateTimeField(blank=True, null=True)),
                ],
                options={
                    'indexes': [models.Index(fields=['queue', 'state', '-worth'], name='review_slots_in_turn'), models.Index(condition=models.Q(('state', 'claimed')), fields=['holder'], name='review_slots_held')],
                    'constraints': [models.UniqueConstraint(fields=('review', 'number'), name='one_review_slot_per_number'), models.UniqueConstraint(condition=models.Q(('holder', ''), _negated=True), fields=('review', 'holder'), name='never_two_slots_each'), models.CheckConstraint(condition=models.Q(('state__in', ['queued', 'claimed', 'submitted', 'void'])), name='review_slot_state_known')],
                },
            ),
            migrations.CreateModel(
                name='ReviewDecline',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('review', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='declines', to='reviews.review')),
                    ('author_key', models.CharField(max_length=160)),
                    ('author', models.CharField(max_length=160)),
                    ('reason', models.TextField(blank=True)),
                    ('at', models.DateTimeField(auto_now_add=True)),
                ],
                options={
                    'constraints': [models.UniqueConstraint(fields=('review', 'author_key'), name='one_review_decline_each')],
                },
            ),
            migrations.CreateModel(
                name='Verdict',
                fields=[
                    ('author', models.CharField(max_length=160)),
                    ('author_key', models.CharField(max_length=160)),
                    ('author_kind', models.CharField(choices=[('human', 'Human'), ('model', 'Model'), ('code', 'Code')], max_length=5)),
                    ('privilege', models.CharField(choices=[('blind', 'Blind'), ('sees_verifier', 'Sees verifier')], default='blind', max_length=14)),
                    ('created_at', models.DateTimeField(auto_now_add=True)),
                    ('id', people.models.IdField(default=people.models.new_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                    ('review', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='verdicts', to='reviews.review')),
                    ('episode', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='review_verdicts', to='episodes.episode')),
                    ('decision', models.CharField(choices=[('accept', 'Accept'), ('reject', 'Reject')], max_length=6)),
                    ('failure_type', models.CharField(blank=True, max_length=60)),
                    ('rubric', models.JSONField(blank=True, default=dict)),
                    ('confidence', models.CharField(choices=[('high', 'High'), ('medium', 'Medium'), ('low', 'Low')], default='high', max_length=6)),
                    ('note', people.models.JsonText(blank=True, default='')),
                    ('is_blind', models.BooleanField(default=True)),
                    ('is_late', models.BooleanField(default=False)),
                    ('adjudicates', models.BooleanField(default=False)),
                    ('nonce', models.CharField(blank=True, max_length=200)),
                    ('took_s', models.FloatField(blank=True, null=True)),
                ],
                options={
                    'indexes': [models.Index(fields=['episode'], name='verdicts_of_episode')],
                    'constraints': [models.UniqueConstraint(condition=models.Q(('is_late', False)), fields=('review', 'author_key'), name='one_verdict_per_reviewer'), models.CheckConstraint(condition=models.Q(('decision__in', ['accept', 'reject'])), name='verdict_decision_known')],
                },
            ),
            migrations.CreateModel(
                name='Disagreement',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('verdict', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='disagreement', to='reviews.verdict')),
                    ('explanation', models.CharField(choices=[('verifier_wrong', 'The verifier is wrong'), ('i_was_wrong', 'I was wrong'), ('task_ambiguous', 'The task is ambiguous')], max_length=14)),
                    ('at', models.DateTimeField(auto_now_add=True)),
                ],
            ),
            migrations.CreateModel(
                name='CourtCase',
                fields=[
                    ('id', people.models.IdField(default=people.models.new_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                    ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='court_cases', to='people.project')),
                    ('task_key', models.CharField(max_length=300)),
                    ('scenario', models.CharField(blank=True, max_length=200)),
                    ('task_idx', models.IntegerField(blank=True, null=True)),
                    ('doubted_at', models.DateTimeField()),
                    ('ruled_at', models.DateTimeField(blank=True, null=True)),
                ],
                options={
                    'constraints': [models.UniqueConstraint(fields=('project', 'task_key'), name='one_court_case_per_task')],
                },
            ),
            migrations.CreateModel(
                name='Ruling',
                fields=[
                    ('author', models.CharField(max_length=160)),
                    ('author_key', models.CharField(max_length=160)),
                    ('author_kind', models.CharField(choices=[('human', 'Human'), ('model', 'Model'), ('code', 'Code')], max_length=5)),
                    ('privilege', models.CharField(choices=[('blind', 'Blind'), ('sees_verifier', 'Sees verifier')], default='blind', max_length=14)),
                    ('created_at', models.DateTimeField(auto_now_add=True)),
                    ('id', people.models.IdField(default=people.models.new_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                    ('case', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='rulings', to='reviews.courtcase')),
                    ('word', models.CharField(choices=[('sound', 'The verifier is right'), ('broken', 'The verifier is broken'), ('too_strict', 'The verifier is too strict'), ('too_lenient', 'The verifier is too lenient'), ('impossible', 'The task is impossible'), ('trivial', 'The task is trivial'), ('ambiguous', 'The task is ambiguous')], max_length=11)),
                    ('reason', people.models.JsonText()),
                ],
                options={
                    'constraints': [models.CheckConstraint(condition=models.Q(('word__in', ['sound', 'broken', 'too_strict', 'too_lenient', 'impossible', 'trivial', 'ambiguous'])), name='ruling_word_known')],
                },
            ),
        ]),
    ]

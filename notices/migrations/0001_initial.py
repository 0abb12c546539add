"""All tables of this app as of 0.2.0. Data folders that development versions made have them already (`replaces`)."""

import django.contrib.postgres.fields
import django.db.models.deletion
import django.utils.timezone
import people.models
from django.conf import settings
from django.db import migrations, models
from people.migrations._tables import Tables


class Migration(migrations.Migration):

    initial = True

    replaces = [
        ('notices', '0001_moved_from_experts'),
        ('notices', '0002_subjects'),
        ('notices', '0003_subjects_of_earlier_notices'),
        ('notices', '0004_without_asks'),
        ('notices', '0005_allowances'),
        ('notices', '0006_labels'),
    ]

    dependencies = [
        ('auth', '__first__'),
        ('people', '0001_initial'),
    ]

    operations = [
        Tables([
            migrations.CreateModel(
                name='Subscription',
                fields=[
                    ('id', people.models.IdField(default=people.models.new_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                    ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='subscriptions', to='people.project')),
                    ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='subscriptions', to=settings.AUTH_USER_MODEL)),
                    ('kind', models.CharField(choices=[('browser', 'Open tabs'), ('push', 'Push'), ('email', 'Email'), ('webhook', 'Webhook')], max_length=7)),
                    ('name', models.CharField(blank=True, max_length=120)),
                    ('target', models.CharField(blank=True, max_length=1000)),
                    ('secret', models.JSONField(blank=True, default=dict)),
                    ('is_confirmed', models.BooleanField(default=True)),
                    ('delay_s', models.IntegerField(default=0)),
                    ('every_s', models.IntegerField(default=60)),
                    ('told_at', models.DateTimeField(blank=True, null=True)),
                    ('broken', models.TextField(blank=True)),
                    ('created_at', models.DateTimeField(auto_now_add=True)),
                    ('ended_at', models.DateTimeField(blank=True, null=True)),
                ],
                options={
                    'indexes': [models.Index(condition=models.Q(('ended_at', None)), fields=['project'], name='subscriptions_current')],
                    'constraints': [models.UniqueConstraint(condition=models.Q(('ended_at', None)), fields=('user', 'project', 'kind', 'target'), name='one_subscription_per_target'), models.CheckConstraint(condition=models.Q(('kind__in', ['browser', 'push', 'email', 'webhook'])), name='channel_known'), models.CheckConstraint(condition=models.Q(('delay_s__gte', 0), ('every_s__gte', 0)), name='notices_wait_forwards')],
                },
            ),
            migrations.CreateModel(
                name='Delivery',
                fields=[
                    ('id', people.models.IdField(default=people.models.new_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                    ('subscription', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='deliveries', to='notices.subscription')),
                    ('kind', models.CharField(max_length=20)),
                    ('subject_id', models.CharField(blank=True, max_length=40)),
                    ('rank', models.CharField(blank=True, max_length=20)),
                    ('group', models.CharField(blank=True, max_length=40)),
                    ('expires_at', models.DateTimeField(blank=True, null=True)),
                    ('state', models.CharField(choices=[('waiting', 'Waiting'), ('sent', 'Sent'), ('skipped', 'Skipped'), ('failed', 'Failed')], default='waiting', max_length=7)),
                    ('attempts', models.IntegerField(default=0)),
                    ('due_at', models.DateTimeField(blank=True, null=True)),
                    ('words', models.TextField(blank=True)),
                    ('created_at', models.DateTimeField(auto_now_add=True)),
                    ('ended_at', models.DateTimeField(blank=True, null=True)),
                ],
                options={
                    'indexes': [models.Index(condition=models.Q(('state', 'waiting')), fields=['due_at'], name='deliveries_due'), models.Index(fields=['subscription', '-created_at'], name='deliveries_newest'), models.Index(condition=models.Q(('state', 'waiting')), fields=['subject_id'], name='deliveries_of_subject')],
                    'constraints': [models.UniqueConstraint(condition=models.Q(('subject_id', ''), _negated=True), fields=('subscription', 'kind', 'subject_id', 'rank'), name='one_notice_per_rank'), models.CheckConstraint(condition=models.Q(('state__in', ['waiting', 'sent', 'skipped', 'failed'])), name='delivery_state_known'), models.CheckConstraint(condition=models.Q(models.Q(('due_at__isnull', False), ('ended_at', None), ('state', 'waiting')), models.Q(models.Q(('state', 'waiting'), _negated=True), ('due_at', None), ('ended_at__isnull', False)), _connector='OR'), name='waiting_notice_is_due')],
                },
            ),
            migrations.CreateModel(
                name='QuietHours',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='quiet_hours', to=settings.AUTH_USER_MODEL)),
                    ('starts', models.TimeField()),
                    ('ends', models.TimeField()),
                    ('zone', models.CharField(default='UTC', max_length=60)),
                ],
            ),
            migrations.CreateModel(
                name='Allowance',
                fields=[
                    ('key', models.CharField(max_length=120, primary_key=True, serialize=False)),
                    ('used_at', django.contrib.postgres.fields.ArrayField(base_field=models.DateTimeField(), blank=True, default=list, size=None)),
                    ('last_at', models.DateTimeField(default=django.utils.timezone.now)),
                ],
                options={
                    'indexes': [models.Index(fields=['last_at'], name='allowances_oldest')],
                },
            ),
        ]),
    ]

"""The tables that `experts` made (its 0007) and handed over (its 0012), as they stood: nothing changes in the database."""

import django.db.models.deletion
import people.models
from django.conf import settings
from django.db import migrations, models

MODELS = [
    migrations.CreateModel(
        name='QuietHours',
        fields=[
            ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
            ('starts', models.TimeField()),
            ('ends', models.TimeField()),
            ('zone', models.CharField(default='UTC', max_length=60)),
            ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='quiet_hours', to=settings.AUTH_USER_MODEL)),
        ],
    ),
    migrations.CreateModel(
        name='Subscription',
        fields=[
            ('id', people.models.IdField(default=people.models.new_id, editable=False, max_length=40, primary_key=True, serialize=False)),
            ('kind', models.CharField(choices=[('browser', 'Open pages'), ('push', 'Push'), ('email', 'E-mail'), ('webhook', 'Webhook')], max_length=7)),
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
            ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='subscriptions', to='people.project')),
            ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='subscriptions', to=settings.AUTH_USER_MODEL)),
        ],
        options={
            'indexes': [models.Index(condition=models.Q(('ended_at', None)), fields=['project'], name='subscriptions_current')],
            'constraints': [
                models.UniqueConstraint(condition=models.Q(('ended_at', None)), fields=('user', 'project', 'kind', 'target'), name='one_subscription_per_target'),
                models.CheckConstraint(condition=models.Q(('kind__in', ['browser', 'push', 'email', 'webhook'])), name='channel_known'),
                models.CheckConstraint(condition=models.Q(('delay_s__gte', 0), ('every_s__gte', 0)), name='notices_wait_forwards'),
            ],
        },
    ),
    migrations.CreateModel(
        name='Delivery',
        fields=[
            ('id', people.models.IdField(default=people.models.new_id, editable=False, max_length=40, primary_key=True, serialize=False)),
            ('tier', models.CharField(blank=True, max_length=6)),
            ('purpose', models.CharField(choices=[('ask', 'Ask'), ('test', 'Test'), ('code', 'Code')], default='ask', max_length=4)),
            ('state', models.CharField(choices=[('waiting', 'Waiting'), ('sent', 'Sent'), ('skipped', 'Not needed'), ('failed', 'Failed')], default='waiting', max_length=7)),
            ('attempts', models.IntegerField(default=0)),
            ('due_at', models.DateTimeField(blank=True, null=True)),
            ('words', models.TextField(blank=True)),
            ('created_at', models.DateTimeField(auto_now_add=True)),
            ('ended_at', models.DateTimeField(blank=True, null=True)),
            ('ask', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='deliveries', to='experts.ask')),
            ('subscription', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='deliveries', to='notices.subscription')),
        ],
        options={
            'indexes': [
                models.Index(condition=models.Q(('state', 'waiting')), fields=['due_at'], name='deliveries_due'),
                models.Index(fields=['subscription', '-created_at'], name='deliveries_newest'),
            ],
            'constraints': [
                models.UniqueConstraint(fields=('subscription', 'ask', 'tier'), name='one_notice_per_tier'),
                models.CheckConstraint(condition=models.Q(('state__in', ['waiting', 'sent', 'skipped', 'failed'])), name='delivery_state_known'),
                models.CheckConstraint(condition=models.Q(models.Q(('due_at__isnull', False), ('ended_at', None), ('state', 'waiting')), models.Q(models.Q(('state', 'waiting'), _negated=True), ('due_at', None), ('ended_at__isnull', False)), _connector='OR'), name='waiting_notice_is_due'),
            ],
        },
    ),
]


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('experts', '0012_notices_move_out'),
        ('people', '0002_membership_skills'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [migrations.SeparateDatabaseAndState(state_operations=MODELS)]

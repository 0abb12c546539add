"""All tables of this app as of 0.2.0. Data folders that development versions made have them already (`replaces`)."""

import django.db.models.deletion
import people.models
from django.conf import settings
from django.db import migrations, models
from people.migrations._tables import Tables


class Migration(migrations.Migration):

    initial = True

    replaces = [
        ('people', '0001_first'),
        ('people', '0002_membership_skills'),
        ('people', '0003_membership_entry_and_link_opens'),
        ('people', '0004_entries_of_earlier_sessions'),
        ('people', '0005_launch_tokens'),
        ('people', '0006_project_archived_at'),
        ('people', '0007_review_tokens'),
        ('people', '0008_project_real_clocks'),
    ]

    dependencies = [
        ('auth', '__first__'),
    ]

    operations = [
        Tables([
            migrations.CreateModel(
                name='Project',
                fields=[
                    ('id', people.models.IdField(default=people.models.new_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                    ('slug', models.SlugField(max_length=60, unique=True)),
                    ('name', models.CharField(max_length=120)),
                    ('created_at', models.DateTimeField(auto_now_add=True)),
                    ('archived_at', models.DateTimeField(blank=True, null=True)),
                    ('real_clocks', models.BooleanField(default=False)),
                ],
            ),
            migrations.CreateModel(
                name='Membership',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='memberships', to='people.project')),
                    ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='memberships', to=settings.AUTH_USER_MODEL)),
                    ('role', models.CharField(choices=[('admin', 'Admin'), ('researcher', 'Researcher'), ('expert', 'Expert'), ('reviewer', 'Reviewer'), ('viewer', 'Viewer')], max_length=12)),
                    ('skills', models.JSONField(blank=True, default=list)),
                    ('ends_at', models.DateTimeField(blank=True, null=True)),
                    ('created_at', models.DateTimeField(auto_now_add=True)),
                    ('entry', models.CharField(db_index=True, default=people.models.new_id, editable=False, max_length=40)),
                ],
                options={
                    'constraints': [models.UniqueConstraint(fields=('project', 'user'), name='one_membership_per_person'), models.CheckConstraint(condition=models.Q(('role__in', ['admin', 'researcher', 'expert', 'reviewer', 'viewer'])), name='membership_role_known')],
                },
            ),
            migrations.CreateModel(
                name='ApiToken',
                fields=[
                    ('id', people.models.IdField(default=people.models.new_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                    ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='tokens', to='people.project')),
                    ('name', models.CharField(max_length=120)),
                    ('scope', models.CharField(choices=[('agent', 'Agent'), ('expert', 'Expert'), ('export', 'Export'), ('launch', 'Launch'), ('review', 'Review')], max_length=8)),
                    ('digest', models.CharField(max_length=64, unique=True)),
                    ('issued_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL)),
                    ('created_at', models.DateTimeField(auto_now_add=True)),
                    ('ends_at', models.DateTimeField(blank=True, null=True)),
                    ('revoked_at', models.DateTimeField(blank=True, null=True)),
                    ('last_used_at', models.DateTimeField(blank=True, null=True)),
                ],
                options={
                    'constraints': [models.CheckConstraint(condition=models.Q(('scope__in', ['agent', 'expert', 'export', 'launch', 'review'])), name='token_scope_known')],
                },
            ),
            migrations.CreateModel(
                name='LoginLink',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('digest', models.CharField(max_length=64, unique=True)),
                    ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to=settings.AUTH_USER_MODEL)),
                    ('issued_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='links_issued', to=settings.AUTH_USER_MODEL)),
                    ('created_at', models.DateTimeField(auto_now_add=True)),
                    ('opens', models.JSONField(default=list)),
                    ('ends_at', models.DateTimeField()),
                    ('used_at', models.DateTimeField(null=True)),
                ],
            ),
            migrations.CreateModel(
                name='AuditEntry',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('project', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='audit', to='people.project')),
                    ('at', models.DateTimeField(auto_now_add=True)),
                    ('actor', models.CharField(max_length=160)),
                    ('verb', models.CharField(max_length=60)),
                    ('target', models.CharField(blank=True, max_length=200)),
                    ('reason', models.TextField(blank=True)),
                ],
                options={
                    'indexes': [models.Index(fields=['project', '-at'], name='audit_by_project')],
                },
            ),
        ]),
    ]

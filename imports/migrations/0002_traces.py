import django.db.models.deletion
import people.models
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('episodes', '0005_forks'),
        ('imports', '0001_initial'),
        ('people', '0003_metrics_tokens'),
    ]

    operations = [
        migrations.CreateModel(
            name='Trace',
            fields=[
                ('id', people.models.IdField(default=people.models.new_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=32)),
                ('heard_at', models.DateTimeField()),
                ('has_root', models.BooleanField(default=False)),
                ('is_waiting', models.BooleanField(default=True)),
                ('problem', models.TextField(blank=True)),
                ('episode', models.OneToOneField(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='trace', to='episodes.episode')),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='traces', to='people.project')),
                ('token', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='people.apitoken')),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('is_waiting', True)), fields=['heard_at'], name='traces_waiting')],
                'constraints': [models.UniqueConstraint(fields=('project', 'name'), name='trace_once')],
            },
        ),
        migrations.CreateModel(
            name='TraceSpan',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=16)),
                ('body', people.models.JsonText(blank=True, null=True)),
                ('trace', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='spans', to='imports.trace')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('trace', 'name'), name='span_once')],
            },
        ),
    ]

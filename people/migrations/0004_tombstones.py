import django.db.models.deletion
import people.models
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('people', '0003_metrics_tokens'),
    ]

    operations = [
        migrations.CreateModel(
            name='Tombstone',
            fields=[
                ('id', people.models.IdField(default=people.models.new_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                ('kind', models.CharField(choices=[('episode', 'Episode'), ('person', 'Person')], max_length=7)),
                ('subject', models.CharField(max_length=160)),
                ('key_digest', models.CharField(blank=True, max_length=64)),
                ('by', models.CharField(max_length=160)),
                ('at', models.DateTimeField(auto_now_add=True)),
                ('fell', people.models.JsonText(blank=True, default=dict)),
                ('datasets', people.models.JsonText(blank=True, default=list)),
                ('left', people.models.JsonText(blank=True, default=list)),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='tombstones', to='people.project')),
            ],
            options={
                'indexes': [models.Index(fields=['project', 'key_digest'], name='tombstones_by_key')],
                'constraints': [models.CheckConstraint(condition=models.Q(('kind__in', ['episode', 'person'])), name='tombstone_kind_known')],
            },
        ),
    ]

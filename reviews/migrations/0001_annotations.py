"""The table that `experts` made (its 0003) and handed over (its 0014), as it stood: nothing changes in the database."""

import django.db.models.deletion
import people.models
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('episodes', '0018_outcome_holds'),
        ('experts', '0014_annotations_move_out'),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.CreateModel(
                    name='Annotation',
                    fields=[
                        ('id', people.models.IdField(default=people.models.new_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                        ('seq', models.IntegerField(blank=True, null=True)),
                        ('ask_id', models.CharField(blank=True, default='', max_length=40)),
                        ('label', models.CharField(max_length=60)),
                        ('text', people.models.JsonText(blank=True)),
                        ('author', models.CharField(max_length=160)),
                        ('author_key', models.CharField(max_length=160)),
                        ('author_kind', models.CharField(choices=[('human', 'Human'), ('model', 'Model'), ('code', 'Code')], max_length=5)),
                        ('privilege', models.CharField(choices=[('blind', 'Blind'), ('sees_verifier', 'Sees verifier')], default='blind', max_length=14)),
                        ('created_at', models.DateTimeField(auto_now_add=True)),
                        ('episode', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='annotations', to='episodes.episode')),
                    ],
                    options={
                        'indexes': [models.Index(fields=['episode', 'seq'], name='annotations_of_step')],
                    },
                ),
            ],
        ),
    ]

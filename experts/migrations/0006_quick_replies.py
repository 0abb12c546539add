import django.db.models.deletion
import django.db.models.functions.text
import people.models
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('experts', '0005_drafts_that_began_with_a_model'),
        ('people', '0002_membership_skills'),
    ]

    operations = [
        migrations.CreateModel(
            name='QuickReply',
            fields=[
                ('id', people.models.IdField(default=people.models.new_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                ('author_key', models.CharField(max_length=160)),
                ('text', people.models.JsonText()),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='quick_replies', to='people.project')),
            ],
            options={
                'constraints': [models.UniqueConstraint(models.F('project'), models.F('author_key'), django.db.models.functions.text.MD5('text'), name='one_quick_reply_per_text')],
            },
        ),
    ]

# Tokens of programs that review

from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('people', '0006_project_archived_at'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name='apitoken',
            name='token_scope_known',
        ),
        migrations.AlterField(
            model_name='apitoken',
            name='scope',
            field=models.CharField(choices=[('agent', 'Agent'), ('expert', 'Expert'), ('export', 'Export'), ('launch', 'Launch'), ('review', 'Review')], max_length=8),
        ),
        migrations.AddConstraint(
            model_name='apitoken',
            constraint=models.CheckConstraint(condition=models.Q(('scope__in', ['agent', 'expert', 'export', 'launch', 'review'])), name='token_scope_known'),
        ),
    ]

"""No row of this app refers to a row of an app above any more."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('notices', '0003_subjects_of_earlier_notices'),
    ]

    operations = [
        migrations.RemoveField(model_name='delivery', name='ask'),
        migrations.AlterField(model_name='delivery', name='subject_id', field=models.CharField(blank=True, max_length=40)),
        migrations.AlterField(model_name='delivery', name='group', field=models.CharField(blank=True, max_length=40)),
        migrations.AddIndex(
            model_name='delivery',
            index=models.Index(condition=models.Q(('state', 'waiting')), fields=['subject_id'], name='deliveries_of_subject'),
        ),
        migrations.AddConstraint(
            model_name='delivery',
            constraint=models.UniqueConstraint(condition=models.Q(('subject_id', ''), _negated=True), fields=('subscription', 'kind', 'subject_id', 'rank'), name='one_notice_per_rank'),
        ),
    ]

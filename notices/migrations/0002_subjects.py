"""A delivery is about a kind and a plain id; the next migration fills them, the one after it drops the ask."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('notices', '0001_moved_from_experts'),
    ]

    operations = [
        migrations.RemoveConstraint(model_name='delivery', name='one_notice_per_tier'),
        migrations.RenameField(model_name='delivery', old_name='purpose', new_name='kind'),
        migrations.AlterField(model_name='delivery', name='kind', field=models.CharField(max_length=20)),
        migrations.RenameField(model_name='delivery', old_name='tier', new_name='rank'),
        migrations.AlterField(model_name='delivery', name='rank', field=models.CharField(blank=True, max_length=20)),
        migrations.AddField(model_name='delivery', name='subject_id', field=models.CharField(blank=True, default='', max_length=40)),
        migrations.AddField(model_name='delivery', name='group', field=models.CharField(blank=True, default='', max_length=40)),
        migrations.AddField(model_name='delivery', name='expires_at', field=models.DateTimeField(blank=True, null=True)),
    ]

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("people", "0009_suspended_memberships")]

    operations = [
        migrations.RemoveConstraint("retentionrule", "retention_kind_known"),
        migrations.AlterField("retentionrule", "kind", models.CharField(max_length=11)),
    ]

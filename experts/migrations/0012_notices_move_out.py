"""Notifications become an app of their own: `notices` takes over their tables, rows and all (its 0001)."""

from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('experts', '0011_queue_views'),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.AlterModelTable('quiethours', 'notices_quiethours'),
                migrations.AlterModelTable('subscription', 'notices_subscription'),
                migrations.AlterModelTable('delivery', 'notices_delivery'),
            ],
            state_operations=[
                migrations.DeleteModel('delivery'),
                migrations.DeleteModel('subscription'),
                migrations.DeleteModel('quiethours'),
            ],
        ),
    ]

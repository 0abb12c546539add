"""Version 0.2.0 writes pushes without a project while an update goes on: they get that of their export."""

from django.db import migrations

from exports.migrations._push_project import DROP, FILL


class Migration(migrations.Migration):
    # 0002 makes it, too; databases that had 0002 before get it here
    dependencies = [("exports", "0002_push_project")]
    operations = [migrations.RunSQL(FILL, DROP)]

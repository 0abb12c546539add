"""Version 0.2.0 writes plans without claims while an update goes on: their columns need a value of the database's."""

from django.db import migrations

# 0002 gives them, too; databases that had it before are given them here
DEFAULTS = """
ALTER TABLE runs_plan ALTER COLUMN claims SET DEFAULT '{}'::jsonb, ALTER COLUMN claims_digest SET DEFAULT '';
"""


class Migration(migrations.Migration):
    dependencies = [("runs", "0006_campaigns")]
    operations = [migrations.RunSQL(DEFAULTS, migrations.RunSQL.noop)]

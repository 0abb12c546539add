"""Version 0.2.0 writes asks and quick replies without these columns while an update goes on."""

from django.db import migrations

# 0002 and 0004 give them, too; databases that had those before are given them here
DEFAULTS = """
ALTER TABLE experts_ask ALTER COLUMN handed_to SET DEFAULT '', ALTER COLUMN handed_to_name SET DEFAULT '';
ALTER TABLE experts_quickreply ALTER COLUMN author SET DEFAULT '', ALTER COLUMN shared SET DEFAULT false;
"""


class Migration(migrations.Migration):
    dependencies = [("experts", "0013_askevent_actor_key")]
    operations = [migrations.RunSQL(DEFAULTS, migrations.RunSQL.noop)]

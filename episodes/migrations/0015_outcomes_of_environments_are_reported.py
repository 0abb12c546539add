from django.db import migrations

# The mode is the last key of such an outcome's details, which are text: no verifier's can end so.
MOVE = """
UPDATE episodes_verifieroutcome SET source = 'reported'
 WHERE source = 'verifier' AND details LIKE '%, "mode": "environment"}'
"""


class Migration(migrations.Migration):
    dependencies = [("episodes", "0014_growth")]
    operations = [migrations.RunSQL(MOVE, migrations.RunSQL.noop)]

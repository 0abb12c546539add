"""Read again the steps with scripts that write words without spaces: their words are overlapping letters now."""

from django.db import migrations

AGAIN = r"""
CREATE TEMPORARY TABLE read_again ON COMMIT DROP AS
SELECT DISTINCT episode_id FROM episodes_step
 WHERE body ~ '\\u(0[ef]|10|17|3[01]|3[4-9a-f]|[4-9][0-9a-f]|a[c-f]|[bc][0-9a-f]|d[0-9ab]|f[9a]|ff)';
UPDATE episodes_episodefacts
   SET read_seq = 0, joined_seq = 0, done = false, errors = 0, asks = 0, tools = '{}', answered = '{}', waiting = '{}'
 WHERE episode_id IN (SELECT episode_id FROM read_again);
DELETE FROM episodes_episodewords WHERE episode_id IN (SELECT episode_id FROM read_again);
"""


class Migration(migrations.Migration):
    dependencies = [("episodes", "0002_scenario_digest")]
    operations = [migrations.RunSQL(AGAIN, migrations.RunSQL.noop)]

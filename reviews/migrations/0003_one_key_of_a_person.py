"""What a person's own token claimed, declined and judged in reviews has the key of the person, as all that follows."""

from django.db import migrations

TABLES = (
    ("episodes_outcomehold", "actor_key", ("episode_id", "by")),
    ("reviews_reviewslot", "holder", ("review_id",)),
    ("reviews_reviewdecline", "author_key", ("review_id",)),
    ("reviews_verdict", "author_key", ("review_id", "is_late", "supersedes_id")),
)
# a row that the person has already, or another token of theirs, stays: it is the same claim
ONE_KEY = """
WITH own AS (
  SELECT row.id, 'user:' || token.issued_by_id AS key,
         row_number() OVER (PARTITION BY token.issued_by_id, {same} ORDER BY row.id) AS nth
    FROM {table} AS row JOIN people_apitoken AS token ON row.{column} = 'token:' || token.id
   WHERE token.personal AND token.issued_by_id IS NOT NULL
)
UPDATE {table} AS row SET {column} = own.key FROM own
 WHERE row.id = own.id AND own.nth = 1
   AND NOT EXISTS (SELECT FROM {table} AS other WHERE other.{column} = own.key AND {equal})
"""


def statements() -> list[str]:
    return [
        ONE_KEY.format(
            table=table,
            column=column,
            same=", ".join(f"row.{name}" for name in same),
            equal=" AND ".join(f"other.{name} IS NOT DISTINCT FROM row.{name}" for name in same),
        )
        for table, column, same in TABLES
    ]


class Migration(migrations.Migration):
    dependencies = [
        ("people", "0008_subject_of_tickets"),
        ("episodes", "0014_growth"),
        ("reviews", "0002_changed_verdicts"),
    ]
    operations = [migrations.RunSQL(sql, migrations.RunSQL.noop) for sql in statements()]

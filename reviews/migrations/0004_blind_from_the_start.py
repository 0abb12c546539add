"""Blind queues that are open hold outcomes back from members who judge and have not claimed yet."""

from django.db import migrations

SQL = """
INSERT INTO episodes_outcomehold (episode_id, actor_key, by, since)
SELECT review.episode_id, 'user:' || member.user_id, review.id, now()
FROM reviews_review review
JOIN reviews_reviewqueue queue ON queue.id = review.queue_id AND queue.is_blind AND queue.closed_at IS NULL
JOIN people_membership member ON member.project_id = queue.project_id AND member.role IN ('expert', 'reviewer')
WHERE (review.gold <> '' OR EXISTS (
        SELECT 1 FROM reviews_reviewslot slot WHERE slot.review_id = review.id AND slot.state IN ('queued', 'claimed')))
    AND NOT EXISTS (
        SELECT 1 FROM reviews_verdict verdict WHERE verdict.review_id = review.id
            AND verdict.author_key = 'user:' || member.user_id AND NOT verdict.is_late)
    AND NOT EXISTS (
        SELECT 1 FROM reviews_reviewdecline passed WHERE passed.review_id = review.id
            AND passed.author_key = 'user:' || member.user_id)
ON CONFLICT DO NOTHING
"""


class Migration(migrations.Migration):

    dependencies = [
        ("reviews", "0003_mention"),
        ("episodes", "0018_outcome_holds"),
        ("people", "0008_project_real_clocks"),
    ]

    operations = [migrations.RunSQL(SQL, migrations.RunSQL.noop)]

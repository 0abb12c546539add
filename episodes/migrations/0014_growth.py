import django.contrib.postgres.indexes
import django.contrib.postgres.search
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models

# As `episodes_with_words`, without OFFSET: of the newest episodes PostgreSQL reads either their rows or both indexes, by
# the frequency of the word. So it needs a plan for each word.
SINCE = """
CREATE FUNCTION episodes_with_words_since(wanted text, query text, first text) RETURNS SETOF text
LANGUAGE sql STABLE ROWS 5000 SET enable_seqscan = off SET max_parallel_workers_per_gather = 0
SET plan_cache_mode = force_custom_plan AS $$
SELECT episode_id FROM episodes_episodewords
 WHERE words @@ plainto_tsquery('simple', wanted) AND episode_id >= first
 UNION ALL
SELECT episode_id FROM episodes_episodefacts facts
 WHERE joined_seq < read_seq AND episode_id >= first AND EXISTS (
       SELECT FROM (SELECT words FROM episodes_stepwords
                     WHERE episode_id = facts.episode_id AND seq > facts.joined_seq OFFSET 0) late
        WHERE words @@ websearch_to_tsquery('simple', query))
$$
"""
# OFFSET keeps the indexes of the project's episodes out: they lead to all of them
OF_TASKS = """
CREATE FUNCTION episodes_with_task_words(project text, query text) RETURNS SETOF text
LANGUAGE sql STABLE ROWS 100 SET enable_seqscan = off SET max_parallel_workers_per_gather = 0
SET plan_cache_mode = force_custom_plan AS $$
SELECT id FROM (SELECT id, project_id FROM episodes_episode
                 WHERE state IN ('finished', 'failed', 'cancelled')
                   AND to_tsvector('simple', left(key || ' ' || scenario || ' ' || task, 20000))
                       @@ websearch_to_tsquery('simple', query) OFFSET 0) found
 WHERE project_id = project
$$
"""
OF_A_KIND = {"condition": models.Q(("origin", "branch"), _negated=True)}


class Migration(migrations.Migration):
    # built while episodes are written: a project can have millions
    atomic = False
    dependencies = [("episodes", "0013_newest_outcomes")]
    operations = [
        AddIndexConcurrently(
            "episode",
            models.Index(
                fields=["project", "scenario", "-created_at", "-id", "task_idx"],
                name="counted_of_scenario",
                **OF_A_KIND,
            ),
        ),
        AddIndexConcurrently(
            "episode",
            models.Index(
                fields=["run", "-created_at", "-id"],
                include=("state", "training_step"),
                name="counted_of_run",
                **OF_A_KIND,
            ),
        ),
        AddIndexConcurrently(
            "episode",
            models.Index(
                fields=["run"],
                condition=models.Q(("state__in", ("queued", "running", "waiting", "parked"))),
                name="live_of_run",
            ),
        ),
        AddIndexConcurrently(
            "episode",
            django.contrib.postgres.indexes.GinIndex(
                models.Func(
                    *("key", "scenario", "task"),
                    template="to_tsvector('simple', left(%(expressions)s, 20000))",
                    arg_joiner=" || ' ' || ",
                    output_field=django.contrib.postgres.search.SearchVectorField(),
                ),
                condition=models.Q(("state__in", ("finished", "failed", "cancelled"))),
                name="words_of_tasks",
            ),
        ),
        migrations.RunSQL(SINCE, "DROP FUNCTION episodes_with_words_since(text, text, text)"),
        migrations.RunSQL(OF_TASKS, "DROP FUNCTION episodes_with_task_words(text, text)"),
    ]

"""Words of steps that were not joined yet are found by their episodes, whatever plan PostgreSQL keeps."""

from importlib import import_module

from django.db import migrations

# A list asks for this on connections that live long, so its plan must be good whatever the word: PostgreSQL keeps one plan
# for all of them after five calls. Words of steps that were not joined yet are read from their few episodes, one after the
# other (OFFSET keeps the index of all steps out of it: a frequent word has millions of entries there). Parallel plans, for
# which an embedded server has no workers, would only pass rows on once more.
FOUND = """
CREATE OR REPLACE FUNCTION episodes_with_words(wanted text, query text) RETURNS SETOF text
LANGUAGE sql STABLE ROWS 5000 SET enable_seqscan = off SET max_parallel_workers_per_gather = 0 AS $$
SELECT episode_id FROM episodes_episodewords WHERE words @@ plainto_tsquery('simple', wanted)
 UNION ALL
SELECT episode_id FROM episodes_episodefacts facts
 WHERE joined_seq < read_seq AND EXISTS (
       SELECT FROM (SELECT words FROM episodes_stepwords
                     WHERE episode_id = facts.episode_id AND seq > facts.joined_seq OFFSET 0) late
        WHERE words @@ websearch_to_tsquery('simple', query))
$$
"""
BEFORE = import_module("episodes.migrations.0022_episode_words").FOUND.replace("CREATE", "CREATE OR REPLACE", 1)


class Migration(migrations.Migration):
    dependencies = [("episodes", "0022_episode_words")]

    operations = [migrations.RunSQL(FOUND, BEFORE)]

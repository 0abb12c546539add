"""Words of steps that were not joined yet are found by their episodes, whatever plan PostgreSQL keeps."""

from importlib import import_module

from django.db import migrations

# A list asks for this on connections that live long, so its plan must be good whatever the word: PostgreSQL keeps one plan
# for all of them after five calls. OFFSET keeps other indexes out of it. Those of episodes would read the words of
# thousands; that of all steps has millions of entries for a frequent word, where the few episodes with steps that were not
# joined yet can be asked one after the other. Parallel plans, for which an embedded server has no workers, would only
# pass rows on once more.
FOUND = """
CREATE FUNCTION episodes_with_words(wanted text, query text, first text) RETURNS SETOF text
LANGUAGE sql STABLE ROWS 5000 SET enable_seqscan = off SET max_parallel_workers_per_gather = 0 AS $$
SELECT episode_id FROM (SELECT episode_id FROM episodes_episodewords
                         WHERE words @@ plainto_tsquery('simple', wanted) OFFSET 0) joined
 WHERE episode_id >= first
 UNION ALL
SELECT episode_id FROM episodes_episodefacts facts
 WHERE joined_seq < read_seq AND episode_id >= first AND EXISTS (
       SELECT FROM (SELECT words FROM episodes_stepwords
                     WHERE episode_id = facts.episode_id AND seq > facts.joined_seq OFFSET 0) late
        WHERE words @@ websearch_to_tsquery('simple', query))
$$
"""
DROP = "DROP FUNCTION episodes_with_words(text, text, text)"
before = import_module("episodes.migrations.0022_episode_words")


class Migration(migrations.Migration):
    dependencies = [("episodes", "0022_episode_words")]

    operations = [migrations.RunSQL(before.DROP, before.FOUND), migrations.RunSQL(FOUND, DROP)]

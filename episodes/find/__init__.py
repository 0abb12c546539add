"""Which episodes match?

    selection    filters as conditions, lists by cursor
    narrowing    matching episodes, for one actor
    held         episodes on legal hold
    recent       how far back a list looks
    facets       filters with their counts
    sorting      orders of the list, and its pages
    columns      columns that other apps fill
    search_text  words and facts of a step
    search       episodes by words, with the hit
    in_episode   steps of one episode that show a text
    lists        episodes and runs for the API
    near_tasks   tasks with nearly the same text

Pages, the API and upper apps import it; it writes nothing.
"""

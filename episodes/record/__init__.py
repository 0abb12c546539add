"""Who changes an episode, and how?

    recording    start, append, signs of life, waiting
    ending       finish, fail, cancel, outcome, lose
    noting       notes on an episode's surroundings
    appending    rules of an append; many together
    committer    one transaction for many requests' appends
    ask_steps    what an ask does to its episode
    whole        finished episodes, many in one request
    pictures     pictures of steps, uploaded and dropped
    whole_pictures  those that come with whole episodes
    queueing     many episodes of a run together
    admitting    episodes recorded elsewhere
    indexing     what search finds
    pinning      pinned splits
    branching    a fork and its branches
    continuing   where an episode goes on from another
    steering     the wheel and limits of a live episode
    rejudging    repaired verifiers, and what they change
    saved_views  saved views of the list

Edges and the writes of upper apps import it; no read does.
"""

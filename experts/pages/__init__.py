"""Which pages show asks?

    queue        the queue and bulk actions
    ask          one ask; claim and answer forms
    link         one ask, answered by a link
    slack        presses and replies of Slack
    answer       smaller forms of the answer page
    routing      how a project routes its asks
    saved_views  saved views of the queue

Only `experts/urls.py` imports it.
"""

"""Which calls launch and read runs?

    runs       launch, states, costs, comparison, asking
    briefings  those of a task, one written
    branches   replays, forks, trees, prompts
    campaigns  what-if campaigns
    verifiers  stored episodes judged again, and errata

Only `awmweb/urls.py` imports it.
"""

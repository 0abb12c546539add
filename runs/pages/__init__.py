"""Which pages show runs?

    runs       the list, the launch form, one run
    briefings  briefings of tasks
    forks      branches of an episode, and their form
    playing    an episode in which a person acts
    tables     an environment's tables at a step

Only `runs/urls.py` imports it.
"""

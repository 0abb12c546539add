"""Which pages show runs?

    runs       the list, the launch form, one run
    briefings  briefings of tasks
    tables     an environment's tables at a step

Only `runs/urls.py` imports it.
"""

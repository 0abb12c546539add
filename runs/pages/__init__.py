"""Which pages show runs?

    runs       the list, the launch form, one run
    one_run    values of the page of a run
    briefings  briefings of tasks
    campaigns  campaigns of forks, and their form
    forks      branches of an episode, and their form
    verifiers  the verifier of a task, and its repair
    playing    an episode in which a person acts
    tables     an environment's tables at a step
    wheel      a person acts for a live agent

Only `runs/urls.py` imports it.
"""

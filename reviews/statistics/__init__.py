"""How far do judgments agree, and what is worth a look?

    agreement  percent, kappa, alpha, gold accuracy; pure
    worth      what a look at an episode is worth
    reports    progress and agreement of a queue
    sampled    the random blind sample of a run
    filling    what can be added to queues

Pages, `record` and upper apps import it; it writes nothing.
"""

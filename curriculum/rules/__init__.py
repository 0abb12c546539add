"""What follows from a run's rates?

    plan     how a run wants its curriculum
    ratio    share of rollouts with help
    levels   when the next level opens
    weights  weights and draw of next tasks

Every room of `curriculum`; it reads no database.
"""

"""What can an actor see of an episode?

    lens        what an actor may see of a step
    visibility  who sees an outcome now
    trajectory  stored rows as steps and trajectories

Rooms above `stored` and upper apps import it; pages read outcomes and steps only through it.
"""

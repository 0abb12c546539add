"""What can an actor see of an episode?

    lens        what an actor may see of a step
    visibility  who sees an outcome now
    trajectory  stored rows as steps and trajectories
    pictures    the pictures that an actor sees

Rooms above `stored` and upper apps import it; pages read outcomes and steps only through it.
"""

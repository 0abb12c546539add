"""Who changes a curriculum?

    taking    take a snapshot, draw tasks
    steering  a person's decisions
    training  reported training steps

Edges and exports import it; no read does.
"""

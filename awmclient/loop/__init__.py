"""How is a policy carried through one task?

    ports      what a loop needs of others
    restoring  a lost world, made again
    rollout    the loop

Trainers, workers and the benchmark import it; `awmclient.rollout` is its public path.
"""

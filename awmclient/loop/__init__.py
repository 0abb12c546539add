"""How is a policy carried through one task?

    ports      what a loop needs of others
    restoring  a lost world, made again
    live       what a running rollout holds
    choice     the agent's next turn
    steering   orders of a person at the wheel
    calls      what one call does
    turns      turn by turn, to an end
    starting   environment, record so far, heartbeats
    rollout    the loop

Trainers, workers and the benchmark import it; `awmclient.rollout` is its public path.
"""

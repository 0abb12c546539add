"""Every shape that crosses a process between a loop and the dashboard. `awmclient.schema` is their public path.

    values      names of states, tiers and sources; limits
    fields      limits of fields
    ask_kinds   kinds of asks
    sources     where advice comes from
    typed       typed asks and decisions
    pictures    pictures of steps, content in parts
    tools       tools as an agent sees them
    asks        a question and its advice
    steps       steps, one class per kind
    kinds       what a stored step is
    episodes    how an episode starts and ends
    runs        runs, training steps, next tasks
    answers     what experts send
    wheel       orders of a person who acts
    interrupts  pauses of other agents, in AG-UI's words
    metrics     metrics of the desk, on the wire

It imports no other room; every package can import it.
"""

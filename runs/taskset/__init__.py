"""Which tasks can be run?

    checking      runs the rows of packs elsewhere
    splitting     draws and checks splits
    split_checks  what pinned splits say of a plan
    blocks        tasks with a blocker
    ask_controls  what thoughtless questions reach
    own_tools     tools that a task needs
    probes        results of cheap attempts

Rooms above `statistics` import it; it writes nothing.
"""

"""Which episodes does an export contain?

    selecting  the query and its snapshot
    measured   forks that show a difference
    reading    episodes of a snapshot as records
    ground     facts that leakage rules need
    curricula  tasks of a curriculum snapshot

`build` and `explain` import it.
"""

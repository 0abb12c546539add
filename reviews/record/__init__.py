"""Who changes annotations, reviews and rulings?

    annotating   labels and comments
    schemas      label schemas by version
    mentions     people whom a comment names
    correcting   the better action for a step
    withholding  what blind reviews hide
    pairing      which pairs a queue gets
    assigning    queues, and who holds which review
    rules        queues that fill themselves
    deciding     verdicts, and calls for a third reviewer
    preferring   answers on pairs, and their undo
    court        doubted tasks and rulings

Edges and upper apps' writes import it; no read does.
"""

"""Who changes annotations, reviews and rulings?

    annotating   labels and comments
    schemas      label schemas by version
    mentions     people whom a comment names
    correcting   the better action for a step
    withholding  what blind reviews hide
    assigning    queues, and who holds which review
    deciding     verdicts, and calls for a third reviewer
    court        doubted tasks and rulings

Edges and upper apps' writes import it; no read does.
"""

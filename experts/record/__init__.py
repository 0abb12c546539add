"""Who changes an ask, and how?

    opening      a new ask, or one again
    repeating    what differs between asks of one key
    announcing   an ask arrives at a tier
    queue        claim, release, escalate, transfer
    advising     answer, edit, withdraw
    changing     which answers can still change
    counting     decisions on approvals that need several people
    closing      close, cancel, deliver, consume
    desk         presence, drafts, routing rules
    pausing      pauses of agents that others run
    attaching    files of asks and answers
    tagging      tags of a question, late texts
    batch        approve or reject several approvals
    links        answers through a signed link
    standing_answers  approvals ahead, and their ends
    simulating        answers of a task's registry

Edges and the writes of upper apps import it; no read does.
"""

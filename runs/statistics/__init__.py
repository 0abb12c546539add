"""What do the outcomes of a run show?

    paired      tests and intervals of paired differences
    anytime     the e-process, valid at any look
    deciding    what makes a run say better
    contrast    what a comparison of two arms found
    unanswered  whether an arm's expert ever answered
    sentences   a finding in words
    units       tasks that depend on each other
    compare     what a run's tries can say
    corrected   rates without the verifier's own errors
    self_control  an arm against itself
    rereading   what may be said of corrected outcomes
    power       size of a run before its launch
    difficulty  differences by how hard tasks are
    forked      what the branches of a fork show
    worth       what a change that was picked is worth
    worth_before  wrong pairs in snapshots of before
    campaigned  what forks of many episodes show
    offers      effect of a randomized offer of help
    asking      precision, recall and Ask-F1 of questions
    gating      the learned rule of when to ask
    random_asking  what asking at random reaches
    prices      price of an extra success
    costs       tokens times prices

Every room of `runs`, and upper apps; it reads no database.
"""

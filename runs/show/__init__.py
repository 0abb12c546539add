"""How is a run shown?

    helping     how asks ended, and who waits
    comparison  tries, counts and comparison of a run
    overview    progress and tasks of runs
    failing     models and servers that do not answer
    causes      why episodes failed or wait, grouped
    model_turns turns cut off, unread, or called in words
    asking      questions of a run against registries
    held_out    models on held-out tasks
    errata      what a repaired verifier changed in runs
    forks       branches of an episode, and what they show
    campaigns   campaigns of forks, and what they show
    answers     which episodes read the same answer
    lanes       the tree of an episode as lanes
    timing      words at several times of an episode
    gating      decisions drawn by turn, and their gate
    curve       completion against asks
    rewarding   what reward profiles pay
    tables      tables of pages and files
    charts      Plotly figures of a run
    drawing     charts as PNG, by matplotlib
    pictures    asks for those where matplotlib is installed
    report      a report as files
    checkable   a report that others recompute

Pages, commands, `launch` and upper apps import it; it writes nothing.
"""

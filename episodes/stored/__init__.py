"""What is stored of an episode, as values?

    entries     a step as stored and as sent
    truncation  the short form of a large step
    strip       the step strip: one letter a step
    outcomes    every query of outcomes
    repairs     versions of a verifier, and errata
    trees       how many forks a tree has
    settled     which episodes have ended for good
    pictured    the pictures that steps name
    decoding    pictures of strangers, in a child
    decode_picture  that child
    attesting   checks signed statements of environment servers
    arrivals    an episode recorded elsewhere, ready to store
    run_names   names that tell runs apart
    run_sizes   episodes of runs, up to a bound
    policies    kind and name of a policy
    packs       the packs on disk, as text
    splits      reads of pinned splits

The lowest room of `episodes`: every room and app above can import it.
"""

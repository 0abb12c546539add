"""What did an agent change, and does it count?

    runner   one verifier run, in a child
    judge    asks the judge model
    diffing  changes between two databases
    listing  tables and first rows

`session` and `channels` import it; `runner` runs in a sandboxed child.
"""

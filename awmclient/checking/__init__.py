"""What a report says, recomputed without awmweb.

    numbers      exact tests and intervals
    corrected    rates without the verifier's errors

Standard library alone, and nothing else of `awmclient`.
"""

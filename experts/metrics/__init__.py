"""How does the desk perform?

    records     asks as plain records
    adherence   whether the agent followed an answer
    times       medians and their intervals
    statistics  waits, answers, usefulness, with intervals
    pages       the page Metrics and its CSV

`runs` and `curriculum` import it; `pages` only `experts/urls.py`.
"""

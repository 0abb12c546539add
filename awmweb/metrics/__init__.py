"""Which figures does an operator's Prometheus read?

    stored     figures of the database, at a scrape
    processes  what all processes counted
    page       the page `/metrics`

Counting itself is `people.measures`.
"""

"""Which figures does an operator's Prometheus read?

    stored     figures of the database, at a scrape
    processes  what all processes counted
    disks      free space of this machine's disks
    backups    the age of the last backup
    page       the page `/metrics`

Counting itself is `people.measures`.
"""

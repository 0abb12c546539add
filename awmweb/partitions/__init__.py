"""How does one table of all steps stay small?

    months   a month, its partition, its IDs
    tables   what the tables look like
    moving   copies steps into the other form
    keeping  new months, and months that leave

`manage.py partitionsteps` and beat call it.
"""

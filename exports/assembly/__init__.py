"""How does a snapshot become a dataset?

    datasets  one dataset on disk
    parts     parts written by several processes
    building  from records to rows, with reasons
    card      the dataset's README
    storing   where files are stored
    s3        what a client of S3 raises
    lines     rows of a dataset by episode

`explain`, `jobs` and edges import it.
"""

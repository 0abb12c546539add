"""Why is a row in a dataset, or not?

    preview     what a recipe would give
    reasons     words for each code of a manifest
    explaining  why a row or episode is there
    comparing   differences between two datasets
    learned     rows of a dataset, by name
    errata      rows that a repaired verifier changes

`jobs` and edges import it.
"""

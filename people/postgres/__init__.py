"""Which backend does the database have?

    base  cursors, and how a pooled connection is checked

Django loads it by the setting `ENGINE`.
"""

"""Django's backend for PostgreSQL with what our load needs: `ENGINE` of the database.

base  its cursor, and how a pooled connection is checked
"""

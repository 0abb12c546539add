"""Django's backend for PostgreSQL with what our load needs: `ENGINE` of the database.

    base  its cursor, and checks of pooled connections
"""

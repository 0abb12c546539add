"""Who changes an export?

    requesting   request, claim, finish, cancel, delete
    working      builds one export to its end
    pushing      pushes to the Hub
    hub_commits  writes a folder to the Hub

Edges import it; no read does.
"""

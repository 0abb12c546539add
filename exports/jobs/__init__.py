"""Who changes an export?

    requesting   request, claim, finish, cancel, delete
    turns        whose turn it is
    working      builds one export to its end
    pushing      pushes to the Hub
    hub_commits  writes a folder to the Hub

Edges import it; no read does.
"""

"""Who changes an export?

    requesting   request, claim, finish, cancel, delete
    removing     files that no export has any more
    turns        whose turn it is
    working      builds one export to its end
    pushing      pushes to the Hub
    hub_commits  writes a folder to the Hub

Edges import it; no read does.
"""

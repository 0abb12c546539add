"""Who changes an import or a trace?

    importing   claim, read and store a file
    picturing   the pictures of one file
    collecting  spans, and traces as episodes

Edges import it; no read does.
"""

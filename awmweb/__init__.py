"""How the house is wired together: settings, urls, asgi, celery. No rules live here.

Imports nothing, so that the process that watches the others (`awmweb.embedded`) stays small.
"""

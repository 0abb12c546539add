"""How the parts of awmweb connect: settings, urls, asgi, celery. No rules live here.

Imports nothing, so that the supervisor (`awmweb.embedded`) stays small.
"""

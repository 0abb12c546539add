"""The world an agent acts in: packs of scenarios, a client, and (in `awmenv.server`) the environment server.

Owns the words and shapes of the environment's wire. Everything directly in this package may be imported by Django
processes: it imports no openenv and runs no dataset code. `awmenv.server` is private to the environment server's own
process.
"""

__version__ = "0.2.0"

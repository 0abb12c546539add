"""The world an agent acts in: packs of scenarios, a client, and (in `awmenv.server`) the environment server.

Owns the names and shapes of the environment's wire. Django processes can import everything directly in this package: it
imports no openenv and runs no dataset code. `awmenv.server` is private to the environment server's own process.
"""

__version__ = "0.2.0"

"""The world an agent acts in: packs of scenarios, a client, and (in `awmenv.server`) the environment server.

Owns the words and shapes of the environment's wire. Everything directly in this package may be imported by Django
processes: it imports no openenv and runs no dataset code. `awmenv.server` is private to the environment server's own
process.

    version    the number of awmweb, and the commit
    models     names and shapes on the wire
    errors     errors with codes
    packs      reads a folder of scenarios
    pack_rows  what a row of a pack holds
    blockers   what is missing in a task
    schemas    shorter schemas of tools
    rows       rows of strangers' files, within bounds
    indexes    what was learned about a pack's files
    health     the check of a verifier
    attesting  signed outcomes
    spans      spans of our processes, for a collector
    kept       databases of interrupted worlds
    client     a client of environment servers
    sent       addresses, batches, refusals
    repeated   calls that are made again
    batches    clients that share a connection
    offers     what a plain OpenEnv server offers
    plain      a client of plain OpenEnv servers
    worlds/    public benchmarks of other packages as packs
    server/    the environment server, a process of its own
"""

"""How does a world live on the server?

    library      the packs of a server
    loading      what a scenario's process reports
    scenario     the pool of warm templates
    hosts        a template, and a session's process
    shared       what all sessions of a server share
    copies       a session's copies of its database
    verifying    a session's verification
    sessions     one episode's world
    channel      the server's end of a session
    turns        who uses the cores now
    marks        how a world can be made again
    snapshots    databases of recorded worlds
    recovery     a database as last committed
    environment  openenv's Environment over sessions
    wire         fields of observations and state
    checkup      databases and verifiers of a pack
    census       counts and ends stray processes

`channels` and `app` import it.
"""

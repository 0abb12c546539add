"""The environment server's own process: openenv's app, sessions, scenario hosts, the verifier, and their sandbox.

Private: nothing outside `awmenv.server` imports it, but for
`awmenv.server.verifier.run_verifier`, which works imported alone.

    __main__   the command that starts the server
    app        the web application
    shells     libraries that are left out
    settings   settings from the environment
    channels/  who can connect, and for what
    session/   a world on the server
    verify/    verifier, judge, differences
    sandbox/   how dataset code is confined
    world/     what runs inside a scenario's process
    database   a scenario's database, as untrusted bytes
    verifier   runs verifiers in sandboxed children
    checkpack  the command that checks verifiers
    strict     JSON of unknown origin, bounded
    blotting   secrets removed from responses
    workplace  the server's folder on disk
    logs       log lines that no one can forge
"""

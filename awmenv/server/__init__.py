"""The environment server's own process: openenv's app, sessions, scenario hosts and the verifier, and the sandbox they
run in.

Private: nothing outside `awmenv.server` imports it, but for
`awmenv.server.verifier.run_verifier`, which works imported alone.
"""

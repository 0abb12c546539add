"""The environment server's own process: openenv's app, sessions, scenario hosts, the verifier, and their sandbox.

Private: nothing outside `awmenv.server` imports it, except `awmenv.server.verifier.run_verifier`, which works imported
alone.
"""

"""Who can connect to the environment server, and for what?

    gate          who can connect, and how much
    pacing        a client's share of the event loop
    connections   who is connected to which episode
    control       the control channel, `/ws`
    agent         the agent's channel, `/mcp`
    start_tables  start tables for the dashboard

`awmenv.server.app` imports it.
"""

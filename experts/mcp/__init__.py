"""How does an agent ask over MCP?

    server    the MCP server
    offers    its tools, as callers see them
    tasks     asks that a client polls as tasks
    callers   who sends a request; refusals
    messages  a client's message: within bounds, read once
    sessions  MCP sessions in the database
    desk      reading tools for a person's own agent

Only `awmweb.asgi` and `awmweb.preloaded` import it.
"""

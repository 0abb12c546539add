"""How does an agent ask over MCP?

    server    the MCP server and its one tool
    sessions  MCP sessions in the database

Only `awmweb.asgi` imports it.
"""

"""How do steps come in, and reach open pages?

    intake     appends, below Django's middleware
    reading    reads of steps, in turn
    hub        one subscription for all sockets of a process
    wire       one frame for many sockets
    live_html  frames with HTML for live pages
    consumers  one socket per watched episode

`awmweb.asgi` and `experts.consumers` import it.
"""

"""Which pages show episodes?

    many       the list, its filters and selections
    one        one episode: live, replay, connect
    comparing  several episodes side by side

Only `episodes/urls.py` and `awmweb/views.py` import it.
"""

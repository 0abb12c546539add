"""Which pages show episodes?

    many       the list, its filters and selections
    one        one episode: live, replay, connect
    comparing  several episodes side by side
    picture    a picture of an episode

Only `episodes/urls.py`, `episodes/api.py` and `awmweb/views.py` import it.
"""

"""What goes when an episode, or what a person wrote, is erased?

    datasets    datasets that have rows of an episode
    episodes    an episode, with everything that hangs on it
    written     where an account's words are
    names       names that an account has and had
    signatures  names of an account's personal tokens
    persons     what a person wrote
    telling     what fell from where, as a table

`manage.py erase` and the page of an episode call it.
"""

"""What a request brings, and how much of it is taken.

    addresses   the project in the address of a page
    sessions    sign-in sessions in the database
    bodies      limits on request bodies, per sender
    turns       turns at heavy reads, per sender
    aside       reads a body beside the event loop
    parts       parts of pages, opened without their page
    forms       forms and addresses of pages, read into shapes
    form_ids    one row for a form sent twice
    selections  keeps what a refused command was for

Says nothing about rights: that is `access`, which reads the address.
"""

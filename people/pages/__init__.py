"""Which pages show members, tokens and projects?

    people    sign-in, members, API tokens, choice of project
    projects  projects and their audit trail

Only `people/urls.py` imports it.
"""

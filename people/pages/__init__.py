"""Which pages show members, tokens and projects?

    entering       how a session begins
    people         sign-in, members, API tokens, choice of project
    projects       projects and their audit trail
    provider       sign-in by OpenID Connect
    provider_urls  its addresses, only where it is set
    second_factor  second factors of sign-in links
    second_urls    its addresses, only where they are on

Only `people/urls.py` imports it, and settings name adapters in `provider`.
"""

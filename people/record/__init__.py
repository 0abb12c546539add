"""All writes about people and projects, and of what they claim.

    audit        the one write of the audit trail
    members      members, tokens and links
    projects     create, rename, archive, restore
    factors      second factors of people
    following    rights as the sign-in provider says
    holding      legal holds
    saved_views  saved views of a list
    jobs         a job that one worker claims
    keyed_writes calls with a key, and their answers
    leasing      claim, renew and release a slot

Each write that people can see is in the audit trail.
"""

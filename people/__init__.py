"""Who is signed in, in which project, with which rights?

    models        projects, memberships, tokens, links, audit entries
    errors        refusals of all apps, with codes
    states        rows of the tables of states
    slots         columns and states of a claimable slot
    text/         cleans, draws and reads text of strangers
    requests/     what a request brings, and its bounds
    identity      claims of a sign-in provider as rights
    access        one function per right; scoped querysets
    revalidation  whether open sockets may stay open
    audit_trail   reads of the audit trail
    operating     what needs an operator, as apps register it
    measures      counts and times of processes, in Valkey
    sealing       boxes for secrets in the database
    rates         a share with its interval
    rows          model rows from a statement in SQL
    postgres/     the database's backend: cursors, checked connections
    record/       all writes: audit, members, projects, factors, holds, jobs
    known_tokens  tokens remembered for a moment
    keyed_calls   a key makes a repeated call safe
    http          the JSON API's door: actor, body, errors
    served        calls that are served below Django, declared once
    pages/        sign-in, members, API tokens, projects, audit
    sweeping      parts of a periodic task, each for itself
    watching      asks the sign-in provider, by Celery
    urls          addresses of its pages
    apps          registration of the app
    management/   commands loginlink, resetfactor, createproject, createtoken

Every app imports it; it imports no other app.
"""

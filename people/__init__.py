"""Who is signed in, in which project, with which rights?

    models        projects, memberships, tokens, links, audit entries
    errors        refusals of all apps, with codes
    states        rows of the tables of states
    slots         columns and states of a claimable slot
    sessions      sign-in sessions in the database
    addresses     the project in the address of a page
    identity      claims of a sign-in provider as rights
    access        one function per right; scoped querysets
    revalidation  whether open sockets may stay open
    audit_trail   reads of the audit trail
    plain_text    cleans hostile text for display; line ends
    prose         text as HTML, Markdown as a safe subset
    figures       the grammar of charts
    in_words      counts, durations and sizes as words
    zones         the reader's time zone
    json_text     strict JSON of strangers, within bounds
    yaml_text     YAML of strangers, within bounds
    spreadsheets  CSV files without formulas
    measures      counts and times of processes, in Valkey
    sealing       boxes for secrets in the database
    rates         a share with its interval
    rows          model rows from a statement in SQL
    postgres/     the database's backend: cursors, checked connections
    bodies        limits on request bodies, per sender
    turns         turns at heavy reads, per sender
    audit         the one write of the audit trail
    holding       writes: legal holds
    jobs          a job that one worker claims
    leasing       claim, renew and release a slot
    members       writes: members, tokens and links
    projects      writes: create, rename, archive, restore
    factors       writes: second factors of people
    following     writes: rights as the sign-in provider says
    saved_views   writes: saved views of a list
    form_ids      one row for a form sent twice
    selections    keeps what a refused command was for
    known_tokens  tokens remembered for a moment
    http          the JSON API's door: actor, body, errors
    parts         parts of pages, opened without their page
    pages/        sign-in, members, API tokens, projects, audit
    watching      asks the sign-in provider, by Celery
    urls          addresses of its pages
    apps          registration of the app
    management/   commands loginlink, resetfactor, createproject, createtoken

Every app imports it; it imports no other app.
"""

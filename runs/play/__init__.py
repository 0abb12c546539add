"""How is one episode run in the worker?

    playing       one queued episode, to its outcome
    plain_world   an episode on a plain OpenEnv server
    person        turns of a person, for an agent
    local         the dashboard port in process
    database      how an episode's coroutine reaches the database
    parking       when a waiting episode frees its thread
    distilling    a briefing from earlier episodes
    probing       cheap attempts at tasks
    blocking      tasks with blockers, proven
    certifying    replays that prove a record
    forking       branches from a step of an ended episode
    prompting     a prompt to continue one elsewhere
    campaigning   the same change in many episodes
    reverifying   stored episodes judged again
    environment   status of the environment server
    start_tables  tables that a world began with

Tasks and commands import it; pages only `campaigning`, `environment`, `forking`, `person`, `prompting`,
`reverifying` and `start_tables`.
"""

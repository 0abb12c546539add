"""What happened?

    models/        runs, episodes, steps, outcomes, state table
    errors         refusals of recording
    events         topics, frames, the only publisher
    tool_schemas   whether a value fits a tool's schema
    closed_schemas a stranger's schema, made safe to run
    quoting        whether a text quotes a verifier
    stored/        rows and files as values
    visible/       what an actor can see of them
    find/          filters, search and lists
    show/          texts and drawings of steps
    templatetags/  template tags that draw
    record/        every write
    live/          sockets, hub, appends over HTTP
    pages/         pages of one and of many episodes
    api            the JSON API of episodes and steps
    tasks          Celery: indexes new steps
    urls           addresses of its pages
    apps           registration of the app

Every app above `people` imports it; `notices` only `events`.
"""

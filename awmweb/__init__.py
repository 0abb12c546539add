"""How the parts of awmweb connect: settings, urls, asgi, celery. No rules live here.

Imports nothing, so that the supervisor (`awmweb.embedded`) stays small.

    settings     settings from environment variables
    variables    how it reads them
    urls         all addresses
    navigation   the bar, its menus, what is marked
    searching    what the command palette finds
    old_addresses  where renamed pages are now
    asgi         HTTP, sockets, MCP on one port
    middleware   refusals as pages
    views        home, health, models, environment, legend
    templates    the template loader
    kept_files   static files of other versions
    preloaded    what is imported before services are forked
    celery       two queues with separate workers
    beat         the schedule of periodic tasks
    logs         no secret in a log line
    apps         registration of the app
    tasks        loads the demo, runs retention rules
    demo/        a recorded demo for new projects
    erasing/     deletes for good, leaves tombstones
    retention/   what goes by age, and what stays
    partitions/  steps by month
    metrics/     figures for Prometheus
    weights/     models on this machine, served and converted
    embedded/    supervisor, PostgreSQL, Valkey, backup
    management/  commands up, backup, restore, erase, retention, others
"""

import sys

# redis-py loads these wherever they are installed, for figures that it does not send here: three megabytes a process
sys.modules.setdefault("opentelemetry.sdk.metrics", None)  # type: ignore[arg-type]

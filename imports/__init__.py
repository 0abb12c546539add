"""Which data comes in from elsewhere?

    models       imports and their state, traces
    errors       refusals of imports
    readers/     file to trajectory, by format; pure
    spooling     rows that wait to be stored
    confining    memory and time of reading
    trace_process  the process in which traces are read
    record/      every write of imports and traces
    pages        the page Imports
    api          the JSON API of imports
    otlp_http    spans of OpenTelemetry's exporters
    tasks        Celery: reads files, wakes again, settles
    urls         addresses of its pages
    apps         registration of the app
    management/  commands import, read_import, read_traces

Only `awmweb` imports it.
"""

"""Which data leaves awmweb, and in which format?

    recipe       what an export is made by
    record       an episode as exports read it
    models       exports and pushes; state table
    errors       errors of exports
    rules/       leakage, redaction, pairs, tokens; pure
    formats/     one module per format; pure
    writers/     JSON lines, Parquet, Inspect logs
    select/      which episodes, read as records
    assembly/    a dataset, part by part
    explain/     preview, reasons, differences
    jobs/        writes: requests, builds, pushes
    pages/       the page Exports and downloads
    api          the JSON API of exports
    tasks        Celery: builds and pushes
    urls         addresses of its pages
    apps         registration of the app
    management/  commands export, explain, diff, push

Only `awmweb` imports it.
"""

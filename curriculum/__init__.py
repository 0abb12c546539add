"""What do we practice next, and with how much help?

    models       training steps, decisions, snapshots, levels
    errors       refusals of the curriculum
    rules/       ratio, levels, weights; pure
    counting     what the record says of rollouts
    next_tasks   every task with its weight
    snapshots    reads of snapshots
    show/        training as series, charts and files
    record/      every write of the curriculum
    api          the JSON API of training
    pages        the page Curriculum
    urls         addresses of its pages
    apps         registration of the app
    management/  commands curves, report

`exports` imports it.
"""

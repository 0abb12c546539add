"""What was launched, is it finished, and what does it show?

    models       plans, arms, planned tries, briefings, state table
    errors       errors of launching
    rewards/     reward profiles
    statistics/  comparisons, intervals, costs; pure
    taskset/     packs, splits and probes
    plan/        the typed plan, limits, servers, spending
    show/        comparison, tables, charts, report
    launch/      writes from launch to end
    play/        one episode, in the worker
    pages/       runs, briefings, tables
    api/         the JSON API of runs
    tasks        Celery: play, wake, pay rewards
    urls         addresses of its pages
    apps         registration of the app
    management/  commands run, benchmark, probe and others

`curriculum` and `exports` import it.
"""

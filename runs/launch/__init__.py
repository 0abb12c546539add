"""Who changes a run?

    launching      single episodes, the demo, waking workers
    selecting      which tasks a plan names
    cells          tries with their draws and episodes
    planning       launch, pause, resume, cancel, retry, add seeds
    foreign_tasks  tasks of a plain OpenEnv server
    feeding        calls workers for the next tries
    briefings      what agents read before they begin
    preflight      what would weaken a comparison
    estimating     time, tokens and money of a plan
    outages        models that take no request now
    slots          requests that a model server answers together
    relay          the next episode of a thread
    benchmarking   arms on a pack's tasks
    withdrawing    takes back a gate that is worse
    paying         stores shaped rewards

`play`, edges and commands import it; no read does.
"""

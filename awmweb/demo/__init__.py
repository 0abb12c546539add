"""What does a new project show before anyone has worked in it?

    rows      rows of the recorded demo and their file
    due       which projects still wait for it
    loading   loads the recording into a new project, once
    removing  takes it out again

`python -m tools.record_demo` writes `recorded.jsonl.xz`. The worker loads it (`awmweb/tasks.py`), and Home removes it.
"""

"""Agent frameworks of others as loops: each module gives one of them `ask_expert` as its tool and records what it does.

A module imports its framework when it is imported itself, so the client needs none of them.
"""

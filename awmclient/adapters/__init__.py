"""Adapters for agent frameworks: each module gives a framework `ask_expert` as a tool and records its agent.

A module imports its framework when it is imported itself, so the client needs none of them.
"""

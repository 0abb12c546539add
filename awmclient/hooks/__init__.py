"""Hooks of coding agents: their permission prompts become asks at a desk, their sessions episodes.

    desk         where the dashboard is
    calls        calls to it, in the standard library
    shown        what a person reads of a call
    tools        what each coding agent sends and takes
    session      one session's episode, over many processes
    local        whether a prompt was answered in the terminal
    running      one call of a hook
    opencode     the plugin that OpenCode loads
    installing   the tools' own settings

A tool starts a process for each event and waits for it, so these modules import nothing else of awmclient: pydantic
and httpx take longer to load than a hook may take.
"""

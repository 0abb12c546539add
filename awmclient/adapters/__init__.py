"""Adapters for agent frameworks: each module gives a framework `ask_expert` as a tool and records its agent, or lets
its pauses be decided at the desk.

A module imports its framework when it is imported itself, so the client needs none of them.

    recording        an episode as a framework lives it
    transcript       order of steps
    pausing          pauses of agents, decided at the desk
    human_interrupt  approvals of LangGraph
    missing          words for a missing framework
    ag_ui            AG-UI
    inspect_ai       Inspect AI
    langgraph        LangGraph and LangChain
    openai_agents    the OpenAI Agents SDK
    openenv          the harness of OpenEnv
    openenv_worlds   sessions of an environment server
    openenv_collect  its command `openenv collect`
    harbor           trials of Harbor
    atif_steps       their trajectories, as steps
    openenv_harbor   the command `openenv harbor`
    pydantic_ai      PydanticAI
    smolagents       smolagents
"""

"""How does a rollout loop, built-in or external, talk to the dashboard?

Rooms, from the ground up; each imports those above it in this list:

    nouns/        shapes that cross a process
    errors        one class per cause
    words/        what models and agents read and write
    policies      the port of a policy
    record/       what becomes a step
    asking/       when an agent asks, which calls wait
    client/       the dashboard over HTTP
    choosing/     policies: chat model, script, captures
    loop/         the loop and its ports
    testing       a dashboard and environment for tests
    adapters/     agent frameworks as loops
    hooks/        coding agents, alone
    checking/     numbers of a report, alone

Public paths, for users; no module of this package imports one:

    schema        every shape
    rollout       the loop
    collecting    episodes recorded at their end
    chat          the policy that asks a chat model
    captures      token traces
    conversation  a record as the agent's messages
    toolcalls     tool calls as agents write them
    check         recomputes what a report says
    __main__      the command `awmclient`

It imports no package of awmweb.
"""

"""How does a rollout loop, built-in or external, talk to the dashboard?

    schema        every shape that crosses a process
    fields        limits of fields
    typed         typed asks and decisions
    interrupts    pauses of other agents, in AG-UI's words
    errors        one class per cause
    faults        whose doing a failed turn is
    metrics       metrics of the desk, on the wire
    bodies        what a loop sends, for the wire
    wire          one request, its retries and envelope
    outbox        order of one episode's calls
    client        the dashboard over HTTP
    collecting    finished episodes, many in one request
    ports         what a loop needs of others
    policies      the port of a policy
    rollout       the loop
    standing      a loop's knowledge, folded from steps
    restoring     a lost world, made again
    observations  results as steps
    toolcalls     tool calls as agents write them
    wheel         a person who acts for the agent
    gates         calls that wait for an approval
    asking        when an agent is offered help
    thinking      what a model thought, in each endpoint's form
    conversation  a record as the agent's messages
    captures      token traces of a capture server
    prompts       words for a chat model
    chat          a policy that asks a chat model
    scripted      a policy that runs a script
    listening     patterns of scripts, in linear time
    blotting      secrets removed from responses
    memory_store  a dashboard's record in memory
    testing       a dashboard and environment for tests
    adapters/     agent frameworks as loops

`awmweb` and every app can import `schema`; `runs` imports the rest. It imports no package of awmweb.
"""

"""What do models, agents and scripts read and write?

    prompts       words for a chat model
    toolcalls     tool calls as servers return them
    arguments     arguments that a tool does not have
    textcalls     tool calls in an agent's words
    thinking      what a model thought, in each endpoint's form
    conversation  a record as the agent's messages
    shown         pictures among messages
    endings       how a model's turn ended
    faults        whose doing a failed turn is
    listening     patterns of scripts, in linear time
    pictures      pictures, as other formats write them
    blotting      secrets removed from responses
    encoding      what is sent, as JSON

Pure. It imports `nouns` and `errors`.
"""

"""Who answers an agent that asks, and with what?

    models/        asks, advice, desk; state tables
    errors         refusals of the queue
    events         live hints of the queue
    endings        words for the end of an ask
    rules/         routing, suggested calls, interrupts; pure
    who/           who gets an ask, and who can claim
    find/          queue, panels, similar answers
    metrics/       metrics of the desk
    notifications  an ask as a notification's subject
    record/        every write of asks and the desk
    llm            the model expert
    looking        the second look of a model
    slack_answers  writes: answers from Slack, after the look
    consumers      queue socket and waiting poll
    mcp/           the desk as an MCP tool
    pages/         queue, ask, answer, routing
    api            the JSON API of asks
    tasks          Celery: closes asks, runs models, Slack
    urls           addresses of its pages
    apps           registration of the app

`runs`, `curriculum` and `exports` import it.
"""

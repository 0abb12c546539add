"""When may an agent ask, and which of its calls wait?

    gates  calls that wait for an approval
    rules  when an agent is offered help

Pure. The loop imports it, and the apps import it to plan and show runs.
"""

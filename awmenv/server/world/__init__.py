"""What runs inside a scenario's process?

    host        template and forks of an app
    seeding     builds a scenario's database
    tools       from OpenAPI to tools and back
    worldclock  clock and chance of a call
    rehearsal   a sample app, run before forks

Only processes of the sandbox import it, and the modules that start them.
"""

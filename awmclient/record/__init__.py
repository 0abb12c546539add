"""What becomes a step, and what follows from the steps so far?

    observations  results as steps
    wheel         a person who acts for the agent
    progress      a loop's knowledge, folded from steps

Pure. `asking`, `client` and the rooms above them import it.
"""

"""How is a training shown?

    cockpit          what the page shows
    series           training, step by step
    rounds           checkpoints, and how they did
    generations      turns beside their rewards
    charts           series as Plotly figures
    training_report  files of the commands

Pages and commands import it; it writes nothing.
"""

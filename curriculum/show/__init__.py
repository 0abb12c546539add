"""How is a training shown?

    cockpit          what the page shows
    series           training, step by step
    generations      turns beside their rewards
    before_after     beginning and end of a run
    charts           series as Plotly figures
    drawing          beginning and end as PNG
    training_report  files of the commands

Pages and commands import it; it writes nothing.
"""

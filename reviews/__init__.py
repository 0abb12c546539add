"""What do people say about an episode afterward?

    models/        annotations, verdicts, queues, corrections, rulings
    errors         refusals of reviewing
    visible/       annotations and rulings that an actor sees
    statistics/    agreement, progress, worth of a look
    notifications  a comment as a notification's subject
    record/        every write
    pages/         queues, reviews, comments, the court
    api            the JSON API of reviews
    tasks          the sweep of queues with a rule
    urls           addresses of its pages
    apps           registration of the app

`experts` and the apps above it import it.
"""

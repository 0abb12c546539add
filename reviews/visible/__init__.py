"""Which annotations and rulings can an actor see?

    annotated    annotations that count, for an actor
    places       parts of steps that labels mark
    label_forms  what label forms contain
    narrowing    verdicts and labels as filters
    rulings      doubted tasks and rulings

Pages, `record` and upper apps import it; it writes nothing.
"""

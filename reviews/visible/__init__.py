"""Which annotations and rulings can an actor see?

    annotated    annotations that count, for an actor
    pairs        A and B, as a reviewer sees them
    own          what one gave, and whether it differs
    places       parts of steps that labels mark
    label_forms  what label forms contain
    narrowing    verdicts and labels as filters
    rulings      doubted tasks and rulings

Pages, `record` and upper apps import it; it writes nothing.
"""

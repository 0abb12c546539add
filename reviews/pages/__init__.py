"""Which pages show reviews?

    queues    review queues and agreement
    adding    episodes into a queue
    pair      two episodes side by side
    one       one review with its forms
    next      the review after this one
    comments  comments that name a person
    labels    labels on selected episodes
    court     doubted tasks and rulings

Only `reviews/urls.py` imports it.
"""

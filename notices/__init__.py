"""Who is notified of what, over which channel?

    models            channels, deliveries, posts, quiet hours
    errors            refusals of channels and addresses
    events            live hints to one person's pages
    subjects          kinds of things that apps register
    address_registry  IP addresses with a special purpose
    outbound          one POST to the public network
    webpush           Web Push messages and their keys
    failing           channels that fail, for operators
    quoting           a receiver's response as one clean line
    record/           every write of channels and deliveries
    sending           sends due deliveries by each channel
    pages             the page Notifications
    tasks             Celery: sends deliveries, removes old ones
    urls              addresses of its pages
    apps              registration of the app

`reviews` and `experts` import it to register a kind and to queue notifications.
"""

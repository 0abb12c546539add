"""Who changes channels and deliveries?

    allowances     limits for unconfirmed addresses
    channels       a project's Slack channels, one message an ask
    deliveries     queue, reconsider and end deliveries
    slack          Slack messages and their changes
    subscriptions  channels and quiet hours

`sending`, pages and the writes of upper apps import it; no read does.
"""

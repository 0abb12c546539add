"""How the product is wired together: settings, urls, asgi, celery. Holds no rules."""

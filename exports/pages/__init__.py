"""Which pages show exports?

    exports    recipe, preview, list, one export
    downloads  files, whole or by ranges

Only `exports/urls.py` and `exports/api.py` import it.
"""

"""What goes by age, and what stays although it is old?

    kinds/     all that a rule can erase
    rule_pass  figures, batches and tombstones of a pass
    rules      rules of a project, read and set
    reasons    why an episode is left out
    emptying   takes out words of steps and models
    passes     one pass over a project, or its preview
    telling    a pass as lines
    pages      the page Retention

Beat, `manage.py retention` and the page call it.
"""

"""The template loader: layout for readers of the source stays in the source."""

import re

from django.template import Origin
from django.template.loaders import filesystem


class Loader(filesystem.Loader):
    """Loads templates without their indentation.

    Steps are rendered thousands of times and sent over sockets; a laid-out template would double their size. Any run of
    white space counts as one in HTML, except in elements that keep theirs (`pre`, `textarea`): templates put nothing
    but a variable in those (tests/test_templates.py).
    """

    def get_contents(self, origin: Origin) -> str:
        return re.sub(r"\s*\n\s*", "\n", super().get_contents(origin))

"""The template loader: removes the source's indentation from pages."""

import re

from django.template import Origin
from django.template.loaders import filesystem


class Loader(filesystem.Loader):
    """A loader of templates without their indentation.

    Steps are rendered thousands of times and sent over sockets; indentation would double their size. Any run of white
    space counts as one in HTML, except in `pre` and `textarea`: templates put only a variable in those
    (tests/test_templates.py).
    """

    def get_contents(self, origin: Origin) -> str:
        return re.sub(r"\s*\n\s*", "\n", super().get_contents(origin))

"""Names of runs that tell them apart: of several with one name, the later ones have a number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from episodes.models import Run
from people.access import scoped
from people.models import Project


def apart(project: Project, names: Mapping[str, str]) -> dict[str, str]:
    """Return the names of runs by their IDs, numbered in the order of their creation where a name has several."""
    same = scoped(Run.objects.filter(name__in=set(names.values())), project).order_by("created_at", "pk")
    numbers: dict[str, int] = {}
    seen: Counter[str] = Counter()
    for pk, name in same.values_list("pk", "name"):
        seen[name] += 1
        numbers[pk] = seen[name]
    return {pk: f"{name} #{numbers[pk]}" if pk in numbers and seen[name] > 1 else name for pk, name in names.items()}

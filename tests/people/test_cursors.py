"""Statements with more parameters than PostgreSQL takes."""

from __future__ import annotations

import pytest

from people.cursors import PARAMETERS_MAX
from people.models import Project


@pytest.mark.django_db
@pytest.mark.parametrize("count", [PARAMETERS_MAX, PARAMETERS_MAX + 1, 70_000])
def test_statement_takes_any_number_of_parameters(project, count):
    names = [project.slug, *(f"100% {number}" for number in range(count - 1))]
    assert list(Project.objects.filter(slug__in=names)) == [project]

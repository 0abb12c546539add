"""Fixtures that every package's tests share."""

from tests.house import django_db_modify_db_settings, house_servers
from tests.people_by_name import ada, edo, elsewhere, max_, project, rita

__all__ = ["ada", "django_db_modify_db_settings", "edo", "elsewhere", "house_servers", "max_", "project", "rita"]

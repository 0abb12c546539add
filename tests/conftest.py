"""Fixtures that every package's tests share."""

import gc
import resource
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests.browsing import Browser
from tests.house import django_db_modify_db_settings, house_servers
from tests.people_by_name import ada, edo, elsewhere, max_, project, rita
from tests.running import Product, product

LONG_FIRST = ["chaos", "product", "browser", "runs", "awmweb", "awmenv", "packs_starter"]
"""Folders whose tests start servers, those with the longest tests first."""

SHARING = {"product": "house", "browser": "house of browsers", "frameworks": "house", "coding_agents": "house"}
"""Folders whose files share `house`, as the test of logs does, but for those below. Each group has one of its own:
in one process they would take longer than all other tests in the others.
"""
DESK = (
    "answering",
    "calling_people",
    "catch_up",
    "long_episode",
    "every_page",
    "interrupted",
    "push_page",
    "queue_beside",
    "two_at_the_queue",
    "two_projects",
)
"""Files that share `desk` (`browser/conftest.py`)."""
MODELS = ("briefings", "models")
"""Files that share `own_models` (`product/conftest.py`)."""
ROLES = ("needs_on_home", "wheel")
"""Files that share `roles` (`browser/conftest.py`)."""
DOORS = {"second_factor": "two factors", "sign_in": "lab", "sign_in_page": "lab"}
"""Files that share `two_factors`, below, or `lab` (`provider.py`)."""
OF_CODE = ("docs", "layers", "style", "walls")
"""Files that read the product's own code, parsed once for all of them (`parsed.py`)."""
OWN = (
    "deciding",
    "growth",
    "kill",
    "operating",
    "own_servers",
    "parked",
    "proxies",
    "restart",
    "story",
    "traces",
)
"""Files with a product of their own, or none."""

# What limits time, or guesses that data come slowly, is red on a slow machine
hypothesis.settings.register_profile("any machine", deadline=None, suppress_health_check=list(hypothesis.HealthCheck))
hypothesis.settings.load_profile("any machine")

__all__ = ["ada", "django_db_modify_db_settings", "edo", "elsewhere", "house_servers", "max_", "project", "rita"]


def group_of(file: str) -> str:
    """What a file shares with others, or itself: one process runs all files of a group, one after the other."""
    path = Path(file)
    name = path.stem.removeprefix("test_")
    if name in OF_CODE:
        return "code"
    if name in OWN or path.parts[1] not in SHARING and path.name != "test_logs.py":
        return file
    if name in MODELS:
        return "models"
    if name in ROLES:
        return "roles"
    if name in DOORS:
        return DOORS[name]
    return "desk" if name in DESK else SHARING.get(path.parts[1], "house")


@pytest.fixture
def client() -> Browser:
    """A stranger's browser, until it opens a link."""
    return Browser()


_kept: dict[str, tuple[Callable[[str], bool], ExitStack, Any]] = {}


def kept(request: pytest.FixtureRequest, made: AbstractContextManager[Any], wanted: Callable[[str], bool]) -> Any:
    """Enter what several files share, if it is not there; it ends as soon as the next test's file does not want it.

    A product costs a core a twentieth of its time, also while no one looks at it.
    """
    if request.fixturename not in _kept:
        stack = ExitStack()
        _kept[request.fixturename] = wanted, stack, stack.enter_context(made)
    return _kept[request.fixturename][2]


def _limits() -> list[tuple[int, int]]:
    """What this process may take. What a test leaves lowered ends tests far from it, or the process."""
    return [resource.getrlimit(one) for one in (resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_FSIZE)]


LIMITS = _limits()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    yield
    assert _limits() == LIMITS, "a test leaves limits of the process as it changed them"
    for name, (wanted, stack, _) in reversed(list(_kept.items())):
        if nextitem is None or not wanted(_file(nextitem)):
            del _kept[name]
            stack.close()


def _file(item: pytest.Item) -> str:
    return item.nodeid.split("::")[0]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first: a process is given its next file while two tests are left of the one before, so that long
    files of one test each, at the end, would all go to the same one.
    """
    order, groups = {name: number for number, name in enumerate(LONG_FIRST)}, ["house", "house of browsers", "desk"]

    def place(item: pytest.Item) -> tuple[bool, int, int]:
        group = group_of(_file(item))
        rank = groups.index(group) if group in groups else len(groups)
        return item.get_closest_marker("long") is None, rank, order.get(Path(_file(item)).parts[1], len(order))

    items.sort(key=place)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Without garbage collection, which would look at thousands of tests again and again; all of them stay."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """With `--dist loadfile` a file's tests stay in one process, and so do the files that share a product."""
    from xdist.scheduler import LoadFileScheduling  # the environments of trainers and frameworks do without

    class Together(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(super()._split_scope(nodeid))

    return Together(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.fixture(scope="module")
def house(request: pytest.FixtureRequest) -> Product:
    """One running product for all tests that may share it; without the demo run."""
    return kept(request, product(), lambda file: group_of(file) in SHARING.values())


@pytest.fixture(scope="module")
def two_factors(request: pytest.FixtureRequest) -> Product:
    """A product whose people add a second factor; each file has people of its own."""
    return kept(request, product(AWMWEB_MFA="1", world=False), lambda file: group_of(file) == "two factors")

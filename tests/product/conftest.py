"""Products that several files of this folder share."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.awmclient.openai_server import OpenAIServer, answering
from tests.conftest import group_of, kept
from tests.provider import lab  # noqa: F401
from tests.running import Product, product

AGENT_KEY, EXPERT_KEY = "sk-agent-0123456789abcdef", "sk-expert-fedcba9876543210"
JUDGE = {
    "API_KEY": "sk-judge-0123456789",
    "HEADERS": '{"X-Tenant": "tenant-0123456789"}',
    "QUERY": "code=q-0123456789",
}


@pytest.fixture(scope="module")
def two_webs(request: pytest.FixtureRequest) -> Product:
    """Two web processes behind one port; the files that ask for it stand beside each other."""
    return kept(request, product(AWMWEB_WEB_PROCESSES="2"), lambda file: Path(file).parts[1] == "product")


@pytest.fixture(scope="module")
def own_models(request: pytest.FixtureRequest) -> tuple[Product, OpenAIServer]:
    """A product whose roles all have an endpoint. One server: each file says what it replies to which key."""
    return kept(request, _own_models(), lambda file: group_of(file) == "models")


@contextmanager
def _own_models() -> Iterator[tuple[Product, OpenAIServer]]:
    endpoint = OpenAIServer(lambda body: "")
    with answering(endpoint):
        settings = {
            "AWMWEB_AGENT_BASE_URL": endpoint.base_url, "AWMWEB_AGENT_MODEL": "tiny",
            "AWMWEB_AGENT_API_KEY": AGENT_KEY,
            "AWMWEB_EXPERT_BASE_URL": endpoint.base_url, "AWMWEB_EXPERT_MODEL": "wise",
            "AWMWEB_EXPERT_API_KEY": EXPERT_KEY,
            "AWMENV_JUDGE_BASE_URL": endpoint.base_url, "AWMENV_JUDGE_MODEL": "solomon",
            **{f"AWMENV_JUDGE_{name}": value for name, value in JUDGE.items()},
        }  # fmt: skip
        with product(**settings) as running:
            yield running, endpoint

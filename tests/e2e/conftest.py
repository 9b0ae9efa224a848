"""End-to-end tests run only with LOCUS_E2E=1 (scripts/e2e); each for every client that is installed."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventlog.store import Store

from .clients import Client, find_claude_code, find_codex, find_opencode
from .desk import Desk, install_hooks, open_desk

HERE = Path(__file__).parent
FINDERS = {"codex": find_codex, "claude-code": find_claude_code, "opencode": find_opencode}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.environ.get("LOCUS_E2E") != "1":
        for item in items:
            if HERE in item.path.parents:
                item.add_marker(pytest.mark.skip(reason="runs true clients: scripts/e2e"))


@pytest.fixture(params=list(FINDERS))
def client(request: pytest.FixtureRequest) -> Client:
    found = FINDERS[request.param]()
    if found is None:
        pytest.skip(f"{request.param} is not installed: scripts/e2e")
    return found


@pytest.fixture
def bare(client: Client, tmp_path: Path) -> Iterator[Desk]:
    """A project with a store and no hooks."""
    with open_desk(client, tmp_path) as opened:
        Store.init(opened.store).close()
        yield opened


@pytest.fixture
def desk(client: Client, tmp_path: Path) -> Iterator[Desk]:
    """A project with a store and the hooks of `client`, which talks to a fake model."""
    with open_desk(client, tmp_path) as opened:
        install_hooks(opened)
        yield opened
        assert opened.model.strays == [], "the client wanted to talk to somebody else"

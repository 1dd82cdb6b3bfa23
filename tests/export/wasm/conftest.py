"""One process of node for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .node import Exported, Node, absent


@pytest.fixture(scope="session")
def process() -> Iterator[Node]:
    """A process of node; tests are skipped where there is none."""
    reason = absent()
    if reason:
        pytest.skip(reason)
    node = Node()
    yield node
    node.close()


@pytest.fixture
def exported(process: Node, tmp_path: Path) -> Exported:
    """Exports programs, and runs them in node and natively."""
    return Exported(process, tmp_path)

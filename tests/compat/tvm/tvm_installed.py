"""Whether there is a TVM to test against, and one of it for a whole file of tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from minitvm.compat.tvm.bridge import RealTVM, reason_missing

needs_tvm = pytest.mark.skipif(bool(reason_missing()), reason=reason_missing() or "TVM is there")


@pytest.fixture(scope="module")
def real() -> Iterator[RealTVM]:
    """TVM's process, started once a file."""
    with RealTVM() as tvm:
        yield tvm

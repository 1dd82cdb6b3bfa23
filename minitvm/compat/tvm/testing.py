"""TVM's `tvm.testing`: what scripts and tests compare with."""

from __future__ import annotations

import inspect
import sys
from typing import Any

from ...absent import absent

__all__ = ["assert_allclose", "main"]


def assert_allclose(actual: Any, desired: Any, rtol: float = 1e-7, atol: float = 1e-7) -> None:
    """Raise `AssertionError`, with the places that differ most, unless two arrays have one shape and are close."""
    import numpy as np

    one, other = np.asanyarray(actual), np.asanyarray(desired)
    if one.shape != other.shape:
        raise AssertionError(f"shapes differ: {one.shape} and {other.shape}")
    np.testing.assert_allclose(one, other, rtol=rtol, atol=atol, verbose=True)


def main() -> None:
    """Run the tests of the calling file with pytest, as `tvm.testing.main()` does."""
    import pytest  # type: ignore[import-not-found, unused-ignore]

    file = inspect.getsourcefile(sys._getframe(1))
    sys.exit(pytest.main([str(file), *sys.argv[1:]]))


def __getattr__(name: str) -> Any:
    raise absent("minitvm.testing", name, __all__)

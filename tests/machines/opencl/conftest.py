"""The cache and the way to a kernel that tests of the runtime have."""

from tests.runtime.conftest import kernel, own_cache

__all__ = ["kernel", "own_cache"]

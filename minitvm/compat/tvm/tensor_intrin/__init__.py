"""TVM's tensor intrinsics: `TensorIntrin.get` registers them when their names are asked for."""

from __future__ import annotations

from . import dot_products, mma, wmma


def register_named(name: str) -> None:
    """Make the intrinsic of this name known, if TVM has one."""
    dot_products.register_named(name)
    wmma.register_named(name)
    mma.register_named(name)


def require_known_dtypes(name: str) -> None:
    """Raise `InputError` for a name of `mma` with dtypes that the instruction does not have."""
    mma.require_dtypes(name)

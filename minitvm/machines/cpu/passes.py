"""The additional lowering passes of CPUs."""

from __future__ import annotations

from ...tir.transform.pipeline import Additions, plain
from ..simd.passes import PASSES as OF_VECTORS
from .inject_prefetch import inject_prefetch

PASSES: Additions = {
    **OF_VECTORS,
    "share_loads": (
        *OF_VECTORS["share_loads"],
        plain(inject_prefetch, "loops that stream through memory ask for it ahead of time"),
    ),
}

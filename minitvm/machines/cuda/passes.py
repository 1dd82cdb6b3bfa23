"""The additional lowering passes of NVIDIA's GPUs."""

from __future__ import annotations

from ...tir.transform.pipeline import Additions, plain
from ..gpu.passes import PASSES as OF_THREADS
from .swizzle_shared import swizzle_shared

PASSES: Additions = {
    **OF_THREADS,
    "align_storage": (
        plain(swizzle_shared, "pieces of the lines of swizzled tiles change places, so that columns lie in all banks"),
    ),
}

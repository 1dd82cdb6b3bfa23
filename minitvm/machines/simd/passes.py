"""The additional lowering passes of machines with vectors, each with the pass that it comes after."""

from __future__ import annotations

from ...tir.transform.pipeline import Additions, Pass, plain
from .transform.partition_loops import partition_loops
from .transform.skip_zeros import skip_zeros
from .transform.strided_loads import strided_loads
from .transform.strided_stores import strided_stores
from .transform.transpose_tiles import transpose_tiles
from .transform.unmask_registers import unmask_registers
from .transform.unswitch_tiles import unswitch_tiles
from .transform.vector_reductions import vectorize_reductions

PASSES: Additions = {
    "simplify": (plain(skip_zeros, "noted loops of a sum run only where they read something but padding"),),
    "unswitch_repeats": (
        plain(partition_loops, "iterations that need their conditions are peeled off the others"),
        plain(unswitch_tiles, "tiles that may stick out of a symbolic extent get versions without conditions"),
        Pass("vectorize_reductions", vectorize_reductions, "annotated reduction loops accumulate in several lanes"),
        plain(transpose_tiles, "copies that turn a tile around become shuffles of vectors"),
    ),
    "promote_accumulators": (
        plain(unmask_registers, "lanes of accumulators that nobody reads need no masks"),
        plain(strided_stores, "stores that fill one another's gaps become one of neighbours"),
    ),
    "share_loads": (plain(strided_loads, "loads of every second element become loads of vectors and shuffles"),),
}

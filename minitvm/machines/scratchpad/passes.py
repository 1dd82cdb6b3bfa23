"""The passes that lower programs for machines with scratchpads, in order.

`SCRATCHPADS` is for all such machines. `PASSES` is for the accelerator, whose modules wait for each other by tokens.
"""

from __future__ import annotations

from ...tir.transform import pipeline
from ...tir.transform.pipeline import Pass
from . import transform

_SHARED = {step.name: step for step in pipeline.PASSES}

SCRATCHPADS: tuple[Pass, ...] = (
    *(_SHARED[name] for name in ("dense_parameters", "lower_match_buffers", "lower_init", "drop_blocks", "simplify")),
    Pass("place_scratchpads", lambda func, _: transform.place_scratchpads(func), "storage is that of one tile"),
    _SHARED["compact_buffers"],
    Pass(
        "fold_nests",
        lambda func, _: transform.fold_nests(func),
        "loops around an element's instruction are the instruction's",
    ),
    Pass(
        "reuse_registers",
        lambda func, _: transform.reuse_registers(func),
        "operations work in place: their results lie where their first operands lay",
    ),
    _SHARED["inject_virtual_thread"],
    Pass("join_contexts", lambda func, _: transform.join_contexts(func), "loads of a context stand together"),
    _SHARED["flatten_buffers"],
    Pass("fetch_order", lambda func, _: transform.fetch_order(func), "a sequence of instructions, no loops"),
)

PASSES: tuple[Pass, ...] = (
    *SCRATCHPADS,
    Pass("delay_resets", transform.delay_resets, "registers are set to zero where they are first needed"),
    Pass("insert_tokens", transform.insert_tokens, "modules wait for each other by tokens"),
)

"""Hypothesis strategies for random programs, for tests of minitvm and of other compilers.

    @given(prim_funcs())
    def test_my_pass(func): ...

    prim_funcs      loop programs of several blocks: reductions, stencils, gathers, in-place updates, scans, ...
    small_programs  programs of ten lines, each about one thing: loops without iterations, threads that add up, ...
    te_computes     tensor expressions of several stages, with functions and symbolic dimensions if asked for
    graphs          small networks
    exprs           scalar expressions                arguments   arrays of small integers to call a function with
    schedules       a schedule of a program, each step one of the legal ones; scheduled: the pair, as a file to paste
    any_calls       a call of a schedule primitive that may be nonsense: it works or is refused, and never crashes
    accelerator_programs   instructions of the tensor accelerator, with the tokens that they need
    draw_pairs      not a strategy but a whole test: legal calls of one primitive on such programs, before against after
    try_pinned      the same without randomness: all legal calls of one primitive on small programs with dependences

They only draw legal programs by construction, and never filter. Programs are small (dimensions up to 8) and stay in
bounds. Integer inputs give integer results (sums, products, min, max, small constants), so that results can be compared
bit by bit.
"""

from .calls import any_calls
from .expressions import exprs
from .graphs import RandomGraph, graphs
from .pairs import draw_pairs
from .pinned import looks_at_dependences, try_pinned
from .programs import KINDS, NEST_KINDS, arguments, prim_funcs
from .schedules import Scheduled, scheduled, schedules, steps
from .small import SMALL, small_programs
from .streams import accelerator_programs
from .tensors import STAGES, te_computes

__all__ = [
    "KINDS", "NEST_KINDS", "SMALL", "STAGES", "RandomGraph", "Scheduled", "accelerator_programs", "any_calls",
    "arguments", "draw_pairs", "exprs", "graphs", "looks_at_dependences", "prim_funcs", "scheduled", "schedules",
    "small_programs", "steps", "te_computes", "try_pinned",
]  # fmt: skip

"""All graph passes in order. If you have read this list, you have read the graph compiler.

Machines add passes that choose the dtypes of products, and passes for their layouts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...backend import lookup
from ...errors import verification_asked
from ...target import Target
from ...tir.passes import PassContext
from ..loop_bodies import everywhere
from ..nodes import Graph
from ..verify import verify_graph
from .byte_tables import byte_tables
from .common_subexpressions import common_subexpressions
from .constant_folding import Evaluate, constant_folding
from .dead_code import dead_code
from .divided_scales import divided_scales
from .fold_batch_norm import fold_batch_norm
from .fuse import fuse
from .group_norms import group_norms
from .half_products import half_products
from .integer_products import integer_products
from .loop_bodies import loop_bodies
from .moved_bytes import moved_bytes
from .pointwise_rows import pointwise_rows
from .simplify import simplify
from .split_conv_transpose import split_conv_transpose
from .split_einsum import split_einsum
from .split_pool import split_pool
from .split_resize import split_resize
from .stored_weights import stored_weights

Pass = tuple[str, Callable[[Graph], Graph]]
Callback = Callable[[str, Any, Any], None]


def passes(
    target: Target, evaluate: Evaluate | None = None, accuracy: str = "fast", engines: Sequence[Pass] = ()
) -> list[Pass]:
    """Return the passes for a target, in order, as pairs (name, pass). The passes `engines` give regions of the network
    to engines, before any other pass changes the operators.
    """
    return [
        ("dead_code", dead_code),
        ("loop_bodies", loop_bodies),
        *engines,
        ("moved_bytes", moved_bytes),
        ("byte_tables", byte_tables),
        *product_passes(target, accuracy),
        ("constant_folding", lambda graph: constant_folding(graph, evaluate)),
        ("simplify", simplify),
        ("divided_scales", lambda graph: divided_scales(graph, accuracy)),
        ("fold_batch_norm", fold_batch_norm),
        ("group_norms", group_norms),
        ("pointwise_rows", pointwise_rows),
        ("split_conv_transpose", split_conv_transpose),
        ("split_einsum", split_einsum),
        ("split_resize", split_resize),
        ("split_pool", split_pool),
        ("constant_folding", lambda graph: constant_folding(graph, evaluate)),
        ("common_subexpressions", common_subexpressions),
        *layout_passes(target, accuracy),
        ("constant_folding", lambda graph: constant_folding(graph, evaluate)),
        ("simplify", simplify),
        ("common_subexpressions", common_subexpressions),
        ("dead_code", dead_code),
        ("fuse", fuse),
    ]


def product_passes(target: Target, accuracy: str = "fast") -> list[Pass]:
    """Return the passes that choose the dtypes in which products are computed."""
    products = lookup(target, "products") or products_of_bytes_and_halves
    return list(products(target, accuracy))


def products_of_bytes_and_halves(target: Target, accuracy: str) -> list[Pass]:
    """Return the default passes for products.

    They use integers for bytes, store weights as bytes, and choose the target's best form for 16-bit floats.
    """
    return [
        ("integer_products", integer_products),
        ("stored_weights", lambda graph: stored_weights(graph, accuracy)),
        ("half_products", lambda graph: half_products(graph, target, accuracy)),
    ]


def layout_passes(target: Target, accuracy: str = "fast") -> list[Pass]:
    """Return the passes that put values into the layouts that the target's back end prefers."""
    layouts = lookup(target, "layouts")
    return list(layouts(target, accuracy)) if layouts is not None else []


def optimize(
    graph: Graph,
    target: Target | str = "cpu",
    *,
    evaluate: Evaluate | None = None,
    callback: Callback | None = None,
    accuracy: str = "fast",
    engines: Sequence[Pass] = (),
) -> Graph:
    """Run all passes over a graph and return the optimized graph.

    In the result, each node is a fused group, or a loop whose body contains only fused groups. `evaluate(node, arrays)
    -> arrays` computes constant nodes that have no NumPy `fold`. `callback(name, before, after)` is called after each
    pass. `accuracy="strict"` allows only algorithms whose error bound is no larger than that of the sums as written. If
    MINITVM_VERIFY=1 is set in the environment, the verifier runs after each pass.
    """
    machine = Target.of(target)
    checked = verification_asked()
    for name, function in passes(machine, evaluate, accuracy, engines):
        before, graph = graph, PassContext.current().run(name, everywhere(function), graph)
        if checked:
            verify_graph(graph)
        if callback is not None:
            callback(name, before, graph)
    return graph

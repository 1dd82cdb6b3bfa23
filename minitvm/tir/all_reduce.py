"""`AllReduce`: the threads of a block combine their values, and each one gets the result (TVM's tvm_thread_allreduce).

    with T.attr(T.comm_reducer(lambda x, y: x + y, [T.float32(0)]), "reduce_scope", T.reinterpret("handle", ...)):
        T.tvm_thread_allreduce(T.uint32(1), P[0], True, R[0], tx)

Lowering turns each cross-thread reduction into an `AllReduce`, and each `AllReduce` into shuffles or a tree in shared
storage.
"""

from __future__ import annotations

from ..errors import TypeMismatch
from ..expr import Expr, Node, Var, node, substitute
from .nodes import BufferStore, Stmt


@node
class AllReducer(Node):
    """An associative operation on tuples: `combined` is the result for the earlier values `left` and the later values
    `right`.

    Combining `identity` with a tuple does not change the tuple.
    """

    left: tuple[Var, ...]
    right: tuple[Var, ...]
    combined: tuple[Expr, ...]
    identity: tuple[Expr, ...]
    _children = ("combined", "identity")
    _defs = ("left", "right")

    def apply(self, left: tuple[Expr, ...], right: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """Return the combination of two tuples of values."""
        values = dict(zip((*self.left, *self.right), (*left, *right), strict=True))
        return tuple(substitute(e, values) for e in self.combined)


@node
class AllReduce(Stmt):
    """Combines one tuple of values from each thread, and gives each thread the combined `totals`.

    A thread contributes `values` if `condition` holds, and the identity otherwise. `totals` are the variables for the
    results, and `stores` store them in each thread. `threads` are the variables of the loops over threadIdx that take
    part, outermost first; values are combined in the order of these threads. All threads of the block must reach this
    statement.
    """

    reducer: AllReducer
    values: tuple[Expr, ...]
    condition: Expr
    threads: tuple[Expr, ...]
    totals: tuple[Var, ...]
    stores: tuple[BufferStore, ...]
    _children = ("reducer", "values", "condition", "threads", "stores")
    _defs = ("totals",)

    def __post_init__(self) -> None:
        count = len(self.reducer.combined)
        if not len(self.values) == len(self.totals) == len(self.stores) == count:
            found = f"{len(self.values)} values and {len(self.stores)} results"
            raise TypeMismatch(f"tvm_thread_allreduce: the reducer combines {count} values, found {found}")
        for value, identity in zip(self.values, self.reducer.identity, strict=True):
            if value.dtype != identity.dtype:
                raise TypeMismatch(
                    f"tvm_thread_allreduce: a reducer of {identity.dtype}, found {value} of {value.dtype}"
                )

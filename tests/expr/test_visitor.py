"""What is kept with nodes about the trees below them."""

from __future__ import annotations

from minitvm.expr import Call, DType, IntImm, Var, const, contains, find, node, walk
from minitvm.expr.visitor import accessed, handed_out, variables
from minitvm.tir.nodes import Buffer, BufferData, BufferLoad, BufferStore, Evaluate, For, ForKind, LetStmt, Seq


def test_names_below() -> None:
    """Variables, buffers and addresses that are kept with nodes are those that a walk finds, in long sequences too."""
    i, j = Var("i"), Var("j")
    a, b, c = (Buffer(name, (const(64),)) for name in "abc")
    store = BufferStore(a, b[i * 8 + j] + a[i % 4] + 1.0, (i,))
    call = Evaluate(Call(DType("handle"), "address_of", (b[j],)))
    one = For(j, const(0), i + 1, ForKind.SERIAL, Seq((store, call, Evaluate(c.data))))
    for tree in (i, const(3), store, store.value, call, one, Seq((one,) * 20), LetStmt(i, j + 1, one)):
        below = list(walk(tree))
        addresses = {n.buffer for n in below if isinstance(n, BufferData)}
        addresses |= {buffer for n in below if isinstance(n, Call) for buffer in accessed(n)}
        assert variables(tree) == {n for n in below if isinstance(n, Var)}
        assert accessed(tree) == {n.buffer for n in below if isinstance(n, BufferLoad | BufferStore)}
        assert handed_out(tree) == addresses
        for kind in (Var, BufferLoad, For | Call, Seq, IntImm, LetStmt):
            assert list(find(tree, kind)) == [n for n in below if isinstance(n, kind)]
            assert contains(tree, kind) == any(isinstance(n, kind) for n in below)
    assert handed_out(one) == {b, c}


def test_a_class_of_nodes_that_is_new_is_found() -> None:
    """Also where its base was asked for before there was one."""
    before = Var("before")
    assert list(find(before + 1, Var)) == [before]

    @node
    class Named(Var):
        """A variable of a class that nobody has seen."""

    late = Named("late")
    assert list(find(before + late, Var)) == [before, late]
    assert contains(before + late, Named) and not contains(before + 1, Named)

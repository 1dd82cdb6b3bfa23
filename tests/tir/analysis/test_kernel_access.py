"""How many elements a kernel stores at most."""

from __future__ import annotations

from minitvm.expr import Var, const
from minitvm.tir.analysis.kernel_access import elements_written
from minitvm.tir.nodes import Allocate, Buffer, BufferStore, For, ForKind, If, LetStmt, Seq


def test_elements_written() -> None:
    """Loops count where they decide the place, through lets too, and both cases of a branch; what a kernel allocates
    does not."""
    i, j, at = Var("i"), Var("j"), Var("at")
    a, b, own = (Buffer(name, (const(64),)) for name in ("a", "b", "own"))
    one = const(1.0)
    branch = If(i < 2, BufferStore(a, one, (at,)), BufferStore(a, one, (at + 1,)))
    row = Seq((LetStmt(at, i * 4 + j, branch), BufferStore(b, one, (i,)), BufferStore(own, one, (j,))))
    nest = For(i, const(0), const(3), ForKind.SERIAL, For(j, const(0), const(4), ForKind.SERIAL, row))
    assert elements_written(Allocate(own, nest)) == {a: 24, b: 3}
    unknown = For(i, const(0), Var("n"), ForKind.SERIAL, BufferStore(a, one, (i,)))
    assert elements_written(unknown) == {a: None}

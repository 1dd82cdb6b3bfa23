"""Intrinsics in TE's form: declared as an expression, given to the same `tensorize`."""

from __future__ import annotations

from typing import Any

import pytest

from minitvm import te
from minitvm.errors import InputError, ScheduleError
from minitvm.expr import Var, const
from minitvm.tir.nodes import Buffer, BufferStore, For, ForKind, Seq, Stmt
from minitvm.tir.schedule import Schedule

from ..tir.schedule.meaning import same_at_both_levels


def gemv() -> te.Tensor:
    """Four sums of four products."""
    A, B = te.placeholder((4,), name="a"), te.placeholder((4, 4), name="b")
    k = te.reduce_axis((0, 4), name="k")
    return te.compute((4,), lambda i: te.sum(A[k] * B[i, k], axis=k), name="c")


def loop(extent: int, body: Any) -> Stmt:
    var = Var("n")
    return For(var, const(0), const(extent), ForKind.SERIAL, body(var))


def parts(ins: list[Buffer], outs: list[Buffer]) -> tuple[Stmt, Stmt, Stmt]:
    """(body, reset, update) as plain loops; a row's products at once."""
    (a, b), (c,) = ins, outs
    reset = loop(4, lambda i: BufferStore(c, const(0.0), (i,)))
    update = loop(4, lambda i: BufferStore(c, c[i] + ((a[0] * b[i, 0] + a[1] * b[i, 1])
                                                      + (a[2] * b[i, 2] + a[3] * b[i, 3])), (i,)))  # fmt: skip
    return Seq.of(reset, update), reset, update


def product(k: int = 8) -> Any:
    A, B = te.placeholder((3, k), name="A"), te.placeholder((8, k), name="B")
    axis = te.reduce_axis((0, k), name="k")
    C = te.compute((3, 8), lambda i, j: te.sum(A[i, axis] * B[j, axis], axis=axis), name="C")
    return te.create_prim_func([A, B, C])


def tiled(func: Any) -> tuple[Schedule, Any]:
    sch = Schedule(func)
    i, j, k = sch.get_loops("C")
    j_0, j_1 = sch.split(j, [None, 4])
    k_0, k_1 = sch.split(k, [None, 4])
    sch.reorder(i, j_0, k_0, j_1, k_1)
    return sch, j_1


def test_reset_and_update_go_on_over_outer_loops() -> None:
    tensor = gemv()
    assert isinstance(tensor.op, te.ComputeOp)
    _, b = tensor.op.input_tensors
    binds = {b: Buffer("b", (const(4), const(4)), strides=(Var("row"), const(1)))}
    intrin = te.decl_tensor_intrin(tensor, parts, "test.gemv", binds=binds)
    assert intrin.check()
    func = product()
    sch, loop_ = tiled(func)
    sch.tensorize(loop_, "test.gemv")
    same_at_both_levels(func, sch.func)


def test_a_body_alone_takes_a_whole_reduction() -> None:
    op = gemv().op
    assert isinstance(op, te.ComputeOp)
    te.decl_tensor_intrin(op, lambda ins, outs: parts(ins, outs)[0], "test.gemv_whole")
    func = product(4)
    sch, loop_ = tiled(func)
    sch.tensorize(loop_, "test.gemv_whole")
    same_at_both_levels(func, sch.func)
    sch, loop_ = tiled(product(8))
    with pytest.raises(ScheduleError, match="whole_reduction"):
        sch.tensorize(loop_, "test.gemv_whole")


def test_a_scalar_parameter() -> None:
    s = te.var("s", "float32")
    A = te.placeholder((4,), name="a")
    scaled = te.compute((4,), lambda i: A[i] * s, name="b")

    def code(ins: list[Buffer], outs: list[Buffer], scalars: list[Var]) -> Stmt:
        return loop(4, lambda i: BufferStore(outs[0], ins[0][i] * scalars[0], (i,)))

    te.decl_tensor_intrin(scaled, code, "test.scale", scalar_params=[s])
    X = te.placeholder((6, 4), name="X")
    func = te.create_prim_func([X, te.compute((6, 4), lambda i, j: X[i, j] * te.const(2.5), name="Y")])
    sch = Schedule(func)
    sch.tensorize(sch.get_loops("Y")[1], "test.scale")
    same_at_both_levels(func, sch.func)


def test_wrong_code_is_caught() -> None:
    def wrong(ins: list[Buffer], outs: list[Buffer]) -> tuple[Stmt, Stmt, Stmt]:
        body, reset, update = parts(ins, outs)
        return body, reset, Seq.of(update, update)

    assert not te.decl_tensor_intrin(gemv(), wrong, "test.gemv_twice").check()


def test_what_is_no_declaration() -> None:
    A = te.placeholder((4,), name="a")
    B = te.compute((4,), lambda i: A[i] + te.const(1.0), name="b")
    C = te.compute((4,), lambda i: B[i] * te.const(2.0), name="c")
    with pytest.raises(InputError, match="b is computed"):
        te.decl_tensor_intrin(C, lambda ins, outs: None)
    with pytest.raises(InputError, match="is not one compute"):
        te.decl_tensor_intrin(A, lambda ins, outs: None)
    with pytest.raises(InputError, match="no reduction"):
        te.decl_tensor_intrin(B, lambda ins, outs: (const(0), const(0), const(0)))
    with pytest.raises(InputError, match="wanted a statement"):
        te.decl_tensor_intrin(B, lambda ins, outs: "code")

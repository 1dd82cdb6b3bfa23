"""TVM's walks over programs and its questions about them, under TVM's names."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

import minitvm as tvm
from minitvm import tir
from minitvm.compat.tvm.stmt_functor import ir_transform, post_order_visit, pre_order_visit, renew_defs, substitute
from minitvm.errors import InputError, VerificationError
from minitvm.expr import const, replace, structural_equal, walk
from minitvm.reference.strategies import prim_funcs
from minitvm.script import tir as T
from minitvm.tir.analysis.tree import Tree


@settings(max_examples=25)
@given(prim_funcs())
def test_visits_meet_every_node_once(func: tir.PrimFunc) -> None:
    before: list[tvm.expr.Node] = []
    after: list[tvm.expr.Node] = []
    pre_order_visit(func.body, before.append)  # appending returns None, which is not False
    post_order_visit(func.body, after.append)
    assert before == list(walk(func.body)) and before[0] is after[-1] is func.body
    assert len(after) == len(set(after)) and set(after) == set(before)


@settings(max_examples=25)
@given(prim_funcs())
def test_renamed_definitions_are_new_and_the_program_is_the_same(func: tir.PrimFunc) -> None:
    renewed = renew_defs(func)
    assert structural_equal(renewed, func)
    assert not Tree(renewed).loops.keys() & Tree(func).loops.keys()
    assert not (Tree(renewed).blocks.keys() & Tree(func).blocks.keys())


@T.prim_func
def chain(a: T.handle, c: T.handle, n: T.int32) -> None:
    A = T.match_buffer(a, (8, 8))
    C = T.match_buffer(c, (8, 8))
    B = T.alloc_buffer((8, 8))
    for i in range(8):
        for j in range(8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.Cast("float32", n)
        for j in range(8):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj]


def test_a_visit_that_returns_false_goes_no_deeper() -> None:
    visited: list[tvm.expr.Node] = []

    def visit(node: tvm.expr.Node) -> bool:
        visited.append(node)
        return not isinstance(node, tir.For)

    pre_order_visit(chain.body, visit)
    assert [node.var.name for node in visited if isinstance(node, tir.For)] == ["i"]


def test_transformed_nodes() -> None:
    def double(node: tvm.expr.Node) -> tvm.expr.Node | None:
        return node.value * 2.0 if isinstance(node, tir.BufferStore) else None

    doubled = ir_transform(
        chain.body, None, lambda store: replace(store, value=double(store)), only_enable=["tir.BufferStore"]
    )
    assert str(doubled).count("* T.float32(2.0)") == 2
    # What `preorder` returns is not entered.
    stopped = ir_transform(chain.body, lambda node: node if isinstance(node, tir.For) else None, double)
    assert stopped is chain.body
    with pytest.raises(InputError, match="'tir.Bufferstore' is no kind of node"):
        ir_transform(chain.body, None, None, only_enable=["tir.Bufferstore"])


def test_substituted_and_undefined_variables() -> None:
    (n,) = [p for p in chain.params if isinstance(p, tir.Var)]
    assert tir.analysis.undefined_vars(chain.body) == [n]
    assert tir.analysis.undefined_vars(chain.body, [n]) == tir.analysis.undefined_vars(chain) == []
    assert tir.analysis.undefined_vars(substitute(chain.body, {n: 3})) == []


def test_equality_of_expressions_is_up_to_nothing() -> None:
    i, j = tir.Var("i", "int32"), tir.Var("i", "int32")
    assert tir.analysis.expr_deep_equal(i + 1, i + 1)
    assert not tir.analysis.expr_deep_equal(i + 1, j + 1)
    assert tir.analysis.expr_deep_equal(const(3), 3)


def test_regions_of_a_block() -> None:
    block = tir.Schedule(chain).get("B")
    buffers = {name: b for b in (*chain.buffers, *tir.root_block(chain).alloc_buffers) for name in (b.name,)}
    undeclared = replace(block, reads=(), writes=())
    reads, writes, opaque = tir.analysis.get_block_access_region(undeclared, {b.data: b for b in buffers.values()})
    assert structural_equal((tuple(reads), tuple(writes)), (block.reads, block.writes)) and opaque == []
    assert [list(map(str, side)) for side in tir.analysis.get_block_read_write_region(undeclared)] == [
        list(map(str, reads)), list(map(str, writes)),
    ]  # fmt: skip


def test_where_a_buffer_lives() -> None:
    sch = tir.Schedule(chain)
    places = tir.analysis.detect_buffer_access_lca(sch.mod["main"])
    by_name = {buffer.name: place for buffer, place in places.items()}
    assert by_name["B"] is sch.get(sch.get_loops("B")[0])
    assert by_name["A"] is sch.get("B") and by_name["C"] is sch.get("C")


def test_well_formed_programs() -> None:
    assert tir.analysis.verify_well_formed(chain)
    loop = tir.root_block(chain).body
    broken = chain.with_body(replace(chain.body, block=replace(chain.body.block, body=loop.body)))
    assert not tir.analysis.verify_well_formed(broken, assert_mode=False)
    with pytest.raises(VerificationError):
        tir.analysis.verify_well_formed(broken)

"""Structural equality and the generic walks: properties over random programs."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm.expr import (
    Add,
    FloatImm,
    IntImm,
    Let,
    Node,
    Var,
    children,
    const,
    first_difference,
    free_vars,
    map_children,
    replace,
    rewrite,
    rewrite_statements,
    structural_equal,
    substitute,
    walk,
)
from minitvm.expr.structural import structural_digest, structural_hash
from minitvm.reference.strategies import exprs, prim_funcs
from minitvm.tir.nodes import Block, Buffer, BufferStore, For, ForKind, PrimFunc

i, j = Var("i"), Var("j")
VARIABLES = [i, j, Var("x", "float32")]


def rebuilt(node: Node) -> Node:
    """The same program in fresh nodes, variables and buffers."""
    memo: dict[Node, Node] = {}

    def copy(value):
        if isinstance(value, tuple):
            return tuple(map(copy, value))
        if not isinstance(value, Node):
            return value
        if value not in memo:
            fields = {f: copy(getattr(value, f)) for f, d in value.__dataclass_fields__.items() if d.init and f != "id"}
            memo[value] = type(value)(**fields)
        return memo[value]

    return copy(node)


@given(prim_funcs(symbolic=True))
def test_a_copy_with_fresh_variables_is_equal(func: PrimFunc) -> None:
    again = rebuilt(func)
    assert not {n for n in walk(func) if isinstance(n, Var)} & {n for n in walk(again) if isinstance(n, Var)}
    assert structural_equal(func, again)
    assert structural_equal(again, func)
    assert first_difference(func, again) is None


@given(prim_funcs(), st.data())
def test_one_changed_constant_makes_a_program_different(func: PrimFunc, data: st.DataObject) -> None:
    places = [n for n in walk(func.body) if isinstance(n, FloatImm | IntImm) and not n.dtype.is_bool]
    chosen = data.draw(st.sampled_from(places))
    changed = func.with_body(rewrite(func.body, lambda n: replace(n, value=n.value + 1) if n is chosen else None))
    assert not structural_equal(func, changed)
    path = first_difference(func, changed)
    assert path is not None
    assert path.startswith(".body")


@given(exprs(VARIABLES, "int32", 5))
def test_rebuilding_without_a_change_shares_everything(value: Node) -> None:
    assert rewrite(value, lambda node: None) is value
    assert map_children(value, lambda child: child) is value
    assert substitute(value, {Var("k"): const(1)}) is value


@given(exprs(VARIABLES, "int32", 5))
def test_walk_sees_parents_before_their_children(value: Node) -> None:
    seen: list[int] = []
    for node in walk(value):
        seen.append(id(node))
        assert not [c for c in children(node) if id(c) in seen and c is node]
    assert len(seen) == 1 + sum(sum(1 for _ in walk(c)) for c in children(value))


@given(exprs([i, j], "int32", 5), exprs([j], "int32", 3))
def test_substituting_leaves_no_use_behind(value: Node, other: Node) -> None:
    after = substitute(value, {i: other})
    assert i not in free_vars(after)
    untouched = i not in free_vars(value)
    assert structural_equal(value, after) == (untouched or structural_equal(other, i))


def test_substituting_all_at_once_swaps() -> None:
    assert str(substitute(i * 2 + j, {i: j, j: i})) == "j * 2 + i"


def test_a_let_hides_its_variable() -> None:
    inner = Let(i, i + 1, i * j)
    after = substitute(inner, {i: j})
    assert str(after.value) == "j + 1"
    assert after.body.a is i
    assert free_vars(Let(i, const(1), i + j)) == [j]


def loop(var: Var, body_var: Var, buffer: Buffer) -> For:
    return For(var, const(0), const(4), ForKind.SERIAL, BufferStore(buffer, const(1.0), (body_var,)))


def test_what_is_defined_may_be_renamed_and_what_is_free_may_not() -> None:
    a, other = Buffer("A", (4,)), Buffer("A", (4,))
    assert structural_equal(loop(i, i, a), loop(j, j, a))
    assert not structural_equal(loop(i, i, a), loop(j, i, a))
    assert not structural_equal(loop(i, i, a), loop(i, i, other))
    assert structural_equal(loop(i, i, a), loop(i, i, other), map_free_vars=True)
    assert not structural_equal(i + j, j + i)
    assert structural_equal(i + j, j + i, map_free_vars=True)


def test_renaming_is_one_to_one() -> None:
    k = Var("k")
    assert not structural_equal(i + j, k + k, map_free_vars=True)
    assert not structural_equal(k + k, i + j, map_free_vars=True)


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (FloatImm(float("nan")), FloatImm(float("nan")), True),
        (FloatImm(0.0), FloatImm(-0.0), False),
        (FloatImm(1.0), FloatImm(1.0, "float64"), False),
        (const(1), const(1, "int64"), False),
        (const(1), const(True), False),
        (np.arange(3), np.arange(3), True),
        (np.arange(3), np.arange(3.0), False),
        ([1, 2], (1, 2), True),
        ({"a": 1}, {"a": 1.0}, False),
    ],
)
def test_values(a: object, b: object, same: bool) -> None:
    assert structural_equal(a, b) is same


def test_paths_of_differences() -> None:
    a = Buffer("A", (4,))
    assert first_difference(Add(i, const(1)), Add(i, const(2))) == ".b.value"
    assert first_difference(loop(i, i, a), replace(loop(j, j, a), extent=const(5))) == ".extent.value"
    assert first_difference({"x": (1, 2)}, {"x": (1, 3)}) == "['x'][1]"


def test_replace_refuses_unknown_fields() -> None:
    with pytest.raises(TypeError, match="Var has no field nam"):
        replace(i, nam="k")


@given(prim_funcs(), st.data())
def test_names_of_blocks_are_for_people(func: PrimFunc, data: st.DataObject) -> None:
    """As in TVM: a program whose blocks go by other names is equal, and has the same hash."""

    def renamed(at: Node) -> Node | None:
        return replace(at, name=at.name + data.draw(st.sampled_from("xyz"))) if isinstance(at, Block) else None

    other = func.with_body(rewrite_statements(func.body, renamed))
    assert structural_equal(func, other)
    assert structural_hash(func) == structural_hash(other)


@given(prim_funcs(symbolic=True), st.data())
def test_digests_tell_programs_apart(func: PrimFunc, data: st.DataObject) -> None:
    """Of trees without free variables: equal digests exactly where they are structurally equal."""
    assert structural_digest(func, True) == structural_digest(rebuilt(func), True)
    if places := [n for n in walk(func) if isinstance(n, Var | Buffer | IntImm | FloatImm | For)]:
        chosen = data.draw(st.sampled_from(places))
        other = data.draw(st.sampled_from(places))

        def change(at: Node) -> Node | None:
            if at is not chosen:
                return None
            if isinstance(at, For):
                return replace(at, kind=data.draw(st.sampled_from([ForKind.SERIAL, ForKind.UNROLLED])))
            if isinstance(at, Var) and isinstance(other, Var) and at.dtype == other.dtype:
                return other
            other_value = {IntImm: lambda v: v - 1 if v > 0 else v + 1, FloatImm: lambda v: v + 1}.get(type(at))
            return replace(at, value=other_value(at.value)) if other_value else None

        changed = func.with_body(rewrite(func.body, change))
        same = structural_equal(func, changed, True)
        assert same == (structural_digest(func, True) == structural_digest(changed, True))


def test_a_digest_is_the_same_in_every_process() -> None:
    program = (
        "from minitvm.expr.structural import structural_digest as d; from minitvm.tir.nodes import Buffer;"
        "from minitvm.expr import Var; print(d((Buffer('A', (Var('n'), 4)), {'b': 1, 'a': 0.5}), True).hex())"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1] != b""

"""What a tree writes down about the places of statements, beside the statements around them one by one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitvm.expr import walk
from minitvm.reference.strategies.programs import prim_funcs
from minitvm.tir.analysis.tree import Tree, own_expressions, statements
from minitvm.tir.nodes import BlockRealize, BufferLoad, For
from minitvm.tir.schedule import Schedule
from tests.tir.schedule import programs


@settings(max_examples=20)
@given(st.data())
def test_places_are_those_of_the_statements_around(data: Any) -> None:
    tree = Tree(data.draw(prim_funcs()))
    every = list(statements(tree.func.body))
    for stmt in every:
        around = list(tree.above(stmt))
        scope = next((s for s in around if isinstance(s, BlockRealize)), tree.root)
        near = around[: around.index(scope)] if scope in around else around
        assert tree.scope(stmt) is scope
        assert tree.loops_above(stmt) == [s for s in near if isinstance(s, For)][::-1]
        assert tree.all_loops_above(stmt) == [s for s in around if isinstance(s, For)][::-1]
        inner = [s for s in every if isinstance(s, BlockRealize) and s is not stmt and stmt in tree.above(s)]
        direct = [b for b in inner if not any(other in tree.above(b) for other in inner)]
        assert tree.blocks_in(stmt) == direct
        assert [s for s in every if tree.inside(s, stmt)] == [s for s in every if s is stmt or stmt in tree.above(s)]
        if isinstance(stmt, BlockRealize):
            deciding = [stmt, *near]
            loads = [n for s in deciding for e in own_expressions(s) for n in walk(e) if isinstance(n, BufferLoad)]
            assert [load for _, load in tree.controls(stmt)] == loads


def test_a_move_looks_at_a_statement_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a program and of what it becomes there is one tree each, which all requirements of a step share."""
    sch = Schedule(programs.chain())
    loop = sch.get_loops("C")[0]
    trees = []
    build = Tree.__init__
    monkeypatch.setattr(Tree, "__init__", lambda tree, func: trees.append(func) or build(tree, func))
    sch.compute_at("B", loop)
    assert len(trees) == 1

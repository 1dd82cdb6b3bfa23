"""Linking: a place for every value. Whatever is a view, an output, a constant or used late, nothing overwrites it.

The oracle is the executable's interpreter with its shadow on: it knows which bytes were written, through which slice,
and which steps may run at the same time. What the compiler made runs as well, with one thread and with several.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minitvm as tvm
from minitvm import te, topi
from minitvm.build import compile_executable
from minitvm.build_options import BuildOptions
from minitvm.errors import InternalError
from minitvm.executable import (
    CallKernel,
    ConstantRef,
    Copy,
    Executable,
    Input,
    Output,
    Step,
    TensorSpec,
    verify,
)
from minitvm.executable.alignment import aligned_empty
from minitvm.expr import DType, IntImm, SizeVar, Var, replace
from minitvm.graph import Graph, GraphBuilder, Value
from minitvm.graph.passes.dead_code import dead_code
from minitvm.graph.passes.simplify import simplify
from minitvm.link import Linker, Slot, constant
from minitvm.lowering import LoweredFunc, lower_function
from minitvm.reference import executable as interpreter
from minitvm.reference import graph as oracle
from minitvm.runtime import GraphModule
from minitvm.target import Target
from minitvm.tir.analysis.kernel_access import buffer_access
from minitvm.tir.nodes import Buffer, BufferStore, For, ForKind, Seq
from minitvm.topi import registry

CPU = Target.of("cpu")


def linked(graph: Graph, accuracy: str = "fast") -> Executable:
    executable = compile_executable(graph, CPU, BuildOptions(accuracy=accuracy))
    verify(executable)
    return executable


class Drawing:
    """Graphs whose values all have 24 elements a row of `n`, so that any can be viewed as any other."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.b = GraphBuilder()
        self.n: Any = draw(st.sampled_from([SizeVar("n"), 0, 1, 2]))
        self.values = [self.b.input("x", (self.n, 24)), self.b.input("y", (self.n, 4, 6))]
        if isinstance(self.n, int):
            rng = np.random.default_rng(0)
            self.values.append(self.b.constant(rng.integers(-2, 3, (self.n, 24)).astype("float32"), "c"))

    def pick(self, ndim: int | None = None) -> Value:
        return self.draw(st.sampled_from([v for v in self.values if ndim is None or v.ndim == ndim]))

    def view(self) -> Value:
        """A reshape, or two in a row, of anything: of an input, of a constant, of a view."""
        value = self.pick()
        for _ in range(self.draw(st.integers(1, 2))):
            tail = self.draw(st.sampled_from([(24,), (4, 6), (2, 3, 4)]))
            value = self.b.op("reshape", value, newshape=(self.n, *tail))
        return value

    def unit_axis(self) -> Value:
        return self.b.op("squeeze", self.b.op("expand_dims", self.pick(), axis=0), axis=(0,))

    def arithmetic(self) -> Value:
        a = self.pick()
        b = self.draw(st.sampled_from([v for v in self.values if v.ndim == a.ndim and v.shape[1:] == a.shape[1:]]))
        return self.b.op("add", a, b)

    def opaque(self) -> Value:
        """What fuses with nothing, in two stages: it has a workspace."""
        return self.b.op("subtract", self.pick(), self.b.op("max", self.pick(2), axis=(0, 1)) if self.n != 0 else 1.0)

    def rows(self) -> Value:
        return self.b.op("reverse", self.pick(), axis=1)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Views of everything, and everything may be an output, also inputs, constants, and twice."""
    d = Drawing(draw)
    moves = [d.view, d.view, d.unit_axis, d.arithmetic, d.arithmetic, d.opaque, d.rows]
    for _ in range(draw(st.integers(1, 8))):
        d.values.append(draw(st.sampled_from(moves))())
    return d.b.build(draw(st.lists(st.sampled_from(d.values), min_size=1, max_size=5)))


def feed(graph: Graph, size: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(size)
    shapes = {v.name: [d if isinstance(d, int) else size for d in v.shape] for v in graph.inputs}
    return {name: rng.integers(-3, 4, shape).astype("float32") for name, shape in shapes.items()}


@given(graph=graphs(), size=st.integers(1, 3))
@settings(max_examples=30)
def test_no_value_is_overwritten_while_somebody_needs_it(graph: Graph, size: int) -> None:
    executable = linked(graph)
    inputs = feed(graph, size)
    wanted = oracle.run(graph, inputs)
    for threads, order in ((1, "forward"), (3, "shuffled")):
        found = interpreter.run(executable, inputs, threads=threads, order=order)
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(a, b)


@given(graph=graphs(), size=st.integers(1, 3))
@settings(max_examples=8)
def test_the_machine_does_what_the_interpreter_says(graph: Graph, size: int) -> None:
    module = GraphModule(linked(graph), threads=2)
    inputs = feed(graph, size)
    results = module(**inputs)
    results = results if isinstance(results, tuple) else (results,)
    for a, b in zip(results, oracle.run(graph, inputs), strict=True):
        np.testing.assert_array_equal(a, b)
    everything = [*results, *inputs.values()]
    assert not any(np.shares_memory(a, b) for k, a in enumerate(everything) for b in everything[:k])


def test_views_take_no_step_and_no_memory() -> None:
    b = GraphBuilder()
    x = b.op("nn.softmax", b.input("x", (4, 6)))
    flat = b.op("squeeze", b.op("expand_dims", b.op("reshape", x, newshape=(24,)), axis=0), axis=(0,))
    executable = linked(b.build(b.op("nn.softmax", b.op("reshape", flat, newshape=(3, 8)))))
    assert not any(isinstance(step, Copy) for step in executable.steps)
    twice = linked(b.build(b.op("nn.softmax", x)))
    assert [type(s) for s in executable.steps] == [type(s) for s in twice.steps]
    assert executable.arenas[0].size == twice.arenas[0].size


def test_a_registered_view_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "OPERATORS", dict(registry.OPERATORS))
    registry.register("test.as_column", view=True)(lambda x: topi.reshape(x, newshape=(-1, 1)))
    b = GraphBuilder()
    column = b.op("test.as_column", b.op("nn.softmax", b.input("x", (4, 6))))
    graph = b.build(b.op("nn.softmax", b.op("squeeze", column)))
    assert [node.op for node in dead_code(simplify(graph)).nodes] == ["nn.softmax", "reshape", "nn.softmax"]
    executable = linked(b.build(b.op("nn.softmax", column, axis=0)))
    operators = [step.operator for step in executable.steps if isinstance(step, CallKernel)]
    assert len(operators) == len(executable.steps) and not [name for name in operators if "column" in name]


def test_a_view_that_is_returned_is_a_copy() -> None:
    b = GraphBuilder()
    x = b.input("x", (4, 6))
    executable = linked(b.build([b.op("reshape", x, newshape=(24,)), x, x]))
    assert executable.steps == tuple(Copy(Output(k), Input(0), 96) for k in range(3))
    assert [spec.name for spec in executable.outputs] == ["reshape", "x", "x_1"]


def test_memory_is_shared_along_a_chain() -> None:
    """Each value dies when the next is there: two places do for any length."""
    b = GraphBuilder()
    v = b.input("x", (1, 4096))
    for _ in range(6):
        v = b.op("nn.softmax", v)
    size = linked(b.build(v)).arenas[0].size
    assert isinstance(size, int) and size < 3 * 4096 * 4


def test_only_constants_that_a_step_reads_are_kept() -> None:
    rng = np.random.default_rng(0)
    b = GraphBuilder()
    w = b.constant(rng.standard_normal((16, 16, 3, 3)).astype("float32"), "w")
    v = b.op("nn.conv2d", b.input("x", (1, 16, 6, 6)), w, padding=1)
    v = b.op("add", b.op("nn.conv2d", v, w, padding=1), 2.0)
    executable = linked(b.build(v), accuracy="strict")  # whatever the machine: no Winograd, which stores more
    read = {
        a.index for s in executable.steps if isinstance(s, CallKernel) for a in s.args if isinstance(a, ConstantRef)
    }
    assert read == set(range(len(executable.constants)))
    assert sum(c.data.nbytes for c in executable.constants) == 4 * 16 * 16 * 3 * 3


def test_equal_operators_share_a_kernel_with_their_own_sizes() -> None:
    b, n = GraphBuilder(), SizeVar("n")
    v = b.input("x", (n, 8))
    v = b.op("nn.softmax", b.op("nn.softmax", v))
    executable = linked(b.build(b.op("nn.softmax", b.op("reshape", v, newshape=(n * 2, 4)))))
    assert len({k.source for k in executable.kernels}) == len(executable.kernels)
    calls = [s for s in executable.steps if isinstance(s, CallKernel)]
    assert len({s.kernel for s in calls}) < len(calls)


@pytest.mark.parametrize("length", [7, 130])
def test_a_result_that_its_kernel_reads_again_is_written_first(length: int) -> None:
    """Which places a sort reads again depends on the data: they are in storage of its own, not in its result."""
    b = GraphBuilder()
    order = b.op("argsort", b.input("x", (2, length)), axis=1)
    executable = linked(b.build(b.op("add", order, order)))
    sorts = [k for k in executable.kernels if "argsort" in k.name]
    assert sorts and all(p.access != "rw" for k in sorts for p in k.params)


# -- the linker itself


def increment(parallel: bool) -> LoweredFunc:
    """B = A + 1 over 64 elements, by all threads or by one."""
    a = te.placeholder((64,), name="A")
    sch = tvm.tir.Schedule(te.create_prim_func([a, te.compute((64,), lambda i: a[i] + 1.0, name="B")]))
    (loop,) = sch.get_loops(sch.get_block("B"))
    if parallel:
        sch.parallel(loop)
    return lower_function(sch.func, CPU)


def letter(step: Step) -> str:
    if isinstance(step, CallKernel):
        return "p" if step.parallel else "s"
    return "c" if isinstance(step, Copy) else "|"


@pytest.mark.parametrize(
    ("steps", "with_barriers"),
    [("ss", "ss"), ("cs", "cs"), ("pp", "p|p"), ("sp", "s|p"), ("ps", "p|s"), ("pccsp", "p|ccs|p"), ("p", "p")],
)
def test_barriers_stand_where_other_threads_take_part(steps: str, with_barriers: str) -> None:
    linker = Linker("cpu")
    functions = {"s": increment(False), "p": increment(True)}
    places = [Slot("x", 256, Input(0)), *(Slot(f"v{k}", 256) for k in range(len(steps) - 1)), Slot("y", 256, Output(0))]
    for kind, source, target in zip(steps, places[:-1], places[1:], strict=True):
        if kind == "c":
            linker.copy(target, source)
        else:
            linker.call(functions[kind], [source, target], {})
    specs = [TensorSpec(name, DType("float32"), (64,)) for name in "xy"]
    executable = linker.finish("chain", specs[:1], specs[1:])
    verify(executable)
    assert "".join(map(letter, executable.steps)) == with_barriers
    data = np.arange(64, dtype="float32")
    (found,) = interpreter.run(executable, {"x": data}, threads=3, order="shuffled")
    np.testing.assert_array_equal(found, data + steps.count("s") + steps.count("p"))
    assert len({k.name for k in executable.kernels}) == len(executable.kernels) == len(set(steps) - {"c"})


def test_a_host_function_that_computes_is_an_internal_error() -> None:
    whole = increment(False)
    body = For(Var("i"), IntImm(0, "int32"), IntImm(1, "int32"), ForKind.SERIAL, whole.host.body)
    with pytest.raises(InternalError, match="a host function holds only kernel calls, found For"):
        changed = dataclasses.replace(whole, host=replace(whole.host, body=body))
        Linker("cpu").call(changed, [Slot("x", 256), Slot("y", 256)], {})


def test_what_a_kernel_does_with_its_buffers() -> None:
    a, b, c, d = (Buffer(name, (IntImm(8, "int32"),)) for name in "ABCD")
    i = Var("i")
    first = BufferStore(b, a[i], (i,))  # B = A
    second = BufferStore(c, b[i] + c[i], (i,))  # C += B
    third = BufferStore(d, a[i], (i,))  # D = A
    body = For(i, IntImm(0, "int32"), IntImm(8, "int32"), ForKind.SERIAL, Seq((first, second, third)))
    assert buffer_access(body) == {a: "r", b: "w", c: "rw", d: "w"}


def test_a_function_knows_its_inputs_outputs_and_accumulators() -> None:
    n = te.size_var("n")
    a, total = te.placeholder((n, 4), name="A"), te.reduce_axis((0, 4), name="k")
    func = te.create_prim_func([a, te.compute((n,), lambda i: te.sum(a[i, total], axis=total), name="B")])
    executable = compile_executable(func, CPU)
    verify(executable)
    assert [s.name for s in executable.inputs] == ["A"]
    assert [(s.name, s.inout) for s in executable.outputs] == [("B", False)]
    data = np.arange(12, dtype="float32").reshape(3, 4)
    module = tvm.build(func)
    found = np.full(3, np.nan, "float32")
    module(data, found)
    np.testing.assert_array_equal(found, data.sum(1))


def test_constants_are_contiguous_and_aligned() -> None:
    for data in (
        np.arange(12.0).reshape(3, 4).T,
        np.float32(3),
        np.zeros((0, 3), "int8"),
        np.arange(9, dtype="int16")[1:],
    ):
        made = constant("c", np.asarray(data))
        assert made.data.flags.c_contiguous and (made.data.ctypes.data % 64 == 0 or not made.data.size)
        assert (made.shape, made.dtype) == (np.shape(data), np.asarray(data).dtype.name)
        np.testing.assert_array_equal(made.data, data)


def test_weights_changed_after_building_change_nothing() -> None:
    b = GraphBuilder()
    weight = aligned_empty(64 * 64 * 4).view("float32").reshape(64, 64)  # nothing else calls for a copy
    weight[...] = 1
    module = GraphModule(linked(b.build(b.op("add", b.input("x", (64, 64)), b.constant(weight)))), threads=1)
    weight[...] = 5
    np.testing.assert_array_equal(module(np.zeros((64, 64), "float32")), np.ones((64, 64)))

"""Executables, interpreted: steps over arenas, and what goes wrong between steps."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from minitvm import expr as x
from minitvm.errors import ExecutionError, InputError, Unsupported
from minitvm.events import Listener, Step
from minitvm.executable import nodes as n
from minitvm.reference import executable as reference
from minitvm.tir import nodes as t

FLOAT = x.DType("float32")
MODES = ["slow", "fast"]


def unary(name: str, body: Any, count: Any = 8, kind: t.ForKind = t.ForKind.PARALLEL) -> n.Kernel:
    """A kernel `out[i] = body(in[i])`."""
    source, target, i = t.Buffer("x", (count,)), t.Buffer("y", (count,)), x.Var("i")
    loop = t.For(i, x.const(0), x.as_expr(count), kind, t.BufferStore(target, body(source[i]), (i,)))
    params: list[Any] = [source, target]
    described = [n.KernelParam("x", FLOAT), n.KernelParam("y", FLOAT, access="w")]
    if isinstance(count, x.Var):
        params.append(count)
        described.append(n.KernelParam(count.name, count.dtype, n.SCALAR))
    func = t.PrimFunc(tuple(params), loop, {"global_symbol": name})
    return n.Kernel(name, "numba", "", name, tuple(described), func=lambda: func)


DOUBLE, INCREMENT, NEGATE = (
    unary("double", lambda v: v * 2.0), unary("increment", lambda v: v + 1.0), unary("negate", lambda v: 0.0 - v)
)  # fmt: skip


def piece(offset: int, size: int = 32) -> n.ArenaSlice:
    return n.ArenaSlice(0, offset, size)


def program(
    *steps: n.Step, arena: int = 128, kernels: tuple[n.Kernel, ...] = (DOUBLE, INCREMENT, NEGATE)
) -> n.Executable:
    inputs, outputs = (n.TensorSpec("X", FLOAT, (8,)),), (n.TensorSpec("Y", FLOAT, (8,)),)
    return n.Executable("p", "cpu", inputs, outputs, (), (n.Arena("a", arena),), kernels, steps)


def call(kernel: int, source: Any, target: Any) -> n.CallKernel:
    return n.CallKernel(kernel, (source, target))


DATA = np.arange(8, dtype="float32")


@pytest.mark.parametrize("mode", MODES)
def test_steps_over_an_arena(mode: str) -> None:
    """Two intermediates, the second in the place of the first once that is dead."""
    wanted = program(
        call(0, n.Input(0), piece(0)), n.Barrier(), call(1, piece(0), piece(32)), n.Barrier(),
        call(2, piece(32), piece(0)), n.Barrier(), n.Copy(n.Output(0), piece(0), 32),
    )  # fmt: skip
    given = DATA.copy()
    (found,) = reference.run(wanted, {"X": given}, mode=mode, threads=2)
    assert found.tolist() == [-(2 * v + 1) for v in range(8)]
    assert (given == DATA).all()


@pytest.mark.parametrize("mode", MODES)
def test_uninitialised_arena(mode: str) -> None:
    with pytest.raises(ExecutionError) as caught:
        reference.run(program(call(0, piece(0), n.Output(0))), {"X": DATA}, mode=mode)
    assert str(caught.value).startswith("step 0, double: uninitialised read: element [0] of x has not been written yet")


@pytest.mark.parametrize("mode", MODES)
def test_live_slices_that_overlap(mode: str) -> None:
    """The second intermediate was given half of the place of the first, which is still needed."""
    wrong = program(
        call(0, n.Input(0), piece(0)), n.Barrier(), call(1, n.Input(0), piece(16)), n.Barrier(),
        call(2, piece(0), n.Output(0)),
    )  # fmt: skip
    with pytest.raises(ExecutionError) as caught:
        reference.run(wrong, {"X": DATA}, mode=mode)
    assert str(caught.value).startswith("step 4, negate: uninitialised read: element [4] of x")


def test_missing_barrier() -> None:
    wrong = program(call(0, n.Input(0), piece(0)), call(1, piece(0), n.Output(0)))
    with pytest.raises(ExecutionError) as caught:
        reference.run(wrong, {"X": DATA})
    assert str(caught.value) == (
        "no barrier between step 0 (double) and step 1 (increment)\n"
        "  both touch bytes [0, 32) of arena 0, one of them writing"
    )


def test_steps_of_one_thread_need_no_barrier() -> None:
    steps = [
        n.CallKernel(0, (n.Input(0), piece(0)), parallel=False),
        n.CallKernel(1, (piece(0), n.Output(0)), parallel=False),
    ]
    (found,) = reference.run(program(*steps), {"X": DATA})
    assert (found == DATA * 2 + 1).all()


def some_steps(random: Random) -> list[n.Step]:
    """Kernels on all threads or on one, copies and barriers, over pieces of an arena that overlap now and then."""
    places = [n.Input(0), *(piece(at) for at in (0, 16, 32, 64)), n.Output(0)]
    steps: list[n.Step] = []
    for _ in range(random.randint(2, 5)):
        source, target = random.choice(places[:-1]), random.choice(places[1:])
        kind = random.choice(["parallel", "parallel", "alone", "copy", "barrier"])
        if kind == "barrier":
            steps.append(n.Barrier())
        elif kind == "copy":
            steps.append(n.Copy(target, source, random.choice([8, 32])))
        else:
            steps.append(n.CallKernel(random.randrange(3), (source, target), parallel=kind == "parallel"))
    return steps


def first_race(steps: list[n.Step]) -> tuple[int, int] | None:
    """By definition: two steps that no barrier parts, at least one on all threads, share a byte that one writes."""

    def touched(step: n.Step) -> list[tuple[set[Any], bool]]:
        """The bytes of each access, and whether it writes them."""
        if isinstance(step, n.Barrier):
            return []
        source, target = (step.src, step.dst) if isinstance(step, n.Copy) else step.args
        size = step.nbytes if isinstance(step, n.Copy) else 32
        return [({(type(at), getattr(at, "offset", 0) + k) for k in range(size)}, at is target and writes)
                for at, writes in ((source, False), (target, True))]  # fmt: skip

    for late, step in enumerate(steps):
        since = max((k for k in range(late) if isinstance(steps[k], n.Barrier)), default=-1)
        for early in range(since + 1, late):
            both = (steps[early], step)
            if not any(isinstance(one, n.CallKernel) and one.parallel for one in both):
                continue
            pairs = [(a, b) for a in touched(both[0]) for b in touched(both[1])]
            if any(a[0] & b[0] and (a[1] or b[1]) for a, b in pairs):
                return early, late
    return None


def test_a_barrier_is_missed_wherever_threads_may_meet() -> None:
    races = 0
    for seed in range(400):
        steps = some_steps(Random(seed))
        race = first_race(steps)
        try:
            reference.run(program(*steps), {"X": DATA}, shadow=False)
        except ExecutionError as error:
            assert race is not None and f" and step {race[1]} (" in str(error), f"{steps}\n{error}"
            races += 1
        else:
            assert race is None, f"{steps}: steps {race}"
    assert 100 < races < 300


def test_outputs_must_be_complete() -> None:
    with pytest.raises(ExecutionError, match="output Y is incomplete: element 0"):
        reference.run(program(call(0, n.Input(0), piece(0))), {"X": DATA})
    with pytest.raises(ExecutionError, match="output Y is incomplete: element 2"):
        reference.run(program(n.Copy(n.Output(0), n.Input(0), 8)), {"X": DATA})


def test_slices_outside_of_the_arena() -> None:
    with pytest.raises(ExecutionError, match=r"bytes \[112, 144\) of an arena of 128"):
        reference.run(program(call(0, n.Input(0), piece(112))), {"X": DATA})


def test_symbolic_sizes_constants_and_scalars() -> None:
    size = x.SizeVar("n")
    kernel = unary("scale", lambda v: v * 3.0, size)
    spec = n.TensorSpec("X", FLOAT, (size,)), n.TensorSpec("Y", FLOAT, (size,))
    constant = n.Constant("c", FLOAT, (2,), np.array([5, 6], "float32"))
    steps = (
        n.CallKernel(0, (n.Input(0), n.ArenaSlice(0, 0, size * 4), size)), n.Barrier(),
        n.Copy(n.Output(0), n.ArenaSlice(0, 0, size * 4), size * 4), n.Barrier(),
        n.Copy(n.Output(0), n.ConstantRef(0), 8),
    )  # fmt: skip
    whole = n.Executable("p", "cpu", spec[:1], spec[1:], (constant,), (n.Arena("a", size * 4),), (kernel,), steps)
    for count in (2, 5):
        (found,) = reference.run(whole, {"X": np.arange(count, dtype="float32")})
        assert found.tolist() == [5, 6, *(3 * v for v in range(2, count))]


def test_inputs_that_do_not_fit() -> None:
    whole = program(call(0, n.Input(0), n.Output(0)))
    with pytest.raises(InputError, match="the inputs do not fit"):
        reference.run(whole, {"Z": DATA})
    with pytest.raises(InputError, match="the shape does not fit"):
        reference.run(whole, {"X": DATA[:4]})
    with pytest.raises(InputError, match="X takes an array of float32"):
        reference.run(whole, {"X": DATA.astype("float64")})


def test_engines_are_refused() -> None:
    external = n.CallExternal("blas", (n.Input(0), n.Output(0)), ("r", "w"), (None, None))
    with pytest.raises(Unsupported, match="'blas'"):
        reference.run(program(external), {"X": DATA})


def test_listeners_hear_steps() -> None:
    class Names(Listener):
        def __init__(self) -> None:
            self.heard: list[tuple[str, str]] = []

        def step_begin(self, step: Step, time: float) -> None:
            self.heard.append((step.kind, step.name))

    names = Names()
    reference.run(program(call(0, n.Input(0), n.Output(0)), n.Barrier()), {"X": DATA}, listeners=(names,))
    assert names.heard == [("CallKernel", "double"), ("Barrier", "barrier")]


def test_a_compiled_matmul() -> None:
    from minitvm import te
    from minitvm.build import compile_executable
    from minitvm.target import Target

    a, b = te.placeholder((6, 5), name="A"), te.placeholder((5, 4), name="B")
    k = te.reduce_axis((0, 5), name="k")
    c = te.compute((6, 4), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    d = te.compute((6, 4), lambda i, j: c[i, j] + 1.0, name="D")
    whole = compile_executable(te.create_prim_func([a, b, d]), Target("cpu"))
    rng = np.random.default_rng(0)
    left, right = rng.integers(-4, 5, (6, 5)).astype("f"), rng.integers(-4, 5, (5, 4)).astype("f")
    (found,) = reference.run(whole, {"A": left, "B": right})
    assert (found == left @ right + 1).all()

"""GraphModule and Function: what callers get back, what they are refused, and that calls do not disturb each other."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minitvm
from minitvm import expr as e
from minitvm.errors import InputError, MinitvmError, TargetError, TypeMismatch
from minitvm.events import Listener, Step
from minitvm.executable import (
    Arena,
    ArenaSlice,
    Barrier,
    CallExternal,
    CallKernel,
    Constant,
    ConstantRef,
    Copy,
    Executable,
    Input,
    Kernel,
    KernelParam,
    Output,
    ScalarSpec,
    TensorSpec,
    load,
    save,
    verify,
)
from minitvm.graph import GraphBuilder
from minitvm.reference import executable as execution
from minitvm.reference import graph as interpreter
from minitvm.runtime import Function, GraphModule, register_engine
from minitvm.runtime.program import BOUND_LIMIT
from tests.patience import PATIENCE

F32, I32 = e.DType("float32"), e.DType("int32")
N = e.SizeVar("n")

SCALE = Kernel(
    "scale", "numba",
    "from minitvm.machines.simd.vectors.simd import pointer_f32, scalar_f32, scalar_i32\n"
    "def scale(args, thread, threads):\n"
    "    A = pointer_f32(args[0])\n    W = pointer_f32(args[1])\n    B = pointer_f32(args[2])\n"
    "    n = scalar_i32(args[3])\n    s = scalar_f32(args[4])\n"
    "    for i in range(n * thread // threads, n * (thread + 1) // threads):\n"
    "        for j in range(4):\n            B[i * 4 + j] = A[i * 4 + j] * s + W[j]\n",
    "scale",
    (KernelParam("A", F32), KernelParam("W", F32), KernelParam("B", F32, access="w"), KernelParam("n", I32, "scalar"),
     KernelParam("s", F32, "scalar")),
)  # fmt: skip
WEIGHT = np.arange(4, dtype=np.float32)


def twice(**changes: Any) -> Executable:
    """y = (x * 2 + w) * 0.5 + w, and z = x[0]; n is symbolic."""
    row = ArenaSlice(0, 64, N * 16)
    fields: dict[str, Any] = {
        "name": "twice",
        "target": "cpu",
        "inputs": (TensorSpec("x", F32, (N, 4)),),
        "outputs": (TensorSpec("y", F32, (N, 4)), TensorSpec("z", F32, (N, e.IntImm(4)))),
        "constants": (Constant("w", F32, (4,), WEIGHT),),
        "arenas": (Arena("scratch", N * 16 + 64),),
        "kernels": (SCALE,),
        "steps": (
            CallKernel(0, (Input(0), ConstantRef(0), row, N, 2.0)),
            Copy(Output(1), Input(0), N * 16),
            Barrier(),
            CallKernel(0, (row, ConstantRef(0), Output(0), N, e.FloatImm(0.5))),
        ),
    }
    x = Executable(**{**fields, **changes})
    verify(x)
    return x


def expected(x: Any) -> Any:
    return (x * 2 + WEIGHT) * np.float32(0.5) + WEIGHT


def array(n: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal((n, 4)).astype(np.float32)


@pytest.fixture(scope="module", params=[1, 2, 5])
def module(request: pytest.FixtureRequest) -> GraphModule:
    return GraphModule(twice(), threads=request.param)


def close(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


def test_calls_with_many_shapes(module: GraphModule) -> None:
    for n in (3, 1, 0, 17, 3, *range(BOUND_LIMIT + 3), 3):
        x = array(n, n)
        y, z = module(x)
        assert y.shape == z.shape == (n, 4) and y.dtype == np.float32
        close(y, expected(x))
        np.testing.assert_array_equal(z, x)
        close(module(x=x)[0], y)
    assert len(module._program._bound) <= BOUND_LIMIT and len(module._known) <= BOUND_LIMIT


def test_outputs_are_never_touched_again(module: GraphModule) -> None:
    x = array(9)
    y, z = module(x)
    kept = y.copy()
    module(array(9, 5))
    x[...] = 0
    np.testing.assert_array_equal(y, kept)
    assert not np.shares_memory(z, x)


def test_tvm_style(module: GraphModule) -> None:
    x = array(6)
    module.set_input("x", x)
    given = x.copy()
    x[...] = 0  # set_input keeps a copy
    module.run()
    first = module.get_output(0)
    close(first, expected(given))
    module.run(x=array(6, 2))
    close(module.get_output(0), expected(array(6, 2)))
    close(first, expected(given))
    module.set_input(0, given)
    module.run()
    np.testing.assert_array_equal(module.get_output(1), given)
    assert (module.num_inputs, module.num_outputs) == (1, 2)
    assert module.input_names == ("x",) and module.output_names == ("y", "z")


def test_outputs_have_their_names_whatever_passes_merge() -> None:
    b = GraphBuilder("merged")
    b.input("x", (2,))
    constant = b.constant(np.ones(2, np.float32), "k")
    graph = b.build([b.op("exp", constant, name="p"), b.op("exp", constant, name="q")])
    assert minitvm.build(graph).output_names == ("p", "q")


def test_inputs_that_are_not_contiguous(module: GraphModule) -> None:
    wide = np.random.default_rng(0).standard_normal((8, 10)).astype(np.float32)
    close(module(wide[::2, 1:5])[0], expected(wide[::2, 1:5]))
    odd = np.frombuffer(bytearray(1 + 8 * 16), np.uint8)[1:].view(np.float32).reshape(8, 4)  # not even aligned
    close(module(odd)[0], expected(odd))
    read_only = array(3)
    read_only.flags.writeable = False
    close(module(read_only)[0], expected(read_only))
    column = np.asfortranarray(array(5))
    close(module(column)[0], expected(column))


def test_out(module: GraphModule) -> None:
    x, y, z = array(3), np.empty((3, 4), np.float32), np.empty((3, 4), np.float32)
    results = module(x, out=[y, z])
    assert results[0] is y and results[1] is z
    close(y, expected(x))
    with pytest.raises(InputError, match="z has shape"):
        module(x, out=[y, np.empty((4, 4), np.float32)])
    with pytest.raises(InputError, match="out has 1 arrays"):
        module(x, out=y)
    with pytest.raises(InputError, match="y is written, and shares memory with x"):
        module(x, out=[x, z])
    with pytest.raises(InputError, match="y is written, and shares memory with z"):
        module(x, out=[y, y])
    frozen = y.copy()
    frozen.flags.writeable = False
    with pytest.raises(InputError, match="read-only"):
        module(x, out=[frozen, z])


REFUSED: list[tuple[str, Any, type[MinitvmError]]] = [
    ("the dtype of x does not fit", lambda m: m(array(3).astype(np.float64)), TypeMismatch),
    ("found:  an array of float64", lambda m: m(array(3).astype(np.float64)), TypeMismatch),
    ("an array of >f4", lambda m: m(array(3).astype(">f4")), TypeMismatch),
    ("dimension 1 is 5, wanted 4", lambda m: m(np.zeros((3, 5), np.float32)), InputError),
    ("2 dimensions, found 1", lambda m: m(np.zeros(4, np.float32)), InputError),
    ("no input called data", lambda m: m(data=array(3)), InputError),
    ("no value for x", lambda m: m(), InputError),
    ("2 inputs given", lambda m: m(array(3), array(3)), InputError),
    ("given twice|2 inputs given", lambda m: m(array(3), x=array(3)), InputError),
    ("x is a str", lambda m: m("hello"), TypeMismatch),
    ("no input called y", lambda m: m.set_input("y", array(3)), InputError),
    ("input 3 of 1", lambda m: m.set_input(3, array(3)), InputError),
    ("output 2 of 2", lambda m: (m.run(x=array(3)), m.get_output(2)), InputError),
]


@pytest.mark.parametrize("text, call, kind", REFUSED, ids=[r[0] for r in REFUSED])
def test_refusals_name_what_was_wanted(module: GraphModule, text: str, call: Any, kind: type[MinitvmError]) -> None:
    with pytest.raises(kind, match=text) as caught:
        call(module)
    assert "twice" in str(caught.value)
    close(module(array(2))[0], expected(array(2)))  # and it still works


def test_get_output_before_run() -> None:
    with pytest.raises(InputError, match="before run"):
        GraphModule(twice(), threads=1).get_output(0)


def test_modules_in_several_python_threads() -> None:
    """Two modules on one team, and one module used by two threads."""
    modules = [GraphModule(twice(), threads=2) for _ in range(2)]
    failures: list[BaseException] = []

    def use(module: GraphModule, seed: int) -> None:
        try:
            for i in range(60):
                x = array(1 + (seed + i) % 5, seed * 100 + i)
                close(module(x)[0], expected(x))
        except BaseException as error:
            failures.append(error)

    users = [threading.Thread(target=use, args=(modules[s % 2], s)) for s in range(4)]
    for user in users:
        user.start()
    for user in users:
        user.join(60)
    assert not failures, failures


def test_listeners_hear_each_step(module: GraphModule) -> None:
    class Ears(Listener):
        def __init__(self) -> None:
            self.heard: list[tuple[str, int, str]] = []
            self.times: list[float] = []

        def step_begin(self, step: Step, time: float) -> None:
            self.heard.append(("begin", step.index, step.name))
            self.times.append(time)

        def step_end(self, step: Step, time: float) -> None:
            self.heard.append(("end", step.index, step.name))
            self.times.append(time)

    ears = Ears()
    module.listeners = (ears,)
    try:
        close(module(array(4))[0], expected(array(4)))
    finally:
        module.listeners = ()
    names = ["scale", "copy", "barrier", "scale"]
    assert ears.heard == [(edge, i, name) for i, name in enumerate(names) for edge in ("begin", "end")]
    assert ears.times == sorted(ears.times)


def test_external_engines() -> None:
    calls: list[Any] = []

    def flip(args: list[Any], attrs: Any) -> None:
        calls.append((args[0].shape, args[2], dict(attrs)))
        args[1][...] = args[0][::-1]

    register_engine("test_flip", flip)
    row, spec = ArenaSlice(0, 64, N * 16), TensorSpec("t", F32, (N, 4))
    steps = (
        CallKernel(0, (Input(0), ConstantRef(0), row, N, 2.0)),
        CallExternal("test_flip", (row, Output(0), N + 1), ("r", "w", "r"), (spec, spec, None), {"axis": 0}),
    )
    module = GraphModule(twice(steps=steps, outputs=(TensorSpec("y", F32, (N, 4)),)), threads=2)
    x = array(5)
    close(module(x), (x * 2 + WEIGHT)[::-1])
    assert calls == [((5, 4), 6, {"axis": 0})]
    unknown = (dataclasses.replace(steps[1], engine="test_flop"),)
    broken = GraphModule(dataclasses.replace(module.executable, steps=(steps[0], *unknown)), threads=1)
    with pytest.raises(InputError, match="did you mean test_flip"):
        broken(x)


def test_a_foreign_kernel_language_is_refused() -> None:
    foreign = dataclasses.replace(SCALE, language="opencl")
    with pytest.raises(TargetError, match="scale is written in opencl"):
        GraphModule(twice(kernels=(foreign,)))


# -- Function


def saxpy() -> Executable:
    """f(y, a, x): y = a * x + y in place, with `a` a scalar parameter."""
    a, n = e.Var("a", F32), e.SizeVar("n")
    kernel = Kernel(
        "saxpy", "numba",
        "from minitvm.machines.simd.vectors.simd import pointer_f32, scalar_f32, scalar_i32\n"
        "def saxpy(args, thread, threads):\n"
        "    Y = pointer_f32(args[0])\n    a = scalar_f32(args[1])\n    X = pointer_f32(args[2])\n"
        "    n = scalar_i32(args[3])\n"
        "    for i in range(n * thread // threads, n * (thread + 1) // threads):\n        Y[i] = a * X[i] + Y[i]\n",
        "saxpy",
        (KernelParam("Y", F32, access="rw"), KernelParam("a", F32, "scalar"), KernelParam("X", F32),
         KernelParam("n", I32, "scalar")),
    )  # fmt: skip
    x = Executable(
        "saxpy", "cpu", (ScalarSpec("a", F32, a), TensorSpec("x", F32, (n,))),
        (TensorSpec("y", F32, (n,), inout=True),),
        (), (), (kernel,), (CallKernel(0, (Output(0), a, Input(1), n)),), (Output(0), Input(0), Input(1)),
    )  # fmt: skip
    verify(x)
    return x


@pytest.mark.parametrize("threads", [1, 3])
def test_function_writes_in_place(threads: int) -> None:
    f = Function(saxpy(), threads=threads)
    for n in (5, 0, 1000):
        y, x = np.ones(n, np.float32), np.arange(n, dtype=np.float32)
        assert f(y, 0.1, x) is None
        close(y, np.float32(0.1) * x + 1)
        f(y, np.float32(2), np.repeat(x, 2)[::2])
        close(y, np.float32(2.1) * x + 1)


BAD_CALLS: list[tuple[str, Any]] = [
    ("2 arguments; wanted saxpy\\(y: float32\\(n,\\), a: float32, x: float32\\(n,\\)\\)", lambda f, y, x: f(y, x)),
    ("a is 'two' of type str", lambda f, y, x: f(y, "two", x)),
    ("x does not fit", lambda f, y, x: f(y, 1.0, x.astype(np.int32))),
    ("shape of (x|y) does not fit", lambda f, y, x: f(y, 1.0, x[:4])),
    ("must be C-contiguous", lambda f, y, x: f(np.zeros(16, np.float32)[::2], 1.0, x)),
    ("written in place; wanted an array, found a list", lambda f, y, x: f([0.0] * 8, 1.0, x)),
    ("y is written, and shares memory with x", lambda f, y, x: f(y, 1.0, y)),
    ("y is written, and shares memory with x", lambda f, y, x: f(x[:7], 1.0, x[1:])),
]


@pytest.mark.parametrize("text, call", BAD_CALLS)
def test_function_refuses(text: str, call: Any) -> None:
    f = Function(saxpy(), threads=1)
    y, x = np.zeros(8, np.float32), np.ones(8, np.float32)
    with pytest.raises(MinitvmError, match=text):
        call(f, y, x)
    assert (y == 0).all()


def test_function_called_again_still_checks() -> None:
    """The second call with a shape takes the short way; it refuses, copies and follows new shapes all the same."""
    x = Executable(
        "scale", "cpu", (TensorSpec("x", F32, (N, 4)),), (TensorSpec("y", F32, (N, 4)),),
        (Constant("w", F32, (4,), WEIGHT),), (), (SCALE,),
        (CallKernel(0, (Input(0), ConstantRef(0), Output(0), N, 2.0)),),
        (Output(0), Input(0)),
    )  # fmt: skip
    f = Function(x, threads=2)
    a, y = array(6), np.zeros((6, 4), np.float32)
    for seed in range(3):
        a[...] = array(6, seed)
        f(y, a)
        close(y, a * 2 + WEIGHT)
    kept = y.copy()
    frozen = np.zeros((6, 4), np.float32)
    frozen.flags.writeable = False
    both = np.zeros((7, 4), np.float32)
    for bad in ((a, a), (frozen, a), (y, a.astype(np.float64)), (y[::-1], a), (both[1:], both[:6]), (y, array(5))):
        with pytest.raises(MinitvmError):
            f(*bad)
    np.testing.assert_array_equal(y, kept)
    wide = np.zeros((6, 8), np.float32)
    wide[:, ::2] = array(6, 9)
    f(y, wide[:, ::2])
    close(y, array(6, 9) * 2 + WEIGHT)
    small = np.zeros((2, 4), np.float32)
    f(small, array(2))
    close(small, array(2) * 2 + WEIGHT)


def test_a_process_ends_cleanly_while_workers_spin(tmp_path: Any) -> None:
    """No crash and no message at exit, whether by falling off the end, by an exception or by sys.exit."""
    save(twice(), tmp_path / "twice")
    program = (
        "import sys, numpy as np\n"
        "from minitvm.executable import load\n"
        "from minitvm.runtime import GraphModule\n"
        "m = GraphModule(load(sys.argv[1]), threads=3)\n"
        "x = np.ones((5, 4), np.float32)\n"
        "for _ in range(20):\n    y, z = m(x)\n"
        "assert y[0, 0] == 1 and (z == 1).all()\n"
        "assert not any(name in sys.modules for name in ('sympy', 'onnx', 'minitvm.tir'))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    for ending, code in (("", 0), ("sys.exit(3)\n", 3)):
        run = [sys.executable, "-c", program + ending, str(tmp_path / "twice")]
        done = subprocess.run(run, env=environment, timeout=PATIENCE, check=False, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (code, "")


def test_integer_scalars_are_checked_and_size_arrays() -> None:
    """A scalar input may be a dimension."""
    m = e.SizeVar("m", I32)
    kernel = dataclasses.replace(SCALE)
    x = Executable(
        "resize", "cpu", (ScalarSpec("m", I32, m), TensorSpec("x", F32, (m, 4))), (TensorSpec("y", F32, (m, 4)),),
        (Constant("w", F32, (4,), WEIGHT),), (), (kernel,),
        (CallKernel(0, (Input(1), ConstantRef(0), Output(0), m, 1.0)),),
    )  # fmt: skip
    verify(x)
    module = GraphModule(x, threads=1)
    close(module(3, array(3)), array(3) + WEIGHT)
    close(module(np.int64(2), array(2)), array(2) + WEIGHT)
    with pytest.raises(InputError, match="wanted 4"):
        module(4, array(3))
    with pytest.raises(TypeMismatch, match=r"m is 2\.5"):
        module(2.5, array(3))
    with pytest.raises(InputError, match="int32 does not hold"):
        module(2**40, array(3))


def test_bool_half_and_wide_integers() -> None:
    """Dtypes whose register form differs from memory."""
    kinds = [("b1", "bool"), ("f16", "float16"), ("bf16", "bfloat16"), ("u64", "uint64"), ("i8", "int8")]
    for element, dtype in kinds:
        d = e.DType(dtype)
        kernel = Kernel(
            "copy", "numba",
            f"from minitvm.machines.simd.vectors.simd import load, pointer_{element}, store\n"
            f"def copy(args, thread, threads):\n"
            f"    A = pointer_{element}(args[0])\n    B = pointer_{element}(args[1])\n"
            f"    store(B, 0, load(A, 0, 4))\n    B[4] = A[4]\n",
            "copy", (KernelParam("A", d), KernelParam("B", d, access="w")),
        )  # fmt: skip
        x = Executable(
            "copy", "cpu", (TensorSpec("a", d, (5,)),), (TensorSpec("b", d, (5,)),), (), (), (kernel,),
            (CallKernel(0, (Input(0), Output(0)), parallel=False),),
        )  # fmt: skip
        a = np.array([0, 1, 0, 1, 1], dtype)
        np.testing.assert_array_equal(GraphModule(x, threads=2)(a), a)


class Foreign:
    """An array of some other library: a shape and a way to NumPy, no flags."""

    def __init__(self, data: Any) -> None:
        self.data = data
        self.shape, self.dtype = data.shape, data.dtype

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.data


def test_arrays_of_other_libraries_on_every_call(module: GraphModule) -> None:
    f = Function(
        Executable(
            "scale", "cpu", (TensorSpec("x", F32, (N, 4)),), (TensorSpec("y", F32, (N, 4)),),
            (Constant("w", F32, (4,), WEIGHT),), (), (SCALE,),
            (CallKernel(0, (Input(0), ConstantRef(0), Output(0), N, 2.0)),),
        ),
        threads=1,
    )  # fmt: skip
    for seed in range(3):
        x, y = array(6, seed), np.zeros((6, 4), np.float32)
        close(module(Foreign(x))[0], expected(x))
        f(Foreign(x), y)
        close(y, x * 2 + WEIGHT)


def test_growing_shapes_leave_no_old_arenas_behind() -> None:
    module = GraphModule(twice(), threads=1)
    arenas = []
    for n in (1, 50, 300, 2000):
        close(module(array(n))[0], expected(array(n)))
        arenas.append(weakref.ref(module._program._arenas[0].memory))
    assert [arena() is not None for arena in arenas] == [False, False, False, True]
    close(module(array(50))[0], expected(array(50)))


def test_constants_of_a_loaded_program_are_used_where_they_lie(tmp_path: Any) -> None:
    weight = Constant("w", F32, (4,), np.arange(8, dtype=np.float32)[::2].copy())
    executable = load(save(twice(constants=(weight,)), tmp_path / "twice")[0])
    module = GraphModule(executable, threads=1)
    assert module._program.constants[0] is executable.constants[0].data
    close(module(array(3))[0], (array(3) * 2 + weight.data) * np.float32(0.5) + weight.data)


def test_a_multiple_of_a_variable_determines_it() -> None:
    """Compiled and interpreted: 4 n of 12 makes n 3, and what does not divide is refused."""
    n, b = e.SizeVar("n"), GraphBuilder()
    x = b.input("x", (n * 4, 2))
    graph = b.build(b.op("reshape", b.op("nn.relu", x), newshape=(n, 8)))
    module, data = minitvm.build(graph, threads=1), np.arange(-12, 12, dtype=np.float32).reshape(12, 2)
    wanted = np.maximum(data, 0).reshape(3, 8)
    np.testing.assert_array_equal(module(data), wanted)
    np.testing.assert_array_equal(interpreter.run(graph, [data])[0], wanted)
    with pytest.raises(InputError, match="dimension 0 is 11, wanted 8"):
        module(data[:11])
    with pytest.raises(InputError, match="input x"):
        interpreter.run(graph, [data[:11]])
    np.testing.assert_array_equal(execution.run(module.executable, {"x": data})[0], wanted)
    with pytest.raises(InputError, match="x: the shape does not fit"):
        execution.run(module.executable, {"x": data[:11]})

"""The executable: what the verifier refuses, what the printer shows, and what comes back from a file."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm import expr as e
from minitvm.errors import ArtifactError, InputError, Unsupported, VerificationError
from minitvm.executable import (
    RULES,
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
    Loop,
    Output,
    ScalarSpec,
    StateSpec,
    TensorSpec,
    evaluate,
    load,
    save,
    script,
    verify,
)
from minitvm.executable.evaluation import function_of
from minitvm.reference.strategies.expressions import exprs

F32, I32 = e.DType("float32"), e.DType("int32")
N = e.SizeVar("n")


def program(**changes: Any) -> Executable:
    """y = (x + w) twice over, through an arena; n is symbolic."""
    add = Kernel(
        "add", "numba", "source", "add",
        (KernelParam("A", F32), KernelParam("W", F32), KernelParam("B", F32, access="w"),
         KernelParam("n", I32, "scalar")),
        "script",
    )  # fmt: skip
    weight = np.arange(4, dtype=np.float32)
    fields: dict[str, Any] = {
        "name": "main",
        "target": "cpu",
        "inputs": (TensorSpec("x", F32, (N, 4)),),
        "outputs": (TensorSpec("y", F32, (N, 4)),),
        "constants": (Constant("w", F32, (4,), weight),),
        "arenas": (Arena("scratch", N * 16 + 64),),
        "kernels": (add,),
        "steps": (
            CallKernel(0, (Input(0), ConstantRef(0), ArenaSlice(0, 64, N * 16), N)),
            Barrier(),
            CallKernel(0, (ArenaSlice(0, 64, N * 16), ConstantRef(0), Output(0), N)),
        ),
    }
    return Executable(**{**fields, **changes})


def steps(*middle: Any) -> dict[str, Any]:
    return {"steps": middle}


GOOD = program()
FIRST, BARRIER, LAST = GOOD.steps
ROW = ArenaSlice(0, 64, N * 16)
MISTAKES: dict[str, dict[str, Any]] = {
    "unique_names": {"arenas": (*GOOD.arenas, *GOOD.arenas)},
    "indices_in_range": steps(FIRST, BARRIER, CallKernel(0, (ROW, ConstantRef(1), Output(0), N))),
    "calling_order": {"calling": (Input(0), Input(0))},
    "arguments_fit": steps(FIRST, BARRIER, CallKernel(0, (ROW, N, Output(0), N))),
    "loops_nest": steps(FIRST, Loop(2, ROW, ROW), LAST),
    "constants_fit": {"constants": (Constant("w", F32, (4,), np.zeros(5, np.float32)),)},
    "states_fixed": {"states": (StateSpec("k", F32, (e.SizeVar("n"), 4)),)},
    "symbols_bound": steps(FIRST, BARRIER, CallKernel(0, (ROW, ConstantRef(0), Output(0), e.Var("m")))),
    "slices_inside_arenas": {"arenas": (Arena("scratch", 32),)},
    "own_memory": {"arenas": (Arena("scratch", N * 16 + 64, target="cpu"),)},
    "read_only": steps(FIRST, BARRIER, LAST, Copy(Input(0), Output(0), 16)),
    "no_aliasing": steps(FIRST, BARRIER, LAST, BARRIER, CallKernel(0, (ROW, ConstantRef(0), ROW, N))),
    "outputs_written": steps(FIRST),
    "reads_after_writes": steps(LAST),
    "ordered": steps(FIRST, LAST),
}


def test_a_good_program_passes() -> None:
    verify(GOOD)
    verify(GOOD, {N: 5})


@pytest.mark.parametrize("rule", [r.name for r in RULES])
def test_each_rule_catches_its_mistake(rule: str) -> None:
    with pytest.raises(VerificationError, match=f"executable main: {rule}\n"):
        verify(program(**MISTAKES[rule]), {N: 5})


def test_destinations_bind_dimensions_of_a_function() -> None:
    rows = e.SizeVar("rows")
    one = (CallKernel(0, (Input(0), ConstantRef(0), Output(0), rows)),)
    wide = program(steps=one, outputs=(TensorSpec("y", F32, (rows, 4)),))
    with pytest.raises(VerificationError, match="symbols_bound"):
        verify(wide)
    verify(dataclasses.replace(wide, calling=(Input(0), Output(0))))


def test_the_error_marks_the_step() -> None:
    with pytest.raises(VerificationError) as caught:
        verify(program(steps=(FIRST, LAST)))
    assert str(caught.value) == (
        "executable main: ordered\n"
        '    def main(x: Tensor((n, 4), "float32")) -> (y: Tensor((n, 4), "float32")):  # for cpu\n'
        '        w = constant((4,), "float32")  # 16 bytes\n'
        "        scratch = arena(n * 16 + 64, alignment=64)\n"
        '        add = kernel("numba", add(A: float32 r, W: float32 r, B: float32 w, n: int32 scalar))\n'
        "        add(x, w, scratch[64:64 + n * 16], n)  # 0\n"
        "        add(scratch[64:64 + n * 16], w, y, n)  # 1\n"
        "        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ here\n"
        "  wanted: steps that share bytes, one writing, are separated by a barrier or both run on thread 0\n"
        "  found:  shares bytes with step 0, and no barrier stands between them"
    )


def test_sequential_steps_need_no_barrier() -> None:
    alone = [dataclasses.replace(s, parallel=False) for s in (FIRST, LAST)]  # type: ignore[type-var]
    verify(program(steps=tuple(alone)))
    with pytest.raises(VerificationError, match="ordered"):
        verify(program(steps=(alone[0], LAST)))


def test_overlap_is_by_bytes() -> None:
    """Half a slice read later needs its barrier too; disjoint slices do not."""
    halves = [ArenaSlice(0, 64, 32), ArenaSlice(0, 96, 32)]
    half = Arena("scratch", 128)
    write = CallKernel(0, (Input(0), ConstantRef(0), halves[0], 2))
    finish = (Barrier(), CallKernel(0, (halves[0], ConstantRef(0), Output(0), 2)))
    other = CallKernel(0, (Input(0), ConstantRef(0), halves[1], 2))
    verify(program(arenas=(half,), steps=(write, other, *finish)))
    overlapping = CallKernel(0, (Input(0), ConstantRef(0), ArenaSlice(0, 80, 32), 2))
    with pytest.raises(VerificationError, match="ordered"):
        verify(program(arenas=(half,), steps=(write, overlapping, *finish)))


def full_program() -> Executable:
    """Every kind of step, location and expression."""
    k = e.Var("k", e.DType("int64"))
    size = e.Max(N, e.IntImm(1)) * 16 + e.FloorMod(N, e.IntImm(3)) + e.Select(N > 3, e.IntImm(1), e.IntImm(2))
    rich = e.Cast(e.DType("int64"), size) - e.Min(k, e.call("if_then_else", e.Not(k < 2), k, k * k))
    return program(
        inputs=(TensorSpec("x", F32, (N, 4)), ScalarSpec("k", e.DType("int64"), k)),
        arenas=(Arena("scratch", N * 16 + 64), Arena("more", rich, 128)),
        steps=(
            FIRST,
            Barrier(),
            Copy(Output(0), ArenaSlice(0, 64, N * 16), N * 16),
            CallExternal(
                "sort", (Output(0), N + 1, 2.5), ("rw", "r", "r"), (TensorSpec("y", F32, (N, 4)), None, None),
                {"axis": 1, "names": ["a"]},
            ),
            CallKernel(0, (ArenaSlice(0, 64, N * 16), ConstantRef(0), Output(0), N), parallel=False),
        ),
        calling=(Output(0), Input(1), Input(0)),
    )  # fmt: skip


def test_printer_shows_everything() -> None:
    text = script(full_program())
    for part in ("k: int64", "barrier()", "copy(y, scratch[64:64 + n * 16], n * 16)", "# thread 0",
                 "external('sort', y, n + 1, 2.5, axis=1, names=['a'])", "more = arena("):  # fmt: skip
        assert part in text


def test_files_bring_the_same_program_back(tmp_path: Path) -> None:
    before = full_program()
    save(before, tmp_path / "model")
    after = load(tmp_path / "model.json")
    assert script(after) == script(before)
    assert after.kernels == before.kernels
    assert after.calling == before.calling
    np.testing.assert_array_equal(after.constants[0].data, before.constants[0].data)
    assert not after.constants[0].data.flags.writeable
    # One variable stays one variable: the size at given dimensions is the same.
    n, k = after.inputs[0].shape[0], after.inputs[1].var  # type: ignore[union-attr]
    old_k = before.inputs[1].var  # type: ignore[union-attr]
    for dims in ((2, 5), (7, 1)):
        old = evaluate(before.arenas[1].size, {N: dims[0], old_k: dims[1]})
        assert evaluate(after.arenas[1].size, {n: dims[0], k: dims[1]}) == old  # type: ignore[dict-item]


def test_non_finite_scalars_survive(tmp_path: Path) -> None:
    before = program(steps=(*GOOD.steps, CallExternal("f", (float("-inf"), float("nan")), ("r", "r"), (None, None))))
    save(before, tmp_path / "m")
    args = load(tmp_path / "m").steps[-1].args  # type: ignore[union-attr]
    assert args[0] == float("-inf") and args[1] != args[1]


@pytest.mark.parametrize("suffix", [".json", ".bin"])
@pytest.mark.parametrize("damage", ["missing", "truncated", "altered", "empty"])
def test_damaged_files_are_refused(tmp_path: Path, suffix: str, damage: str) -> None:
    save(GOOD, tmp_path / "m")
    path = tmp_path / f"m{suffix}"
    data = bytearray(path.read_bytes())
    if damage == "missing":
        path.unlink()
    elif damage == "truncated":
        path.write_bytes(data[: len(data) // 2])
    elif damage == "empty":
        path.write_bytes(b"")
    else:
        at = data.index(b"scratch") if suffix == ".json" else 5
        data[at] ^= 1
        path.write_bytes(data)
    with pytest.raises(ArtifactError):
        load(tmp_path / "m")


def test_another_version_is_refused(tmp_path: Path) -> None:
    path, _ = save(GOOD, tmp_path / "m")
    head = json.loads(path.read_text())
    head["version"] = 999
    path.write_text(json.dumps(head))
    with pytest.raises(ArtifactError, match="version 999"):
        load(path)
    path.write_text('{"hello": 1}')
    with pytest.raises(ArtifactError, match="is not an executable"):
        load(path)


@pytest.mark.parametrize("dtype", ["bool", *(f"{sign}int{bits}" for bits in (8, 16, 32, 64) for sign in ("", "u"))])
def test_conversions_wrap_as_those_of_numpy(dtype: str) -> None:
    kind, x = e.DType(dtype), e.Var("x", "int64")
    ends = [end + step for end in (kind.min, kind.max, 0, 2**40) for step in (-1, 0, 1)]
    for number in [n for n in ends if -(2**63) <= n < 2**63]:
        converted = e.Cast(kind, x)
        wanted = int(np.array(number, np.int64).astype(dtype))
        assert evaluate(converted, {x: number}) == function_of(converted)({x: number}) == wanted


@given(st.integers(-50, 50), st.integers(-50, 50))
def test_evaluate_is_python(a: int, b: int) -> None:
    x, y = e.Var("x"), e.Var("y")
    env = {x: a, y: b}
    assert evaluate(x * 3 - y, env) == a * 3 - b
    assert evaluate(e.Add(e.Max(x, y), e.Min(x, e.IntImm(4))), env) == max(a, b) + min(a, 4)
    assert bool(evaluate(e.And(x < y, y < 9), env)) == (a < b < 9)
    assert evaluate(e.Select(x <= y, x, y), env) == min(a, b)
    if b:
        assert evaluate(x // y, env) == a // b
        assert evaluate(x % y, env) == a % b
        truncated = int(a / b)
        assert evaluate(e.Div(x, y), env) == truncated
        assert evaluate(e.Mod(x, y), env) == a - b * truncated
    else:
        with pytest.raises(InputError, match="divides by zero where x = "):
            evaluate(x // y, env)


_X, _Y = e.Var("x"), e.Var("y")


@given(exprs((_X, _Y), max_depth=4), exprs((_X, _Y), "bool"), st.integers(-20, 20), st.integers(-20, 20))
def test_a_function_of_an_expression_is_its_evaluation(size: e.Expr, condition: e.Expr, a: int, b: int) -> None:
    for expression in (size, condition, e.Not(condition), e.Select(condition, size, _X)):
        assert function_of(expression)({_X: a, _Y: b}) == evaluate(expression, {_X: a, _Y: b})


def test_what_a_function_of_an_expression_cannot_compute() -> None:
    with pytest.raises(InputError, match="divides by zero where x = 1"):
        function_of(_X // _Y)({_X: 1, _Y: 0})
    with pytest.raises(InputError, match="the symbolic dimension y has no value"):
        function_of(_X // _Y)({_X: 1})


def test_a_shared_node_is_evaluated_once() -> None:
    """Offsets in an arena contain each other; here each sum is twice in the next, 2^200 nodes as a tree."""
    total: e.Expr = N
    for _ in range(200):
        total = e.Add(total, total)
    assert evaluate(total, {N: 3}) == function_of(total)({N: 3}) == 3 << 200


def test_an_evaluation_keeps_what_a_let_binds_apart() -> None:
    v = e.Var("v")
    shared = v + N
    both = e.Add(e.Let(v, e.IntImm(1), shared), e.Let(v, e.IntImm(20), shared))
    assert evaluate(e.Add(both, shared), {N: 100, v: 3}) == 101 + 120 + 103


def test_evaluate_refuses_what_it_does_not_know() -> None:
    with pytest.raises(InputError, match="dimension n has no value"):
        evaluate(N + 1, {})
    with pytest.raises(Unsupported, match="exp"):
        evaluate(e.call("exp", e.const(1.0)), {})
    assert evaluate(e.Cast(e.DType("int8"), N), {N: 200}) == -56
    assert evaluate(e.Let(e.Var("v"), N, e.IntImm(3)), {N: 1}) == 3

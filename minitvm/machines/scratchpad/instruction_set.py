# mypy: ignore-errors
# What stands in a @T.prim_func is TVMScript: names that Python never evaluates.
"""The instructions of machines with scratchpads: the work of one micro-op, or of one element of a transfer.

    load_inp, load_wgt, load_acc        an element from memory into a scratchpad
    load_acc8                           the same for numbers of the result's dtype, widened into a register
    load_inp_padded, load_acc8_padded   the same, or zeros if the element is in the frame around the tensor
    load_acc8_least                     the same, with the least number of that dtype in the frame
    reset                               a register = 0
    gemm                                a register += inp @ wgt^T
    alu_max_imm, alu_add, ...           a register = op(a register, a constant or another register)
    alu_mul                             the same on the low bits of both, as many as a number of inp has
    alu_clip_imm                        a register, clipped to two constants
    accumulate_add, accumulate_max      a register = op(itself, another one)
    fill_imm                            a register = a constant: two instructions, reset and add
    copy                                a register = another one: two instructions, reset and add
    store                               a register, cut to its low bits, to memory

An element of a scratchpad is a vector or matrix that the array processes at once, so each description is about whole
elements. For example, with `Elements(1, 16, 16)`, an element of inp has 1 x 16 numbers, an element of wgt has 16 x 16,
and a register has 1 x 16. Names end with these sizes and the dtypes of inp, wgt, registers and results:
"accel.gemm.1x16x16.i8i8i32i8". Lowering decides how many elements an instruction of the machine processes, and in which
loops (`machines.scratchpad.transform`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from ...backend import lookup
from ...errors import InputError, TargetError
from ...tir.nodes import PrimFunc
from ...tir.tensor_intrin import TensorIntrin

INP, WGT, ACC = "inp", "wgt", "acc"  # the scopes of the scratchpads
DIALECT = "accel-asm"
PREFIX = "accel."
_NAME = re.compile(r"(\w+)\.(\w+)\.(\d+)x(\d+)x(\d+)\.i(\d+)i(\d+)i(\d+)i(\d+)\Z")
_TOKEN = re.compile(r"accel\.(push|pop)\.(\w+)\.(\w+)\Z")
FINISH = PREFIX + "finish"  # the host may read the results


@dataclass(frozen=True, slots=True)
class InstructionSet:
    """The operations of a machine on one element, by name. This is the part "instructions" of its back end.

    The names of operations tell passes three facts: "load..." and "store..." are transfers, "..._padded" has a frame of
    zeros, and "alu..." overwrites its first operand with its result. `unit_of` returns the unit of the machine that
    runs an operation; each unit runs its instructions in order. The module `spellings` has a function for the first
    word of each operation's name, which writes the operation in the language `dialect`.
    """

    machine: str
    dialect: str
    spellings: str
    operations: Mapping[str, Callable[[Elements], PrimFunc]]
    unit_of: Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Elements:
    """The sizes of the array, `batch` x `block_in` by `block_out` x `block_in`, and the dtypes of its operands and
    results.
    """

    batch: int
    block_in: int
    block_out: int
    inp: str = "int8"
    wgt: str = "int8"
    acc: str = "int32"
    out: str = "int8"
    machine: str = "accel"

    def name(self, operation: str) -> str:
        """Return the name of an intrinsic, registering it if necessary."""
        bits = "".join(f"i{dtype[3:]}" for dtype in (self.inp, self.wgt, self.acc, self.out))
        name = f"{self.machine}.{operation}.{self.batch}x{self.block_in}x{self.block_out}.{bits}"
        if name not in TensorIntrin.KNOWN:
            self._register(name, operation)
        return name

    def _register(self, name: str, operation: str) -> None:
        its = instruction_set(self.machine)
        operations = {} if its is None else its.operations
        if its is None or operation not in operations:
            names = ", ".join(operations) or "none at all"
            raise InputError(f"{self.machine}: the accelerator has no operation {operation!r}: {names}")
        spelling = f"{its.spellings}:{operation.partition('_')[0]}"
        TensorIntrin.register(name, operations[operation](self), instruction={its.dialect: spelling})


_SETS: dict[str, InstructionSet] = {}


def instruction_set(machine: str) -> InstructionSet | None:
    """Return the instructions of a kind of target on elements, or None if it has none."""
    if machine not in _SETS:
        try:
            its = lookup(machine, "instructions")
        except TargetError:  # no kind of target is called so
            its = None
        if its is None:
            return None
        _SETS[machine] = its
    return _SETS[machine]


def operation_of(name: str) -> str | None:
    """Return the operation of an instruction's name: "gemm" for "accel.gemm.1x16x16.i8i8i32i8". None for other
    instructions.
    """
    match = _NAME.match(name)
    return match.group(2) if match else None


def module_of(name: str) -> str:
    """Return the unit of the machine that runs an instruction. For the tensor accelerator, this is load, compute or
    store.
    """
    match = _NAME.match(name)
    its = instruction_set(match.group(1)) if match else None
    return "compute" if match is None or its is None else its.unit_of(match.group(2))


def _unit(operation: str) -> str:
    if operation == "store":
        return "store"
    return "load" if operation.startswith(("load_inp", "load_wgt")) else "compute"


def token(verb: str, source: str, target: str) -> str:
    """Return the name of the instruction that pushes a token from one module to another, or pops it there.

    A push belongs to the previous instruction of `source`, and a pop to the next instruction of `target`.
    """
    return f"{PREFIX}{verb}.{source}.{target}"


def token_of(name: str) -> tuple[str, str, str] | None:
    """Return (verb, source, target) for the name of a token, or None for any other name."""
    match = _TOKEN.match(name)
    return (match.group(1), match.group(2), match.group(3)) if match else None


def register_named(name: str) -> None:
    """Register the intrinsic with this name, if it belongs to a machine with scratchpads."""
    match = _NAME.match(name)
    its = instruction_set(match.group(1)) if match else None
    if match and its is not None and match.group(2) in its.operations:
        sizes, dtypes = map(int, match.groups()[2:5]), (f"int{bits}" for bits in match.groups()[5:])
        Elements(*sizes, *dtypes, machine=its.machine).name(match.group(2))


def load(e: Elements, what: str) -> PrimFunc:
    """Describe loading an element of the scratchpad `what`. With "inp_padded", it is zeros if a condition does not
    hold.
    """
    scope, frame = what.partition("_")[::2]
    rows, columns = {INP: (e.batch, e.block_in), WGT: (e.block_out, e.block_in)}.get(scope, (e.batch, e.block_out))
    stored = {INP: e.inp, WGT: e.wgt, ACC: e.acc, "acc8": e.out}[scope]
    source = (stored, "global")
    target = (e.acc, ACC) if scope == "acc8" else (stored, scope)
    if not frame:
        return _moved(rows, columns, source, target)
    return _framed(rows, columns, source, target, -(1 << int(stored[3:]) - 1) if frame == "least" else 0)


def _moved(rows: int, columns: int, source: tuple[str, str], target: tuple[str, str]) -> PrimFunc:
    """Describe a move of an element between places, converting its numbers. A place is (dtype, scope)."""
    from ...tir.script import builtins as T

    (dtype, scope), (new_dtype, new_scope) = source, target

    @T.prim_func
    def desc(
        S: T.Buffer((rows, columns), dtype, scope=scope), D: T.Buffer((rows, columns), new_dtype, scope=new_scope)
    ) -> None:
        with T.block("root"):
            T.reads(S[0:rows, 0:columns])
            T.writes(D[0:rows, 0:columns])
            for i, j in T.grid(rows, columns):
                with T.block("move"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    D[vi, vj] = S[vi, vj].astype(new_dtype)

    return desc


def _framed(rows: int, columns: int, source: tuple[str, str], target: tuple[str, str], fill: int) -> PrimFunc:
    """Describe a move like `_moved`, or a fill with `fill` if a condition does not hold."""
    from ...tir.script import builtins as T

    (dtype, scope), (new_dtype, new_scope) = source, target

    @T.prim_func
    def desc(
        S: T.Buffer((rows, columns), dtype, scope=scope),
        D: T.Buffer((rows, columns), new_dtype, scope=new_scope),
        inside: T.bool,
    ) -> None:
        with T.block("root"):
            T.reads(S[0:rows, 0:columns])
            T.writes(D[0:rows, 0:columns])
            for i, j in T.grid(rows, columns):
                with T.block("move"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    D[vi, vj] = T.if_then_else(inside, S[vi, vj].astype(new_dtype), T.Cast(new_dtype, fill))

    return desc


def _fill(e: Elements) -> PrimFunc:
    from ...tir.script import builtins as T

    rows, columns, acc = e.batch, e.block_out, e.acc

    @T.prim_func
    def desc(D: T.Buffer((rows, columns), acc, scope="acc"), imm: T.int32) -> None:
        with T.block("root"):
            T.reads()
            T.writes(D[0:rows, 0:columns])
            for i, j in T.grid(rows, columns):
                with T.block("fill"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    D[vi, vj] = imm

    return desc


def _accumulate(e: Elements, op: str) -> PrimFunc:
    from ...tir.script import builtins as T

    rows, columns, acc = e.batch, e.block_out, e.acc
    apply = {"max": T.max, "add": lambda a, b: a + b}[op]

    @T.prim_func
    def desc(S: T.Buffer((rows, columns), acc, scope="acc"), D: T.Buffer((rows, columns), acc, scope="acc")) -> None:
        with T.block("root"):
            T.reads(D[0:rows, 0:columns], S[0:rows, 0:columns])
            T.writes(D[0:rows, 0:columns])
            for i, j in T.grid(rows, columns):
                with T.block("accumulate"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    D[vi, vj] = apply(D[vi, vj], S[vi, vj])

    return desc


def _copy(e: Elements) -> PrimFunc:
    return _moved(e.batch, e.block_out, (e.acc, ACC), (e.acc, ACC))


def _store(e: Elements) -> PrimFunc:
    return _moved(e.batch, e.block_out, (e.acc, ACC), (e.out, "global"))


def reset(e: Elements) -> PrimFunc:
    """Describe setting a register to 0."""
    from ...tir.script import builtins as T

    rows, columns, acc = e.batch, e.block_out, e.acc

    @T.prim_func
    def desc(D: T.Buffer((rows, columns), acc, scope="acc")) -> None:
        with T.block("root"):
            T.reads()
            T.writes(D[0:rows, 0:columns])
            for i, j in T.grid(rows, columns):
                with T.block("reset"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    D[vi, vj] = T.Cast(acc, 0)

    return desc


def gemm(e: Elements) -> PrimFunc:
    """Describe adding inp @ wgt^T to a register."""
    from ...tir.script import builtins as T

    batch, inner, outer, inp, wgt, acc = e.batch, e.block_in, e.block_out, e.inp, e.wgt, e.acc

    @T.prim_func
    def desc(
        A: T.Buffer((batch, inner), inp, scope="inp"),
        B: T.Buffer((outer, inner), wgt, scope="wgt"),
        C: T.Buffer((batch, outer), acc, scope="acc"),
    ) -> None:
        with T.block("root"):
            T.reads(C[0:batch, 0:outer], A[0:batch, 0:inner], B[0:outer, 0:inner])
            T.writes(C[0:batch, 0:outer])
            for i, j, k in T.grid(batch, outer, inner):
                with T.block("update"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    C[vi, vj] = C[vi, vj] + T.Cast(acc, A[vi, vk]) * T.Cast(acc, B[vj, vk])

    return desc


def _clip(e: Elements) -> PrimFunc:
    from ...tir.script import builtins as T

    rows, columns, acc = e.batch, e.block_out, e.acc

    @T.prim_func
    def desc(
        S: T.Buffer((rows, columns), acc, scope="acc"), D: T.Buffer((rows, columns), acc, scope="acc"), most: T.int32,
        least: T.int32,
    ) -> None:  # fmt: skip
        with T.block("root"):
            T.reads(S[0:rows, 0:columns])
            T.writes(D[0:rows, 0:columns])
            for i, j in T.grid(rows, columns):
                with T.block("alu"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    D[vi, vj] = T.max(T.min(S[vi, vj], most), least)

    return desc


def _alu(e: Elements, what: str) -> PrimFunc:
    from ...tir.script import builtins as T

    rows, columns, acc, factor = e.batch, e.block_out, e.acc, e.inp
    op, immediate = what.partition("_")[::2]
    if op == "clip":
        return _clip(e)

    def low(value: Any) -> Any:
        return T.Cast(acc, T.Cast(factor, value))

    apply = {
        "min": T.min, "max": T.max, "add": lambda a, b: a + b, "shr": T.shift_right, "shl": T.shift_left,
        "mul": lambda a, b: low(a) * low(b),
    }[op]  # fmt: skip
    if immediate:

        @T.prim_func
        def desc(
            S: T.Buffer((rows, columns), acc, scope="acc"), D: T.Buffer((rows, columns), acc, scope="acc"), imm: T.int32
        ) -> None:
            with T.block("root"):
                T.reads(S[0:rows, 0:columns])
                T.writes(D[0:rows, 0:columns])
                for i, j in T.grid(rows, columns):
                    with T.block("alu"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        D[vi, vj] = apply(S[vi, vj], imm)

        return desc

    @T.prim_func
    def two(
        S: T.Buffer((rows, columns), acc, scope="acc"),
        R: T.Buffer((rows, columns), acc, scope="acc"),
        D: T.Buffer((rows, columns), acc, scope="acc"),
    ) -> None:
        with T.block("root"):
            T.reads(S[0:rows, 0:columns], R[0:rows, 0:columns])
            T.writes(D[0:rows, 0:columns])
            for i, j in T.grid(rows, columns):
                with T.block("alu"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    D[vi, vj] = apply(S[vi, vj], R[vi, vj])

    return two


ALU = ("min", "max", "add", "shr", "mul")
_LOADS = ("inp", "inp_padded", "wgt", "acc", "acc8", "acc8_padded", "acc8_least")
SET = InstructionSet(
    "accel", DIALECT, "minitvm.machines.vta.emitter",
    {
        **{f"load_{what}": partial(load, what=what) for what in _LOADS},
        "reset": reset, "gemm": gemm, "store": _store, "fill_imm": _fill, "copy": _copy,
        **{f"accumulate_{op}": partial(_accumulate, op=op) for op in ("add", "max")},
        **{f"alu_{what}": partial(_alu, what=what) for op in ALU for what in (op, f"{op}_imm")},
        **{f"alu_{what}": partial(_alu, what=what) for what in ("clip_imm", "shl_imm")},
    },
    _unit,
)  # fmt: skip

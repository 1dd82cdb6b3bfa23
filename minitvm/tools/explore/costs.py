"""The cost of a program: counted while the interpreter runs it, and predicted by a small model of one core."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ... import expr as ex
from ...errors import InternalError, MinitvmError, MissingExtra
from ...expr.conditions import is_const
from ...target import CPU, Target
from ...tir import nodes as tir
from ...tir.analysis.registers import in_registers
from ...tir.transform.pipeline import lower
from ...tir.values import NotAnIndex
from ...tir.work import count
from ...tir.work.count import PRODUCTS
from ...tir.work.domain import PointDomain
from ...tir.work.walk import Walk

if TYPE_CHECKING:
    from collections.abc import Collection

MOST = 300_000  # accesses that are counted one by one; a larger program is not interpreted
LINES = 16  # of the cache, each 64 bytes: small, so that small programs miss it too


@dataclass(frozen=True, slots=True)
class Costs:
    """The cost of one run of a program.

    `work` is the number of operations on data, `loads` and `stores` that of elements in memory, and `misses` that of
    the lines fetched by a cache of 16 lines of 64 bytes. `cycles` is a prediction for one core, and `bound` names the
    part of the core that decides it. None stands for a number that is not known; `reason` tells why.
    """

    work: int | None = None
    loads: int | None = None
    stores: int | None = None
    misses: int | None = None
    cycles: int | None = None
    bound: str = ""
    reason: str = ""


def costs(func: tir.PrimFunc, target: Target) -> Costs:
    """The cost of a function. A number that cannot be known is None, with a reason."""
    counted, reason = _counted(func)
    predicted, bound, obstacle = _predicted(func, target)
    reasons = "; ".join(text for text in (reason, obstacle) if text)
    return Costs(*counted, predicted, bound, reasons)


_NOT_COUNTED = (None, None, None, None)


def _counted(func: tir.PrimFunc) -> tuple[tuple[int | None, int | None, int | None, int | None], str]:
    """The operations, loads, stores and misses of a run in the interpreter, and why there are none."""
    from ...reference import tir as interpreter
    from ...reference.listeners import CachedLedger

    class Limited(CachedLedger):
        def _touch(self, access: Any) -> None:
            CachedLedger._touch(self, access)
            self.left -= 1
            if self.left < 0:
                raise TooLong

        left = MOST

    ledger = Limited(cache_lines=LINES)
    try:
        inputs, inout = arguments(func)
        interpreter.run(func, *inputs, inout=inout, listeners=[ledger])
    except TooLong:
        return _NOT_COUNTED, f"not counted: more than {MOST:,} loads and stores"
    except (InternalError, MissingExtra):
        raise
    except MinitvmError as error:
        return _NOT_COUNTED, f"not counted: {str(error).splitlines()[0]}"
    work = sum(ledger.operations.values()) + ledger.operations["fma"]
    return (work, ledger.loads.total(), ledger.stores.total(), ledger.lines_fetched), ""


def arguments(func: tir.PrimFunc) -> tuple[list[Any], list[str]]:
    """Arguments for a function, and the names of the parameters that it reads before it writes them."""
    from ...reference import random_inputs
    from ...reference.judging.inplace import marked, read_first

    updated = read_first(func, 0)
    return random_inputs(marked(func, updated), 0, magnitude=4), [func.params[k].name for k in updated]


class TooLong(BaseException):
    """Ends a run of the interpreter. It is not an `Exception`, so the interpreter does not take it for a fault."""


def _predicted(func: tir.PrimFunc, target: Target) -> tuple[int | None, str, str]:
    """The predicted cycles, the part of the core that decides them, and why there are none."""
    cpu = target.description
    if not isinstance(cpu, CPU):
        return None, "", "no cycles: the model knows only CPUs"
    try:
        module = lower(func, target, "kernel")
    except (InternalError, MissingExtra):
        raise
    except MinitvmError as error:
        return None, "", f"no cycles: {str(error).splitlines()[0]}"
    totals: Counter[str] = Counter()
    try:
        for _, kernel in module.items():
            if not kernel.attrs.get("host"):
                totals.update(cycles(kernel, cpu))
    except NotAnIndex:
        return None, "", "no cycles: the sizes of its loops are not known"
    if not totals:
        return 0, "", ""
    name, most = totals.most_common(1)[0]
    return most, name, ""


def cycles(kernel: tir.PrimFunc, cpu: CPU) -> dict[str, int]:
    """The cycles that each part of a core needs for a kernel. They overlap, so the largest one decides.

    An instruction works on a vector of at most `cpu.vector_bits`. A multiplication and an addition can start as one
    instruction, and each cycle starts `cpu.fma_ports` of them, `cpu.loads` loads and one store. Bytes that are
    touched once or more come from the last cache, or from memory if they do not fit there. The model knows no
    latencies.
    """
    work, counter = count(kernel), Instructions(in_registers(kernel), cpu.vector_bytes)
    counter.stmt(kernel.body, PointDomain())
    moved = work.moved(kernel)
    products = sum(counter.instructions[name] for name in PRODUCTS) + counter.instructions["fma"]
    rest = sum(n for name, n in counter.instructions.items() if name not in (*PRODUCTS, "fma"))
    return {
        "arithmetic": round(max(products, rest + counter.instructions["fma"]) / cpu.fma_ports),
        "loads": round(counter.accesses["read"] / cpu.loads),
        "stores": counter.accesses["write"],
        "moving bytes": round(moved / (cpu.l3_rate if moved <= cpu.l3.size else cpu.memory_rate)),
    }


class Instructions(Walk[PointDomain]):
    """Counts instructions: an operation on a vector is one, or several if the vector is wider than a register."""

    def __init__(self, registers: Collection[tir.Buffer], vector_bytes: int) -> None:
        super().__init__()
        self.registers, self.vector_bytes = registers, vector_bytes
        self.instructions: Counter[str] = Counter()
        self.accesses: Counter[str] = Counter()

    def access(
        self,
        kind: str,
        buffer: tir.Buffer,
        index: ex.Expr,
        predicate: ex.Expr | None,  # noqa: ARG002 (a masked access is an instruction too)
        d: PointDomain,
    ) -> None:
        lanes = index.dtype.lanes
        adjacent = lanes == 1 or (isinstance(index, ex.Ramp) and is_const(index.stride, 1))
        if lanes > 1 and not isinstance(index, ex.Ramp):
            self.value(index, d)  # a gather: its indices may be loads
        if buffer not in self.registers:
            self.accesses[kind] += d.iterations * (self._vectors(lanes, buffer.dtype.bytes) if adjacent else lanes)

    def operation(self, x: ex.Expr, d: PointDomain) -> None:
        before = self.operations.copy()
        super().operation(x, d)
        for name in self.operations - before:
            self.instructions[name] += d.iterations * self._vectors(x.dtype.lanes, x.dtype.scalar.bytes)

    def _vectors(self, lanes: int, nbytes: int) -> int:
        return -(-lanes * nbytes // self.vector_bytes) if lanes > 1 else 1

"""Do two programs mean the same? `check` runs both on the same inputs and compares what they write.

Where it can, in exact mode: then equal means equal bits, whatever the order of additions. Where exact mode refuses a
program, both run on random floats; equal bits are accepted as such, and only what differs in bits is compared with
`close`. The verdict says which of these it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minitvm import expr as x
from minitvm.errors import ExecutionError, InputError, Unsupported
from minitvm.te import nodes as te
from minitvm.tir import nodes as t

from . import kernel, runner
from . import te as tensors
from .dependence import Dependence
from .exact import MagnitudeKernels, MagnitudeStatements, Peaks, exact_inputs, integers, with_peaks
from .exact_te import measure_tensors
from .scalar import evaluate
from .settings import Settings, stored_buffers
from .storage import bind_dimensions

Program = Any  # a PrimFunc, an IRModule (of one level-3 function, or lowered), or a list of te tensors
MODES = ("exact", "shadow", "order")


@dataclass(frozen=True)
class Verdict:
    """The result of a check; true when nothing was found.

    `mode` is how the outputs were compared ("exact", "bits", "close") or what found the difference ("shadow", "order").
    On a difference: the output's name, the first differing index, both values, the inputs, and a text that says it.
    """

    equal: bool
    mode: str
    message: str = ""
    output: str = ""
    index: tuple[int, ...] = ()
    before: Any = None
    after: Any = None
    inputs: Sequence[Any] = field(default=(), repr=False)
    refused: str = ""  # why exact mode was not used

    def __bool__(self) -> bool:
        return self.equal

    def __str__(self) -> str:
        return self.message or f"equal ({self.mode})"


@dataclass(frozen=True)
class Parameter:
    """A place in the calling order: what the two programs must agree on."""

    name: str
    dtype: x.DType
    shape: tuple[x.Expr, ...] | None  # None: a scalar
    written: bool
    var: x.Var | None = None


def parameters(program: Program) -> list[Parameter]:
    """The parameters of a program in calling order."""
    if isinstance(program, t.PrimFunc | t.IRModule):
        func = _entry(program)
        written = stored_buffers(func, program if isinstance(program, t.IRModule) else None)
        return [
            Parameter(p.name, p.dtype, p.shape, p in written)
            if isinstance(p, t.Buffer)
            else Parameter(p.name, p.dtype, None, False, p)
            for p in func.params
        ]
    if not all(isinstance(one, te.Tensor | x.Var) for one in program):
        raise InputError(
            f"a program is a PrimFunc, an IRModule or a list of te tensors, found {type(program).__name__}"
        )
    return [
        Parameter(one.name, one.dtype, one.shape, isinstance(one.op, te.ComputeOp))
        if isinstance(one, te.Tensor)
        else Parameter(one.name, one.dtype, None, False, one)
        for one in program
    ]


def _entry(program: t.PrimFunc | t.IRModule) -> t.PrimFunc:
    from .tir import entry_function

    return entry_function(program, None)


def execute(program: Program, args: Sequence[Any], shadow: bool = True, sizes: Mapping[str, int] | None = None,
            **options: Any) -> None:  # fmt: skip
    """Run any program on arrays in calling order; outputs are written in place."""
    if not isinstance(program, t.PrimFunc | t.IRModule):
        _run_tensors(program, args)
        return
    func = _entry(program)
    if func.attrs.get("host") and isinstance(program, t.IRModule):
        kernel.run(program, *args, shadow=shadow, sizes=sizes, **options)
        return
    settings = Settings(shadow, options.get("order", "forward"), options.get("seed", 0))
    runner.run_level_3(func, args, settings, options.get("mode", "fast"), ())


def _run_tensors(program: Sequence[Any], args: Sequence[Any]) -> None:
    inputs = {
        one: a for one, a in zip(program, args) if isinstance(one, te.Tensor) and not isinstance(one.op, te.ComputeOp)
    }
    scalars = {one: a for one, a in zip(program, args) if isinstance(one, x.Var)}
    outputs = [
        (one, a) for one, a in zip(program, args) if isinstance(one, te.Tensor) and isinstance(one.op, te.ComputeOp)
    ]
    for (_, array), result in zip(outputs, tensors.evaluate([one for one, _ in outputs], inputs, scalars)):
        array[...] = result


def random_inputs(program: Program, seed: int = 0, sizes: Mapping[str, int] | None = None,
                  magnitude: int | None = None) -> list[Any]:  # fmt: skip
    """An argument for each parameter: random values for what is read, garbage for what is written.

    Floats are normally distributed, or integers up to `magnitude`; integers lie between -8 and 8. Symbolic dimensions
    take the value of `sizes` under their name, or a random one from 1 to 9.
    """
    rng = np.random.default_rng(seed)
    dims = dimensions(program, rng, sizes or {})
    return [_argument(p, dims, rng, magnitude) for p in parameters(program)]


def dimensions(program: Program, rng: np.random.Generator, sizes: Mapping[str, int]) -> dict[x.Var, int]:
    """A value for each symbolic dimension."""
    found: dict[x.Var, int] = {}
    for p in parameters(program):
        for dim in p.shape or ():
            for var in x.free_vars(dim):
                if var not in found:
                    found[var] = int(sizes.get(var.name, rng.integers(1, 10)))
        if p.var is not None and p.dtype.is_int and p.var not in found and p.name in sizes:
            found[p.var] = int(sizes[p.name])
    return found


def _argument(p: Parameter, dims: Mapping[x.Var, int], rng: np.random.Generator, magnitude: int | None) -> Any:
    if p.shape is None:
        if p.var is not None and p.var in dims:
            return dims[p.var]
        value = integers(rng, (), p.dtype, magnitude or 8)
        return p.dtype.numpy.type(value)
    shape = [int(evaluate(d, dict(dims))) for d in p.shape]
    if p.written:
        # Not zeros: a program that forgets to write must not look right.
        return np.full(shape, np.nan if p.dtype.is_float else 1, p.dtype.numpy)
    if p.dtype.is_float and magnitude is None:
        return rng.standard_normal(shape).astype(p.dtype.numpy)
    return integers(rng, shape, p.dtype, magnitude or 8)


def exact_arguments(program: Program, seed: int = 0, sizes: Mapping[str, int] | None = None) -> list[Any]:
    """Arguments on which a program computes without rounding; `Unsupported` where there are none."""
    return exact_inputs(
        lambda magnitude: random_inputs(program, seed, sizes, magnitude),
        lambda inputs, peaks: measure(program, inputs, peaks, sizes),
    )


def measure(program: Program, args: Sequence[Any], peaks: Peaks, sizes: Mapping[str, int] | None = None) -> None:
    """Run a program on magnitudes."""
    if not isinstance(program, t.PrimFunc | t.IRModule):
        measure_tensors(program, args, peaks)
        return
    func, settings = _entry(program), Settings(shadow=False)
    own = [np.array(a) if isinstance(a, np.ndarray) else a for a in args]
    lowered = isinstance(program, t.IRModule) and bool(func.attrs.get("host"))
    if lowered:
        own = [kernel._flat(p, a) for p, a in zip(func.params, own)]
    module = program if isinstance(program, t.IRModule) else t.IRModule({func.name: func})
    written = stored_buffers(func, module)

    def refuse() -> Any:
        raise Unsupported("exact mode: the magnitudes of this program cannot be computed")

    facts = Dependence(func)
    known: dict[str, Dependence] = {}

    def compiler(in_order: set[t.For]) -> Any:
        if lowered:
            return with_peaks(MagnitudeKernels, peaks)(func, settings, in_order, module, known)
        return with_peaks(MagnitudeStatements, peaks)(func, settings, in_order, facts)

    runner.Run(
        func,
        own,
        bind_dimensions(func, own, sizes),
        [p for p in func.buffers if p in written],
        settings,
        (),
        refuse,
        compiler,
    ).start("fast")


def check(
    before: Program,
    after: Program,
    *,
    modes: Sequence[str] = ("exact", "shadow"),
    seed: int = 0,
    sizes: Mapping[str, int] | None = None,
    inputs: Sequence[Any] | None = None,
) -> Verdict:
    """Whether two programs with the same parameters write the same values.

    `modes`: "exact" compares without rounding where that is possible; "shadow" watches both for undefined behaviour;
    "order" runs `after` once more with independent iterations backward and shuffled (slow: for small programs).
    `inputs` are arguments in calling order to use instead of random ones. An undefined action of `before` raises its
    `ExecutionError`: there is nothing to compare with; one of `after` is a difference.
    """
    unknown = set(modes) - set(MODES)
    if unknown:
        raise InputError(f"modes {', '.join(sorted(unknown))} are unknown; known: {', '.join(MODES)}")
    _same_signature(before, after)
    sizes = _chosen_sizes(before, seed, sizes)
    shadow = "shadow" in modes
    mode, refused = "exact", ""
    if inputs is not None:
        args, mode, refused = list(inputs), "bits", "inputs were given"
    else:
        try:
            if "exact" not in modes:
                raise Unsupported("exact mode was not asked for")
            args = exact_arguments(before, seed, sizes)
        except Unsupported as reason:
            args, mode, refused = random_inputs(before, seed, sizes), "bits", str(reason)
    first = _copies(args)
    execute(before, first, shadow, sizes)
    runs: list[dict[str, Any]] = [{}]
    if "order" in modes:
        runs += [{"mode": "slow", "order": "backward"}, {"mode": "slow", "order": "shuffled", "seed": seed}]
    verdict = Verdict(True, mode, refused=refused)
    for options in runs:
        second = _copies(args, parameters(after))
        try:
            execute(after, second, shadow, sizes, **options)
        except ExecutionError as error:
            return Verdict(False, "shadow" if shadow else mode, str(error), inputs=args, refused=refused)
        verdict = _compare(before, first, second, mode, args, refused, verdict.mode)
        if not verdict:
            return verdict
    return verdict


def _chosen_sizes(program: Program, seed: int, sizes: Mapping[str, int] | None) -> dict[str, int]:
    chosen = dimensions(program, np.random.default_rng(seed), sizes or {})
    return {**{v.name: n for v, n in chosen.items()}, **(sizes or {})}


def _copies(args: Sequence[Any], like: Sequence[Parameter] | None = None) -> list[Any]:
    return [np.array(a, order="C") if isinstance(a, np.ndarray) else a for a in args]


def _same_signature(before: Program, after: Program) -> None:
    one, other = parameters(before), parameters(after)
    if len(one) != len(other):
        raise InputError(f"the programs have {len(one)} and {len(other)} parameters")
    for p, q in zip(one, other):
        if p.dtype != q.dtype or (p.shape is None) != (q.shape is None) or p.written != q.written:
            raise InputError(f"the parameters {p.name} and {q.name} differ: {p} and {q}")


def _compare(before: Program, first: Sequence[Any], second: Sequence[Any], mode: str, inputs: Sequence[Any],
             refused: str, so_far: str) -> Verdict:  # fmt: skip
    loose = so_far == "close"
    for p, wanted, found in zip(parameters(before), first, second):
        if not p.written:
            continue
        same = wanted == found
        if p.dtype.is_float:
            same = same | ((wanted != wanted) & (found != found))
        if same.all():
            continue
        if mode == "bits" and p.dtype.is_float and close(found, wanted, func=before):
            loose = True
            continue
        index = tuple(int(i) for i in np.argwhere(~same)[0])
        a, b = wanted[index], found[index]
        message = (
            f"the programs differ in {p.name}[{', '.join(map(str, index))}] ({mode} mode,"
            f" {int((~same).sum())} of {same.size} elements)\n  before: {a!r}\n  after:  {b!r}"
        )
        return Verdict(False, mode, message, p.name, index, a, b, inputs, refused)
    return Verdict(True, "close" if loose else mode, refused=refused)


def close(found: Any, wanted: Any, func: Program | None = None, steps: int | None = None) -> bool:
    """Whether floats agree up to rounding: a last resort, for programs that exact mode refuses.

    The allowed difference is `steps` units of rounding of the largest magnitude in `wanted`, `steps` being the number
    of operations that one element may go through: 64, and as many as its loops have iterations that sum into it. NaN
    and infinities must be the same. A small element in a large tensor may be wrong unnoticed; prefer `check`.
    """
    a, b = np.asarray(found), np.asarray(wanted)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind != "f":
        return bool((a == b).all())
    finite = np.isfinite(b)
    if not ((a == b) | (np.isnan(a) & np.isnan(b)) | finite).all() or not np.isfinite(a[finite]).all():
        return False
    if not finite.any():
        return True
    allowed = (steps or 64 + _summed(func)) * float(np.finfo(a.dtype).eps)
    wide = b[finite].astype(np.float64)
    return bool((np.abs(a[finite] - wide) <= allowed * max(np.abs(wide).max(), float(np.finfo(a.dtype).tiny))).all())


def _summed(program: Program | None) -> int:
    """The number of terms of the largest reduction, as far as it is constant."""
    if isinstance(program, t.IRModule):
        return sum(_summed(f) for _, f in program.items())
    if program is None:
        return 0
    largest = 0
    roots = [program.body] if isinstance(program, t.PrimFunc) else list(_bodies(program))
    for node in (n for root in roots for n in x.walk(root)):
        axes: Sequence[x.IterVar] = ()
        if isinstance(node, t.Block):
            axes = [v for v in node.iter_vars if v.kind == x.REDUCE]
        elif isinstance(node, x.Reduce):
            axes = node.axes
        terms = 1
        for axis in axes:
            terms *= axis.dom.extent.value if isinstance(axis.dom.extent, x.IntImm) else 64
        largest += terms if axes else 0
    return largest


def _bodies(program: Sequence[Any]) -> list[x.Expr]:
    found: dict[te.Operation, None] = {}
    stack = [one for one in program if isinstance(one, te.Tensor)]
    while stack:
        op = stack.pop().op
        if isinstance(op, te.ComputeOp) and op not in found:
            found[op] = None
            stack.extend(op.input_tensors)
    return [b for op in found if isinstance(op, te.ComputeOp) for b in op.body]

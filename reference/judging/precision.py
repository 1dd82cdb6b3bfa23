"""Find the places where programs round to different dtypes, which the modes for formulas and integers do not judge.

`unlike` compares the dtypes of the operations that reach each output, as text. If both programs have the same dtypes,
but several of them, they may still round different values to each: `elsewhere` runs both programs to find out.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from minitvm import expr as x
from minitvm.errors import ExecutionError, Unsupported

from ..domains.erasure import Erasing
from ..domains.field import FUNCTIONS, NeedsCompanion, lift
from .flow import Flow, computes_with_floats, keys
from .inputs.arguments import copies, random_inputs
from .inputs.signs import nodes
from .programs import Program, execute, parameters

if TYPE_CHECKING:
    from .case import Case

_KINDS: dict[type[x.Node], str] = {x.Add: "sums", x.Sub: "sums", x.Mul: "products", x.Div: "quotients"}


def unlike(before: Program, after: Program) -> str:
    """Return a text about the rounding that differs; "" if both programs round alike.

    The dtypes are compared for each kind of operation (sums, products, quotients, functions, conversions to narrower
    floats). An operation that only one of the programs has is other algebra, not another precision.
    """
    whole = _differences(_rounding(nodes(before)), _rounding(nodes(after)))
    if whole or len(dtypes(before)) < 2:
        return whole
    flows, texts = (Flow(before), Flow(after)), dict[str, None]()
    every = parameters(before)
    for p, one, other in zip(every, keys(before), keys(after), strict=True):
        if not p.written:
            continue
        mine, its = (_by_input(flow, key) for flow, key in zip(flows, (one, other), strict=True))
        for k in sorted(mine.keys() & its.keys()):
            if text := _differences(mine[k], its[k]):
                texts[f"{text} from {every[k].name} to {p.name}" if k >= 0 else f"{text} to {p.name}"] = None
    return "; ".join(texts)


def _by_input(flow: Flow, output: Any) -> dict[int, dict[str, set[str]]]:
    """Return the rounding operations that reach an output: all (at -1), and those that each parameter reaches, by
    position.
    """
    every = [n for n in flow.into(output).nodes() if computes_with_floats(n) or isinstance(n, x.Cast)]
    reached: dict[int, list[x.Node]] = {-1: every}
    for n in {id(n): n for n in every}.values():
        for k in flow.into_values([n]).parameters:
            reached.setdefault(k, []).append(n)
    return {k: _rounding(some) for k, some in reached.items()}


def dtypes(program: Program) -> set[x.DType]:
    """Return the float dtypes to which a program rounds."""
    rounds = [n for n in nodes(program) if computes_with_floats(n) or isinstance(n, x.Cast)]
    return {n.dtype.scalar for n in rounds if isinstance(n, x.Expr) and n.dtype.is_float}


def elsewhere(case: Case) -> str:
    """Return a text about an output for which other values are rounded to a dtype; "" if there is none, or it is
    unknown.
    """
    both = sorted({d.bits for d in dtypes(case.before) | dtypes(case.after)})
    for narrow, bits in itertools.pairwise(both):
        domain = Erasing(bits)
        inputs = random_inputs(case.before, case.seed, case.sizes)
        lifted = lift(case.parameters, domain, inputs, case.seed)
        runs = []
        try:
            for program in (case.before, case.after):
                args = copies(lifted)
                execute(program, args, False, case.sizes, domain=domain)
                runs.append(args)
        except (Unsupported, ExecutionError, NeedsCompanion):
            return ""
        for p, a, b in zip(case.parameters, *runs, strict=True):
            if p.written and p.dtype.is_float and not domain.same(a, b).all():
                return f"{p.name}: other values in float{narrow}"
    return ""


def _differences(one: dict[str, set[str]], other: dict[str, set[str]]) -> str:
    texts = []
    for kind in sorted({*one, *other}):
        was, now = one.get(kind, set()), other.get(kind, set())
        if was == now or (kind != "conversions" and not (was and now)):
            continue
        texts.append(f"{kind} in {_names(now)} for {_names(was)}")
    return ", ".join(texts)


def _rounding(every: Iterable[x.Node]) -> dict[str, set[str]]:
    kinds: dict[str, set[str]] = {}
    for n in every:
        if isinstance(n, x.Cast):
            source, target = n.value.dtype, n.dtype
            if source.is_float and target.is_float and target.bits < source.bits:
                kinds.setdefault("conversions", set()).add(str(target.scalar))
            continue
        kind = _KINDS.get(type(n))
        if isinstance(n, x.Call) and n.op in FUNCTIONS:
            kind = "functions"
        if isinstance(n, x.Call) and n.op in ("dot2_bf16", "fma"):
            kind = "sums"
        if kind is not None and isinstance(n, x.Expr) and n.dtype.is_float:
            kinds.setdefault(kind, set()).add(str(n.dtype.scalar))
    return kinds


def _names(dtypes: set[str]) -> str:
    return " and ".join(sorted(dtypes)) or "none"

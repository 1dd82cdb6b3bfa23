"""Symbolic dimensions: compute their values from a caller's arrays, and the shapes that depend on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from operator import mul
from typing import Any

from ..errors import OTHER_SIZES, InputError, report
from ..executable import BindSize, CallKernel, Dim, Executable, Loop, Output, ScalarSpec, TensorSpec, evaluate
from ..executable.evaluation import Number, function_of
from ..executable.memory_report import data_sizes
from ..executable.nodes import Guard
from ..expr import Expr, Var, divided, format_expr
from ..expr.largest import depends, largest
from ..free_memory import require_memory

Bindings = dict[Var, Number]
_Check = tuple[Guard, Callable[[Bindings], Number], Callable[[Bindings], Number]]


def shape_text(shape: Sequence[Dim]) -> str:
    inner = ", ".join(format_expr(d) if isinstance(d, Expr) else str(d) for d in shape)
    return f"({inner},)" if len(shape) == 1 else f"({inner})"


def spec_text(spec: TensorSpec | ScalarSpec) -> str:
    if isinstance(spec, ScalarSpec):
        return f"{spec.name}: {spec.dtype}"
    return f"{spec.name}: {spec.dtype}{shape_text(spec.shape)}"


def shapes_of(values: Sequence[Any]) -> tuple[tuple[int, ...], ...] | None:
    """Return the shapes of the values, or None if one of them has no shape that can be a key: other libraries' arrays
    may have a list.
    """
    try:
        shapes = tuple([value.shape for value in values])
        hash(shapes)
        return shapes
    except (AttributeError, TypeError):
        return None


def bind_dims(
    what: str, specs: Sequence[tuple[TensorSpec, tuple[int, ...]]], scalars: Sequence[tuple[ScalarSpec, Number]] = ()
) -> Bindings:
    """Compute the symbolic dimensions from tensors and their actual shapes, and check every dimension.

    A dimension that is a variable determines the value of the variable; all other dimensions with this variable must
    agree. A dimension that is a multiple of a variable determines the variable too, if it has no value yet. Compound
    dimensions are computed and compared. Raises an `InputError` that names the tensor, the expected dimension and the
    actual one.
    """
    env: Bindings = {spec.var: value for spec, value in scalars}
    for spec, shape in specs:
        if len(spec.shape) != len(shape):
            _refuse(what, spec, shape, env, f"{len(spec.shape)} dimensions, found {len(shape)}")
        for expected, actual in zip(spec.shape, shape, strict=False):
            if isinstance(expected, Var):
                env.setdefault(expected, actual)
    for spec, shape in specs:
        for expected, actual in zip(spec.shape, shape, strict=False):
            quotient = divided(expected, actual)
            if quotient is not None:
                env.setdefault(*quotient)
    for spec, shape in specs:
        for axis, (expected, actual) in enumerate(zip(spec.shape, shape, strict=False)):
            if evaluate(expected, env) != actual:
                _refuse(what, spec, shape, env, f"dimension {axis} is {actual}, wanted {evaluate(expected, env)}")
    return env


class SizeChecks:
    """The checks on an executable's sizes, sorted by when the sizes are known.

    A guard on sizes that are known before a run is checked then. A guard on sizes that steps bind is checked after the
    step that binds the last of them.
    """

    def __init__(self, executable: Executable) -> None:
        self._executable = executable
        bound = [step.var for step in executable.steps if isinstance(step, BindSize)]
        self._behind = {var: bound[k + 1 :] for k, var in enumerate(bound)}
        self._most = {step.var: function_of(step.most) for step in executable.steps if isinstance(step, BindSize)}
        self._first: list[_Check] = []
        self._after: dict[Var, list[tuple[_Check, set[Var]]]] = {var: [] for var in bound}
        for guard in executable.guards:
            late = guard.sizes() & self._behind.keys()
            check = guard, function_of(guard.left), function_of(guard.right)
            for var in late:
                self._after[var].append((check, late))
            if not late:
                self._first.append(check)

    def before_run(self, env: Bindings) -> None:
        """Raise `InputError` for the first guard that does not hold, naming the operator, both dimensions and their
        values.
        """
        for check in self._first:
            self._require(check, env)

    def bind(self, step: BindSize, value: int, env: Bindings) -> None:
        """Set the size that a step binds. Raises `InputError` if the value is out of bounds or a guard does not
        hold.
        """
        most = int(self._most[step.var](env))
        if not 0 <= value <= most and step.reason:
            reason = step.reason.format(found=value, most=most)
            raise InputError(f"{self._executable.name}: {step.where or step.operator}: {reason}")
        if not 0 <= value <= most:
            raise InputError(
                report(
                    f"{self._executable.name}: {step.where or step.operator}: the size {step.var.name}, which data "
                    f"decide, is beyond the memory for it",
                    wanted=f"0 to {most}",
                    found=f"{value}",
                )
            )
        env[step.var] = value
        checks = self._after[step.var]
        if not checks:
            return
        # The values that later steps bind are unknown again: the previous run, or iteration, found the old ones.
        for other in self._behind[step.var]:
            env.pop(other, None)
        for check, sizes in checks:
            if sizes <= env.keys():
                self._require(check, env)

    def _require(self, check: _Check, env: Bindings) -> None:
        guard, left, right = check[0], check[1](env), check[2](env)
        if left == right:
            return
        symbols = ", ".join(f"{v.name} = {n}" for v, n in env.items())
        both = f"{int(left)} and {int(right)} where {symbols}"
        raise InputError(
            report(
                f"{self._executable.name}: {guard.where or 'the program'} does not take these sizes: "
                f"{guard_text(guard)}",
                found=symbols if _is_condition(guard) else both,
                tries=OTHER_SIZES,
            )
        )


def beyond_bound(executable: Executable, number: int, most: int) -> InputError:
    """Return the error for a loop (step `number`) that would continue beyond its bound."""
    step = executable.steps[number]
    assert isinstance(step, Loop)
    return InputError(
        report(
            f"{executable.name}: {step.where or step.operator}: the loop would go on beyond the memory for its results",
            wanted=f"0 to {most} iterations",
            found=f"more than {most}",
        )
    )


def rooms(executable: Executable, env: Bindings) -> list[tuple[int, ...]]:
    """Return the shape of the memory for each output.

    If the shape of an output depends on data, its memory has one dimension: the largest possible number of elements.
    """
    sizes = data_sizes(executable)
    return [
        (max(int(evaluate(largest(product(spec.shape), sizes), env)), 0),)
        if any(depends(d, sizes) for d in spec.shape)
        else shape_of(spec, env)
        for spec in executable.outputs
    ]


def require_room(executable: Executable, env: Bindings, arenas: Sequence[int] = ()) -> None:
    """Raise `InputError` if this machine does not have enough memory for the outputs and arenas of a run.

    A program whose output sizes depend on data is not checked, because it reserves memory for the largest outputs and
    may use less.
    """
    if data_sizes(executable):
        return
    shapes = zip(rooms(executable, env), executable.outputs, strict=True)
    outputs = [math.prod(shape) * spec.dtype.bytes for shape, spec in shapes]
    what, writes = "intermediate results", ""
    if max(outputs, default=0) > sum(arenas):
        largest_output = outputs.index(max(outputs))
        spec = executable.outputs[largest_output]
        more = " and intermediate results" if sum(arenas) else ""
        what = f"{spec.name}: {spec.dtype}{shape_text(shape_of(spec, env))}{more}"
        steps = [s for s in executable.steps if Output(largest_output) in getattr(s, "args", ())]
        writes = f": {steps[-1].operator}" if steps and isinstance(steps[-1], CallKernel) else ""
    require_memory(executable.name + writes, what, sum(outputs) + sum(arenas))


def product(shape: Sequence[Dim]) -> Dim:
    """Return the number of elements of a shape."""
    return reduce(mul, shape, 1)


def guard_text(guard: Guard) -> str:
    """Return a message that says what a guard requires."""
    left, right = (format_expr(d) if isinstance(d, Expr) else str(d) for d in (guard.left, guard.right))
    if _is_condition(guard):
        return f"{left} must {'hold' if right in ('1', 'True') else 'not hold'}"
    return f"{left} and {right} are taken for equal"


def _is_condition(guard: Guard) -> bool:
    """Return whether a guard is about a condition on sizes, not about two equal dimensions."""
    return isinstance(guard.left, Expr) and guard.left.dtype.is_bool


def check_fixed_dims(what: str, spec: TensorSpec, shape: tuple[int, ...]) -> None:
    """Raise `InputError` if a shape cannot fit, whatever the values of the symbolic dimensions."""
    if len(spec.shape) != len(shape):
        _refuse(what, spec, shape, {}, f"{len(spec.shape)} dimensions, found {len(shape)}")
    for axis, (expected, actual) in enumerate(zip(spec.shape, shape, strict=False)):
        if isinstance(expected, int) and expected != actual:
            _refuse(what, spec, shape, {}, f"dimension {axis} is {actual}, wanted {expected}")


def shape_of(spec: TensorSpec, env: Bindings) -> tuple[int, ...]:
    """Return the shape of a tensor for the dimensions in `env`. Raises `InputError` if a dimension is negative."""
    shape = tuple(int(evaluate(d, env)) for d in spec.shape)
    if any(d < 0 for d in shape):
        raise InputError(f"{spec.name} would have shape {shape}, from {shape_text(spec.shape)}")
    return shape


def shape_function(spec: TensorSpec) -> Callable[[Bindings], tuple[int, ...]]:
    """Return a function that does the same as `shape_of` for one tensor, but faster over many runs."""
    dims = [function_of(d) for d in spec.shape]

    def shape(env: Bindings) -> tuple[int, ...]:
        found = tuple([int(dim(env)) for dim in dims])
        return found if min(found, default=0) >= 0 else shape_of(spec, env)

    return shape


def _refuse(what: str, spec: TensorSpec, shape: tuple[int, ...], env: Bindings, why: str) -> None:
    symbols = ", ".join(f"{v.name} = {n}" for v, n in env.items())
    raise InputError(
        report(
            f"{what}: the shape of {spec.name} does not fit: {why}",
            wanted=f"{spec_text(spec)}" + (f" where {symbols}" if symbols else ""),
            found=f"shape {shape_text(shape)}",
        )
    )

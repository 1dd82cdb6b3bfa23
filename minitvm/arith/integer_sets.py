"""Find an integer point that meets a condition, with either of two libraries; dependence tests are such questions.

    point(("i", "j"), ("and", ("<", 3, "i"), ("=", "j", ("floor", "i", 2))))  # (4, 2)

A condition is a nested tuple: a comparison of two terms, ("and", ...), ("or", ...) or ("not", condition); ("and",) is
true and ("or",) is false. A term is a name, a number, ("+", a, b), ("-", a, b), ("*", number, a) or ("floor", a,
number), the quotient by a positive number, rounded down.

If islpy is installed, minitvm uses it, because it is faster; otherwise it uses z3. They share no code, so the tests
compare their answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

from ..errors import first_installed, needed

Term: TypeAlias = "str | int | tuple[Any, ...]"
Condition: TypeAlias = tuple[Any, ...]

_INSTEAD = "pip install z3-solver, which answers the same questions"


class Unanswered(Exception):
    """Raised if the library gave up: it neither found a point nor proved that there is none."""


@lru_cache(maxsize=4096)
def point(names: tuple[str, ...], condition: Condition) -> tuple[int, ...] | None:
    """Return a point of the set of all values of `names` that meet the condition, or None if the set is empty.

    It is the lexicographically smallest point if that is found quickly, since small numbers make better examples.
    Raises `MissingExtra` if no library is installed, and `Unanswered` if the library finds no answer.

    The results are cached, because each step of a schedule and each tiling that a search tries repeats the same
    questions about a loop body. The arguments are a complete key, because callers do not use the program's own names.
    """
    with needed(
        "to decide whether iterations may run in another order",
        "pip install z3-solver, which answers the same questions",
    ):
        return ENGINES[first_installed(*ENGINES)](names, condition)


# --- islpy ------------------------------------------------------------------------------------------------------------

# Steps of isl for the least example: a few milliseconds. In a set of many quotients the search may take hours.
_STEPS = 5_000


def point_by_isl(names: Sequence[str], condition: Condition) -> tuple[int, ...] | None:
    """Like `point`, but always use islpy."""
    import islpy as isl

    # Sizes are dimensions of the set, not parameters, so that a sample has values for them too.
    points = isl.Set(f"{{ [{', '.join(names)}] : {_isl_text(condition)} }}")
    if points.is_empty():
        return None
    example = _least(points) or points.sample_point()
    dimensions = range(points.dim(isl.dim_type.set))
    return tuple(int(example.get_coordinate_val(isl.dim_type.set, i).to_python()) for i in dimensions)


def _isl_text(e: Any) -> str:
    """Return a term or a condition in isl's syntax."""
    if not isinstance(e, tuple):
        return str(e)
    operator, *operands = e
    texts = [_isl_text(operand) for operand in operands]
    if operator in ("and", "or"):
        return f"({f' {operator} '.join(texts)})" if texts else ("0 = 0" if operator == "and" else "0 = 1")
    if operator == "not":
        return f"(not {texts[0]})"
    if operator == "floor":
        return f"floor({texts[0]} / {texts[1]})"
    return f"({texts[0]} {operator} {texts[1]})"


def _least(points: Any) -> Any:
    """Return the lexicographically smallest point of a set that is not empty, or None if it is not found quickly."""
    context = points.get_ctx()
    context.reset_operations()
    context.set_max_operations(_STEPS)
    try:
        least = points.lexmin()
        return None if least.is_empty() else least.sample_point()
    except Exception as error:  # islpy's own Error class: out of steps, or no least point (an unbounded size)
        if type(error).__name__ != "Error":
            raise
        return None
    finally:
        context.set_max_operations(0)
        context.reset_operations()


# --- z3 ---------------------------------------------------------------------------------------------------------------

# z3 counts its own steps, so that an answer does not depend on how fast the machine is. This is about 10 seconds.
_RESOURCES = 20_000_000


def point_by_z3(names: Sequence[str], condition: Condition) -> tuple[int, ...] | None:
    """Like `point`, but always use z3."""
    import z3

    variables = {name: z3.Int(name) for name in names}
    holds = _z3_formula(condition, variables)
    solver = z3.Solver()
    solver.set("rlimit", _RESOURCES)
    solver.add(holds)
    answer = solver.check()
    if answer == z3.unsat:
        return None
    if answer != z3.sat:
        raise Unanswered(f"z3 gave up: {solver.reason_unknown()}")
    smallest = z3.Optimize()  # minimizes its objectives in order
    smallest.set("rlimit", _RESOURCES)
    smallest.add(holds)
    for variable in variables.values():
        smallest.minimize(variable)
    model = smallest.model() if smallest.check() == z3.sat else solver.model()
    return tuple(model.eval(variable, model_completion=True).as_long() for variable in variables.values())


def _z3_formula(e: Any, variables: Mapping[str, Any]) -> Any:
    """Convert a term or a condition to z3's form."""
    import z3

    if not isinstance(e, tuple):
        return variables[e] if isinstance(e, str) else z3.IntVal(e)
    operator, *operands = e
    parts = [_z3_formula(operand, variables) for operand in operands]
    build: dict[str, Callable[..., Any]] = {
        "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
        "floor": lambda a, b: a / b,  # of integers; rounded down, because the divisor is positive
        "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
        "=": lambda a, b: a == b, "!=": lambda a, b: a != b,
        "and": z3.And, "or": z3.Or, "not": z3.Not,
    }  # fmt: skip
    return build[operator](*parts)


# The functions, keyed by the package that they need. The faster one comes first.
ENGINES = {"islpy": point_by_isl, "z3": point_by_z3}

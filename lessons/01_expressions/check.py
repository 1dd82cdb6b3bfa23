"""Prints random trees with the learner's printer, reads them back, and compares with minitvm's own printer."""

from __future__ import annotations

import copy
import itertools
from types import ModuleType

from hypothesis import strategies as st

from lessons import tiny
from lessons.grading import attempt, cases, require
from minitvm.errors import MinitvmError
from minitvm.expr import Var
from minitvm.reference.meaning.scalar import evaluate

NAMES = ("a", "b", "c", "i_0", "rows")
VARIABLES = {name: Var(name) for name in NAMES}
NUMBERS = st.integers(0, 12) | st.sampled_from([100, 65536, 10_000_000, 123_456_789])
LEAVES = st.sampled_from(NAMES).map(tiny.Name) | NUMBERS.map(tiny.Num)


def operations(inner: st.SearchStrategy[tiny.Expr]) -> st.SearchStrategy[tiny.Expr]:
    """An operator on two expressions."""
    return st.sampled_from([tiny.Sub, tiny.FloorDiv, tiny.Mul, tiny.Add]).flatmap(lambda k: st.builds(k, inner, inner))


def value(e: tiny.Expr, values: dict[str, int]) -> int | None:
    """The value of an expression, by the reference interpreter; None if it divides by zero, or a name is unknown."""
    try:
        bound = {VARIABLES[name]: number for name, number in values.items()}
        return int(evaluate(tiny.as_minitvm(e, VARIABLES), bound))
    except (MinitvmError, KeyError):
        return None


def leaves(e: tiny.Expr) -> list[tiny.Expr]:
    """The names and numbers of a tree."""
    return [*leaves(e.a), *leaves(e.b)] if isinstance(e, tiny.Binary) else [e]


def difference(one: tiny.Expr, other: tiny.Expr) -> str:
    """Numbers that show that two expressions differ, if small ones do."""
    used = sorted({one.name for tree in (one, other) for one in leaves(tree) if isinstance(one, tiny.Name)})
    for numbers in itertools.product((3, 1, 2, 5), repeat=len(used)):
        values = dict(zip(used, numbers))
        of_tree, of_text = value(one, values), value(other, values)
        if of_tree is not None and of_text is not None and of_tree != of_text:
            return (
                f"with {', '.join(f'{n}={v}' for n, v in values.items())} the tree gives {of_tree}, your text {of_text}"
            )
    return "the value is the same here, but the tree that is read back is not the tree that was printed"


def check(module: ModuleType) -> None:
    """Raises AssertionError with the smallest tree that is printed wrongly."""

    @cases(250, e=st.recursive(LEAVES, operations, max_leaves=8))
    def prints_well(e: tiny.Expr) -> None:
        case = f"the tree\n{tiny.drawing(e, '    ')}"
        text = attempt(case, module.to_text, e)
        require(isinstance(text, str), f"{case}\nto_text returned {text!r}, which is not a text")
        again = module.to_text(copy.deepcopy(e))
        require(
            text == again,
            f"{case}\nis printed as\n    {text}\nand an equal tree, right after it, as\n    {again}",
        )
        try:
            back = tiny.read(text)
        except SyntaxError:
            raise AssertionError(f"{case}\nis printed as\n    {text}\nwhich does not read back at all") from None
        best = str(tiny.as_minitvm(e, VARIABLES))
        case += f"\nis printed as\n    {text}"
        if back != e:
            raise AssertionError(f"{case}\nwhich reads back as\n{tiny.drawing(back, '    ')}\n{difference(e, back)}")
        require(text == best, f"{case}\nand this would do:\n    {best}")

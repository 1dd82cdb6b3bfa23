"""The dict of terms and sympy agree; conversions go both ways; the pool of symbols is positional."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from minitvm.arith import Analyzer
from minitvm.arith.sympy_bridge import divide, dummies, from_sympy, functions, to_sympy
from minitvm.expr import Add, Expr, IntImm, Mul, Sub, Var, const

from .expressions import evaluate, integers

x, y, z = Var("x"), Var("y"), Var("z")
_VARIABLES = [x, y, z]


def _polynomials(depth: int = 3) -> st.SearchStrategy[Expr]:
    leaf = st.one_of(st.sampled_from(_VARIABLES), st.integers(-4, 4).map(const))
    return st.recursive(
        leaf, lambda sub: st.one_of(*(st.builds(kind, sub, sub) for kind in (Add, Sub, Mul))), max_leaves=6
    )


def _plain_sympy(e: Expr, symbols: dict):
    import sympy

    if isinstance(e, IntImm):
        return sympy.Integer(e.value)
    if isinstance(e, Var):
        return symbols[e]
    a, b = _plain_sympy(e.a, symbols), _plain_sympy(e.b, symbols)
    return a + b if isinstance(e, Add) else a - b if isinstance(e, Sub) else a * b


@given(_polynomials())
def test_the_normal_form_is_what_sympy_expands_to(e: Expr) -> None:
    import sympy

    normal = Analyzer().normal_form(e)
    assert normal is not None
    symbols = dict(zip(_VARIABLES, dummies(3)))
    assert sympy.expand(_plain_sympy(e, symbols)) == sympy.expand(to_sympy(normal, symbols))


@given(integers(_VARIABLES, 3))
def test_round_trip(e: Expr) -> None:
    normal = Analyzer().normal_form(e)
    assert normal is not None
    symbols: dict = {}
    back = from_sympy(to_sympy(normal, symbols), symbols)
    analyzer = Analyzer()
    for a in range(-3, 4):
        env = {x: a, y: 2 - a, z: 3 * a}
        assert evaluate(analyzer.to_expr(back, "int32"), env) == evaluate(e, env)


@given(_polynomials(), _polynomials())
def test_division_is_exact(e: Expr, d: Expr) -> None:
    a, b = Analyzer().normal_form(e), Analyzer().normal_form(d)
    assert a is not None and b is not None
    found = divide(a, b)
    if found is None:
        return
    analyzer = Analyzer()
    quotient, rest = (analyzer.to_expr(part, "int32") for part in found)
    for p in range(-2, 3):
        env = {x: p, y: p + 1, z: 4 - p}
        assert evaluate(quotient, env) * evaluate(d, env) + evaluate(rest, env) == evaluate(e, env)


def test_division_by_a_sum() -> None:
    analyzer = Analyzer()
    numerator, divisor = analyzer.normal_form((x + 2) * (y + 1) + 3), analyzer.normal_form(y + 1)
    assert numerator is not None and divisor is not None
    found = divide(numerator, divisor)
    assert found is not None
    assert [str(analyzer.to_expr(part, "int32")) for part in found] == ["x + 2", "3"]


def test_symbols_are_pooled_and_functions_do_not_evaluate_by_range() -> None:
    floordiv, mod = functions()
    t = dummies(2)
    assert dummies(2) == t
    assert str(floordiv(t[0], 16).func) == "FloorDiv"
    assert floordiv(-7, 2) == -4
    assert mod(-7, 4) == 1
    assert floordiv(t[0], 16).subs(t[0], 40) == 2

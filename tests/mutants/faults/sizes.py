"""Faults in what is known of symbolic sizes: simplification and proofs, and closed formulas of work."""

from ..patch import Faults
from ..sizes import cases, counts, shapes

SHAPES, CASES, COUNTS = shapes(), cases(), counts()

SYMBOLIC = Faults("sizes: division", "minitvm.arith.symbolic", [SHAPES])
SYMBOLIC.edit(
    "a remainder may be as large as the divisor",
    "_in_range",
    "domain.nonnegative(r) and domain.nonnegative(d - r - 1)",
    "domain.nonnegative(r) and domain.nonnegative(d - r)",
)
SYMBOLIC.edit("a common factor of a remainder is lost", "_cancel", "multiply(result, g)", "result")
SYMBOLIC.edit("the low part of a group may be anything", "_grouped", "_in_range(domain, z, g) != 0 or", "")
SYMBOLIC.edit("the low part of a remainder is lost", "_grouped", "else result + z", "else result")
SYMBOLIC.edit("nested quotients divide by the outer", "_nested", "multiply(inner.args[1], d)", "d")
SYMBOLIC.edit(
    "a remainder of a remainder, whatever they are", "_mod_of_mod", "split is not None and split[1] == Affine({})",
    "split is not None",
)  # fmt: skip

POLYNOMIALS = Faults("sizes: polynomials", "minitvm.arith.polynomials", [SHAPES])
POLYNOMIALS.edit(
    "terms that are -1 times something count as >= 0",
    "_put_in",
    "any(term.as_coeff_Mul()[0] < 0 for",
    "any(term.as_coeff_Mul()[0] < -1 for",
)
POLYNOMIALS.edit("one negative factor does no harm", "_shown", "if sign < 0:", "if sign < -1:")
POLYNOMIALS.edit(
    "a loop ends one earlier",
    "_relations",
    "from_ranges.append(high - Affine.of(term))",
    "from_ranges.append(high - Affine.of(term) - 1)",
)

DOMAIN = Faults("sizes: domain", "minitvm.arith.domain", [SHAPES])
DOMAIN.edit(
    "a quotient is never rounded",
    "Domain._by_symbolic_quotient",
    "bound = x if c < 0 else x - d + 1",
    "bound = x",
)

SUMS = Faults("sizes: closed sums", "minitvm.arith.closed_sums", [CASES, COUNTS])
SUMS.edit(
    "a minimum changes sides one early",
    "_divided",
    "quotient(sympy.expand(-r), c) + 1",
    "quotient(sympy.expand(-r), c)",
)
SUMS.edit("the first residue is left out", "_by_residue", "for s in range(period):", "for s in range(1, period):")
SUMS.edit(
    "a sum of powers begins with the range", "sum_over", "(_powers(int(power), high) - _powers(int(power), low))",
    "_powers(int(power), high)",
)  # fmt: skip

LATTICE = Faults("sizes: lattice", "minitvm.arith.lattice", [CASES, COUNTS])
LATTICE.edit(
    "the last point is left out",
    "_eliminated",
    "sympy.Integer(c)) + 1 for c, r in above",
    "sympy.Integer(c)) for c, r in above",
)
LATTICE.edit("a variable with steps is projected as one without", "projected", "if c != 1 and d != 1:", "if False:")
LATTICE.edit("a condition on sizes alone is forgotten", "number_of", "total *= holds(symbols.of(condition))", "pass")

IMAGES = Faults("sizes: images", "minitvm.tir.work.images", [CASES, COUNTS])
IMAGES.edit(
    "windows with gaps between them are one",
    "_ConstrainedSides._overlapping",
    "times is None or not self.domain.nonnegative(small.extent - times)",
    "times is None",
)
IMAGES.edit(
    "neighbours are apart", "_apart", "domain.nonnegative(a.low - b.high - 1)", "domain.nonnegative(a.low - b.high)"
)
IMAGES.edit(
    "steps may be as long as what is below them",
    "_in_order",
    "domain.nonnegative(s.step - reached)",
    "domain.nonnegative(s.step - reached + 1)",
)
IMAGES.edit(
    "what is touched under a condition holds everything", "_inside", "if not b.guards <= a.guards:", "if False:"
)

ITERATIONS = Faults("sizes: iterations", "minitvm.tir.work.iterations", [CASES, COUNTS])
ITERATIONS.edit(
    "a < b is a <= b", "Iterations.indicator", "f = y - x - (1 if isinstance(c, e.LT | e.GT) else 0)", "f = y - x"
)
ITERATIONS.edit(
    "a or b counts both twice",
    "Iterations.indicator",
    "return _complement(_product(self.indicator(c.a, not holds), self.indicator(c.b, not holds)))",
    "return (*self.indicator(c.a, holds), *self.indicator(c.b, holds))",
)

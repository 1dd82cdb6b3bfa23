"""Faults in integer reasoning: rules that are not sound, ranges that are too small, folds that change values."""

from tests.arith.test_regions import test_one_of_many_boxes
from tests.tir.transform.test_loop_dtypes import sums_that_wrap

from ..patch import Faults
from ..streams import by_hand
from ..workloads import families, lowered, schedules, simplified

ARITH = "minitvm.arith."
SUMS = simplified(families("quotients"))
VALUES = simplified(families("pointwise"))
CONSTANTS = simplified(families("constants"))
CHOICES = simplified(families("index_arithmetic"))
QUOTIENTS = lowered(families("quotients"), ("split", "fuse", "unroll"), most=2, examples=400)
SPLITS = lowered(families("split_indices"), ("split", "fuse", "reorder", "unroll"), examples=300)
BLOCKS = schedules("split", "fuse", "compute_at")

RULES = Faults("arith rules", ARITH + "rules", [SUMS, QUOTIENTS, SPLITS, BLOCKS])
RULES.edit(
    "x // d is 0 wherever x < d",
    "_div_in_range",
    "low is None or high is None or low // d != high // d",
    "high is None or high >= d",
)
RULES.edit(
    "x % d is x wherever x < d",
    "_mod_in_range",
    "low is None or high is None or low // d != high // d",
    "high is None or high >= d",
)
RULES.edit(
    "the low part of a group may be as large as the group",
    "grouping",
    "bottom // g != top // g",
    "bottom // g != (top - 1) // g",
)
RULES.edit("the divisor stays", "_div_grouped", "d // groups[0]", "d")
RULES.edit(
    "nested quotients divide by the outer",
    "_div_nested",
    "y + x.const * b, b * d",
    "y + x.const * b, b + d",
    by=[SPLITS],
)
RULES.edit("a remainder of a remainder, whatever they are", "_mod_of_mod", "and c * term.args[1].const % d == 0", "")
RULES.edit("the low part of a remainder is lost", "_mod_grouped", ".scaled(g) + low", ".scaled(g)")
RULES.edit(
    "quotients round toward zero",
    "split_multiples",
    "x.const // d), Affine(rest, x.const % d)",
    "int(x.const / d)), Affine(rest, x.const % d)",
)
RULES.edit(
    "a split is merged whatever its factor",
    "_merge_one",
    "if all(x.terms.get(t) == c * d * k for t, k in quotient.terms.items()):",
    "if all(t in x.terms for t, k in quotient.terms.items()):",
    equivalent="the sum that is returned is x + c*y - c*d*(y // d) - c*(y % d), which is x for every factor",
)
RULES.edit("x >= 0 divided without its rest", "tighten", "tighten(domain, groups[1])", "tighten(domain, groups[1] + 1)")

DOMAIN = Faults("arith ranges", ARITH + "domain", [SUMS, CHOICES, QUOTIENTS, BLOCKS])
DOMAIN.edit(
    "a product is least at the least of both",
    "multiply_intervals",
    "low, high = min(corners), max(corners)",
    "low, high = corners[0], corners[-1]",
    by=[simplified(families("products"))],
)
DOMAIN.edit(
    "a minimum is at least the greater of both",
    "Domain._structure_interval",
    "low, high = hull(a, b)[0], intersect(a, b)[1]",
    "low, high = intersect(a, b)[0], intersect(a, b)[1]",
)

NORMAL = Faults("arith normal form", ARITH + "normal", [SUMS, CHOICES, QUOTIENTS, SPLITS])
NORMAL.edit("a - b is a + b", "Normalizer._add", "self._add(e.b, -scale, terms)", "self._add(e.b, scale, terms)")
NORMAL.edit(
    "division by a negative number as by a positive one",
    "Normalizer._divide",
    "divided if quotient else divided.scaled(sign)",
    "divided",
)
NORMAL.edit("truncation as floor", "Normalizer._truncated", "or not self.domain.nonnegative(x):", "or False:")
NORMAL.edit("max for min", "Normalizer._extreme", "return a if low else b", "return b if low else a")

ANALYZER = Faults("arith analyzer", ARITH + "analyzer", [SUMS, VALUES, CHOICES, QUOTIENTS])
ANALYZER.edit("< negates to >", "_NEGATED", "ex.LT: ex.GE,", "ex.LT: ex.GT,")
ANALYZER.edit(
    "a choice of two that look alike",
    "_alike",
    "return a.value == b.value and a.dtype == b.dtype",
    "return a.dtype == b.dtype",
)

FOLD = Faults("arith fold", ARITH + "fold", [CONSTANTS, VALUES])
FOLD.edit(
    "bytes do not wrap", "wrap", "return (value - low) % (high - low + 1) + low", "return min(max(value, low), high)"
)
FOLD.edit("truncation as floor", "_fold_int", "(1 if (a < 0) == (b < 0) else -1)", "1")
FOLD.edit("0 - x is x", "_neutral_int", "isinstance(e, ex.Add) and x == 0", "isinstance(e, ex.Add | ex.Sub) and x == 0")

FOLD.edit("a difference of floats is a sum", "_fold_float", "value = x - y", "value = x + y")

REGIONS = Faults(
    "arith regions",
    ARITH + "regions",
    [
        schedules("compute_at", "cache_read"),
        schedules("compute_at", of=families("chain"), prepare=("split",)),
        schedules("cache_write", "reverse_compute_at"),
    ],
)
REGIONS.edit(
    "the greatest value at the first iteration",
    "_replace",
    "moved = multiply(steep, bounds[end])",
    "moved = multiply(steep, bounds[0])",
)

BOXES = Faults("one of many boxes", ARITH + "regions", [by_hand("boxes", test_one_of_many_boxes)])
BOXES.edit("what differs is not the same", "Boxes.hold", "self._nonlinear if linear else self._forms.values()", "[]")
BOXES.edit("constants do not count", "Boxes._form", "self._analyzer.affine(e)", "self._analyzer.affine(e).scaled(0)")

DTYPES = Faults("other integer dtypes", ARITH + "normal", [by_hand("sums that wrap", sums_that_wrap)])
DTYPES.edit("sums that wrap do not", "Normalizer.affine", "if not is_index_dtype(e.dtype) and not", "if False and not")

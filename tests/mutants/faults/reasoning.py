"""Faults in facts, bounds and boxes: what holds for most integers and is taken to hold for all."""

from tests.arith.test_folded_floats import constants_fold_to_their_value

from ..integers import bindings, boxes, dtypes, questions
from ..patch import Faults
from ..streams import by_hand
from .arith import SUMS

QUESTIONS, BOXES, DTYPES, BINDINGS = questions(), boxes(), dtypes(), bindings(2000)

ANALYZER = Faults("reasoning: analyzer", "minitvm.arith.analyzer", [])
ANALYZER.edit(
    "x >= y is assumed as x > y",
    "Analyzer._assume",
    "(1 if kind is ex.GT else 0)",
    "(1 if kind in (ex.GT, ex.GE) else 0)",
    by=[QUESTIONS],
)
ANALYZER.edit(
    "a lower bound from a fact is one too large where it divides",
    "Analyzer._propagate",
    "(-(highest // c), None) if c > 0",
    "(-highest // c + 1, None) if c > 0",
    by=[QUESTIONS],
)
ANALYZER.edit(
    "x != 0 is assumed as x > 0 for negative x too",
    "Analyzer._assume_nonzero",
    "if low == 0:",
    "if low is not None and low <= 0:",
    by=[QUESTIONS],
)
ANALYZER.edit(
    "an inequality is written one tighter",
    "Analyzer._inequality",
    "build(negative - (f.const + 1), dtype)",
    "build(negative - f.const, dtype)",
    by=[SUMS],
)

DOMAIN = Faults("reasoning: domain", "minitvm.arith.domain", [QUESTIONS])
DOMAIN.edit(
    "a remainder is below its dividend, negative ones too",
    "Domain._structure_interval",
    "if a[0] is not None and a[0] >= 0 and a[1] is not None",
    "if a[0] is not None and a[1] is not None",
)

FOLD = Faults("reasoning: fold", "minitvm.arith.fold", [DTYPES])
FOLD.edit(
    "x + 0.0 and x - -0.0 fold to x",
    "_is",
    "return e.value == value and np.signbit(e.value) == np.signbit(value)",
    "return e.value == value",
)
FOLD.edit(
    "a NaN loses against a number",
    "_fold_float",
    "np.minimum(x, y) if isinstance(e, ex.Min) else np.maximum(x, y)",
    "min(x, y) if isinstance(e, ex.Min) else max(x, y)",
    by=[by_hand("special floats", constants_fold_to_their_value)],
)

REGIONS = Faults("reasoning: regions", "minitvm.arith.regions", [BOXES])
REGIONS.edit(
    "a subtracted quotient takes the wrong end",
    "_replace",
    "end if c > 0 else 1 - end)",
    "end)",
)
REGIONS.edit(
    "steps that leave out one element count as dense",
    "_dense",
    "if step > filled:",
    "if step > filled + 1:",
)
REGIONS.edit(
    "a box covers another one that is no longer, wherever it starts",
    "covers",
    "analyzer.can_prove(y.start + y.extent <= x.start + x.extent)",
    "analyzer.can_prove(y.extent <= x.extent)",
)

MAPS = Faults("reasoning: maps of loops", "minitvm.arith.iter_detector", [BINDINGS])
MAPS.edit(
    "digits of one iterator add up, however many values they take",
    "Detector.added",
    "and mine.extent == arg.extent",
    "",
)

CLAIMS = Faults("reasoning: claims about maps", "minitvm.arith.iter_check", [BINDINGS])
CLAIMS.edit(
    "digits whose last tile is not full are left out of the inverse",
    "_assemble",
    "and not analyzer.domain.nonnegative(further - split.mark.extent)",
    "",
)

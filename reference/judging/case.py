"""The two programs of one check, with the inputs, runs and comparisons that its modes share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from minitvm import expr as x
from minitvm.errors import ExecutionError, Unsupported
from minitvm.expr.dtypes import is_floating

from ..meaning.findings import UndefinedBehaviour
from ..meaning.steps import limited
from .coverage import Coverage, coverage_of
from .flow import Flow, computes_with_floats, keys
from .hints import hint
from .inputs.arguments import copies, random_inputs
from .inputs.endings import RUN, deciding
from .inputs.exact import exact_arguments
from .inputs.landmarks import landmarks, points, sized_by_data
from .inputs.preimages import Ground, Solution
from .inputs.signs import classifies, compared, decides, looks_at_order, may_multiply, nodes
from .inputs.sites import solutions
from .ordinary import functions
from .precision import elsewhere, unlike
from .programs import Parameter, Program, execute, parameters
from .verdict import Verdict, difference

if TYPE_CHECKING:
    from .inputs.steering import Elements


class Undefined(Exception):
    """`after` does something undefined on inputs on which `before` is defined."""

    def __init__(self, error: ExecutionError, inputs: Sequence[Any]) -> None:
        super().__init__(str(error))
        self.inputs = inputs
        self.finding = error.finding if isinstance(error, UndefinedBehaviour) else None


@dataclass
class Facts:
    """Facts about two programs that do not depend on runs, each computed on first use.

    `dimensions` are the names that have a size.
    """

    before: Program
    after: Program
    dimensions: frozenset[str]
    runs_left: int = 160  # of searches that run the programs (`inputs.nearing`), and the steps of these
    steps_left: int = 60_000

    @cached_property
    def parameters(self) -> list[Parameter]:
        """The parameters of `before`; those of `after` differ at most in their names."""
        return parameters(self.before)

    @cached_property
    def looks_at_order(self) -> bool:
        """Return whether one of the programs compares its data; then inputs of one sign show more."""
        return any(map(looks_at_order, (self.before, self.after)))

    @cached_property
    def compared(self) -> frozenset[int]:
        """The positions of the parameters that flow into a comparison, a maximum or a minimum of one of the
        programs.
        """
        flows = ((Flow(one), compared(one)) for one in (self.before, self.after))
        return frozenset(k for flow, operands in flows for k in flow.into_values(operands).parameters)

    @cached_property
    def landmarks(self) -> frozenset[Fraction]:
        """The numbers at which one of the programs may change its behaviour, such as constants in comparisons."""
        return hint(lambda: landmarks(self.before) | landmarks(self.after), frozenset())

    @cached_property
    def coverages(self) -> tuple[Coverage, Coverage]:
        """The sides of comparisons and clips that each of the two programs took so far."""
        return coverage_of(self.before), coverage_of(self.after)

    @property
    def open(self) -> bool:
        """Return whether no input took one side of some comparison, or made its operands equal."""
        return any(one.open_sites(equality=True) for one in self.coverages)

    @property
    def covered(self) -> bool:
        """Return whether both programs took both sides of each comparison that they reached."""
        return all(one.complete for one in self.coverages)

    @cached_property
    def compares(self) -> bool:
        """Return whether one of the programs decides something by an order, so that equal elements may matter."""
        return any(decides(n) for one in (self.before, self.after) for n in nodes(one))

    @cached_property
    def _solutions(self) -> tuple[list[Solution], list[Solution]]:
        nothing: tuple[list[Solution], list[Solution]] = ([], [])
        (one, its_poles), (other, other_poles) = (
            hint(partial(solutions, program), nothing) for program in (self.before, self.after)
        )
        return one + other, its_poles + other_poles

    @cached_property
    def reached(self) -> dict[int, frozenset[Fraction]]:
        """The values of each parameter, by position, that lead to a site whatever the other parameters are."""
        values: dict[int, frozenset[Fraction]] = {}
        for s in self._solutions[0]:
            if s.values and not s.ground:
                values[s.place] = values.get(s.place, frozenset()) | s.values
        return values

    @cached_property
    def probes(self) -> list[Solution]:
        """The inputs that lead to a site if the other parameters are 0 or 1; from both programs in turn, without
        duplicates.
        """
        met: dict[tuple[int, Ground], frozenset[Fraction]] = {}
        for s in self._solutions[0]:
            if s.ground:
                met[s.place, s.ground] = met.get((s.place, s.ground), frozenset()) | s.values
        return [Solution(place, ground, values) for (place, ground), values in met.items()]

    @cached_property
    def poles(self) -> list[Solution]:
        """The inputs for which floats of one program overflow, or for which its functions are undefined."""
        return self._solutions[1]

    @cached_property
    def hashes(self) -> set[str]:
        """The functions in the two programs that the field mode treats as hashes."""
        return functions(self.before) | functions(self.after)

    @cached_property
    def converts(self) -> bool:
        """Return whether one of the programs converts integers to floats, or floats to integers."""
        return any(isinstance(n, x.Cast) and n.value.dtype.is_float != n.dtype.is_float
                   for one in (self.before, self.after) for n in nodes(one))  # fmt: skip

    @cached_property
    def classifies(self) -> bool:
        """Return whether one of the programs tests whether a float is NaN or infinite; then such inputs have a meaning
        for it.
        """
        return any(classifies(n) for one in (self.before, self.after) for n in nodes(one))

    @cached_property
    def multiplies(self) -> bool:
        """Return whether products of one of the programs may overflow, and not only sums."""
        return any(may_multiply(n) for one in (self.before, self.after) for n in nodes(one))

    @cached_property
    def intricate(self) -> bool:
        """Return whether a difference may need several conditions at once, or several inputs together."""
        from .inputs.steering import intricate

        return intricate(self.before) or intricate(self.after) or not self.covered

    @cached_property
    def points(self) -> bool:
        """Return whether in one of the programs data may be part of an index."""
        return points(self.before) or points(self.after)

    @cached_property
    def withheld(self) -> frozenset[str]:
        """The parameters that may decide how often a loop runs; large integers in them would make it endless."""
        sized = [one for one in (self.before, self.after) if sized_by_data(one, self.dimensions)]
        places = {k for one in sized for k in Flow(one).into_extents().parameters}
        return frozenset(self.parameters[k].name for k in places)

    @cached_property
    def rounded(self) -> str:
        """A text about a rounding that differs between the programs' texts; "" if there is none."""
        return unlike(self.before, self.after)

    @cached_property
    def integral(self) -> frozenset[str]:
        """The integer outputs that never were floats with two possible roundings: they are made of integers.

        They may have been floats temporarily, but not in computations of both programs.
        """
        casts = any(isinstance(n, x.Cast) and n.value.dtype.is_float and not n.dtype.is_float
                    for one in (self.before, self.after) for n in nodes(one))  # fmt: skip
        outputs = {k: p.name for k, p in enumerate(self.parameters) if p.written and not p.dtype.is_float}
        if not casts or not outputs:
            return frozenset(outputs.values())
        floats = {k for k, p in enumerate(self.parameters) if p.dtype.is_float and p.is_input}
        computed: list[set[int]] = []
        for one in (self.before, self.after):
            flow, mine = Flow(one), set()
            for k, key in enumerate(keys(one)):
                if k in outputs:
                    reached = flow.into(key)
                    if reached.parameters & floats:
                        outputs.pop(k)
                    elif any(computes_with_floats(n) for n in reached.nodes()):
                        mine.add(k)
            computed.append(mine)
        return frozenset(name for k, name in outputs.items() if not all(k in mine for mine in computed))


@dataclass
class Case:
    """Two programs with the same parameters. `given` are inputs of the caller; with None, the modes draw inputs.

    `sizes` holds a size for every symbolic dimension, and `open_sizes` the ones that the caller left open. Cases that
    differ only in sizes have the same `shared_facts`. With `shadow`, runs on plain arrays are checked for undefined
    behaviour; `watched` tells whether both programs had such a run.
    """

    before: Program
    after: Program
    seed: int
    sizes: Mapping[str, int]
    fixed_inputs: Sequence[Any] | None = None
    shadow: bool = True
    open_sizes: Mapping[str, int] = field(default_factory=dict)
    shared_facts: Facts | None = None
    watched: bool = field(default=False, init=False)
    brief: bool = False  # only what every mode does first: these sizes are large

    def with_sizes(self, sizes: Mapping[str, int]) -> Case:
        """Return the same case with other sizes for open dimensions."""
        every, left_open = {**self.sizes, **sizes}, {**self.open_sizes, **sizes}
        return Case(self.before, self.after, self.seed, every, None, self.shadow, left_open, self.facts)

    @cached_property
    def facts(self) -> Facts:
        """The facts about the programs that do not depend on sizes."""
        return self.shared_facts or Facts(self.before, self.after, frozenset(self.sizes))

    @property
    def parameters(self) -> list[Parameter]:
        """The parameters of `before`; those of `after` differ at most in their names."""
        return self.facts.parameters

    @cached_property
    def rounded(self) -> str:
        """A text about a rounding that differs; "" if both programs round alike, so that error bounds apply."""
        return self.facts.rounded or hint(lambda: elsewhere(self), "")

    @property
    def judges_chosen(self) -> bool:
        """Return whether modes choose further inputs: none are given, and the sizes are small."""
        return self.fixed_inputs is None and not self.brief

    @cached_property
    def _exact(self) -> list[Any] | Unsupported:
        try:
            return exact_arguments(self.before, self.seed, self.sizes)
        except Unsupported as reason:
            return reason

    @cached_property
    def elements(self) -> Elements | None:
        """The elements of the outputs that formulas describe; None if there are none."""
        from .inputs.steering import elements

        return hint(lambda: elements(self), None)

    def exact_inputs(self) -> list[Any]:
        """Return inputs on which `before` does not round; raises `Unsupported` if there are none, or if inputs were
        given.
        """
        if self.fixed_inputs is not None:
            raise Unsupported("exact mode: inputs were given")
        if isinstance(self._exact, Unsupported):
            raise Unsupported(str(self._exact))
        return self._exact

    def inputs(self) -> Sequence[Any]:
        """Return concrete inputs: the given ones, else exact ones, else random floats."""
        if self.fixed_inputs is not None:
            return self.fixed_inputs
        try:
            return self.exact_inputs()
        except Unsupported:
            return random_inputs(self.before, self.seed, self.sizes)

    def run_before(self, inputs: Sequence[Any], **options: Any) -> list[Any]:
        """Run `before` and return its arguments. Undefined behaviour raises its error: then there is nothing to compare
        with.
        """
        args = copies(inputs)
        with self.bounded():
            execute(self.before, args, self.shadow, self.sizes, coverage=self.facts.coverages[0], **options)
        return args

    def bounded(self) -> AbstractContextManager[None]:
        """Return a context that limits the steps of `before` if it has a `while`, which may be endless on chosen
        inputs.
        """
        return limited(RUN) if deciding(self.before) else nullcontext()

    def run_after(self, inputs: Sequence[Any], **options: Any) -> list[Any]:
        """Run `after` and return its arguments. Raises `Undefined`, which the check turns into a verdict.

        If `before` is also undefined on these inputs, its `ExecutionError` is raised.
        """
        args = copies(inputs)
        try:
            execute(self.after, args, self.shadow, self.sizes, coverage=self.facts.coverages[1], **options)
        except ExecutionError as error:
            self.run_before(inputs)
            raise Undefined(error, inputs) from error
        self.watched = self.watched or self.shadow
        return args

    def compare(self, mode: str, inputs: Sequence[Any], first: Sequence[Any], second: Sequence[Any],
                accept: Callable[[Parameter, np.ndarray, np.ndarray], bool] | None = None) -> Verdict:  # fmt: skip
        """Compare the outputs of two runs; NaN equals NaN. `accept` may accept a difference."""
        for p, a, b in zip(self.parameters, first, second, strict=True):
            if not p.written:
                continue
            same = np.asarray(a == b)
            if is_floating(a.dtype):
                same = same | ((a != a) & (b != b))
            if same.all() or (accept is not None and accept(p, a, b)):
                continue
            return difference(mode, p.name, ~same, a, b, inputs)
        return Verdict(True, mode)

"""The two programs of one check, and what its modes share: inputs, runs, comparisons."""

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
    """`after` does something undefined on inputs on which `before` does not."""

    def __init__(self, error: ExecutionError, inputs: Sequence[Any]) -> None:
        super().__init__(str(error))
        self.inputs = inputs
        self.finding = error.finding if isinstance(error, UndefinedBehaviour) else None


@dataclass
class Facts:
    """What is to know of two programs beside their runs, each found when it is first asked for.

    `dimensions` are the names that have a size.
    """

    before: Program
    after: Program
    dimensions: frozenset[str]
    runs_left: int = 160  # of searches that run the programs (`inputs.nearing`), and the steps of these
    steps_left: int = 60_000

    @cached_property
    def parameters(self) -> list[Parameter]:
        """The parameters of `before`; the other's differ in names at most."""
        return parameters(self.before)

    @cached_property
    def looks_at_order(self) -> bool:
        """Whether one of the programs compares its data: inputs of one sign then show more."""
        return any(map(looks_at_order, (self.before, self.after)))

    @cached_property
    def compared(self) -> frozenset[int]:
        """The places of the parameters that flow into a comparison, a maximum or a minimum of one of the programs."""
        flows = ((Flow(one), compared(one)) for one in (self.before, self.after))
        return frozenset(k for flow, operands in flows for k in flow.into_values(operands).parameters)

    @cached_property
    def landmarks(self) -> frozenset[Fraction]:
        """The numbers at which one of the programs may change its ways."""
        return hint(lambda: landmarks(self.before) | landmarks(self.after), frozenset())

    @cached_property
    def coverages(self) -> tuple[Coverage, Coverage]:
        """Which sides of their comparisons and clips the two programs took so far."""
        return coverage_of(self.before), coverage_of(self.after)

    @property
    def open(self) -> bool:
        """Whether a comparison has a side that no input took, or no input made its operands equal."""
        return any(one.open_sites(equality=True) for one in self.coverages)

    @property
    def covered(self) -> bool:
        """Whether both took every side of what they reached."""
        return all(one.complete for one in self.coverages)

    @cached_property
    def compares(self) -> bool:
        """Whether one of them decides something by an order, so that equal elements may make a difference."""
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
        """For each parameter, by its place, the values that lead to a site, whatever the others hold."""
        values: dict[int, frozenset[Fraction]] = {}
        for s in self._solutions[0]:
            if s.values and not s.ground:
                values[s.place] = values.get(s.place, frozenset()) | s.values
        return values

    @cached_property
    def probes(self) -> list[Solution]:
        """What leads to a site where the others hold 0 or 1; of the two programs in turn, equal ones once."""
        met: dict[tuple[int, Ground], frozenset[Fraction]] = {}
        for s in self._solutions[0]:
            if s.ground:
                met[s.place, s.ground] = met.get((s.place, s.ground), frozenset()) | s.values
        return [Solution(place, ground, values) for (place, ground), values in met.items()]

    @cached_property
    def poles(self) -> list[Solution]:
        """What makes the floats of one of them overflow, or is where its functions are not defined."""
        return self._solutions[1]

    @cached_property
    def hashes(self) -> set[str]:
        """The functions in the two programs of which the field mode knows no laws."""
        return functions(self.before) | functions(self.after)

    @cached_property
    def converts(self) -> bool:
        """Whether one of them makes floats of integers, or integers of floats."""
        return any(isinstance(n, x.Cast) and n.value.dtype.is_float != n.dtype.is_float
                   for one in (self.before, self.after) for n in nodes(one))  # fmt: skip

    @cached_property
    def classifies(self) -> bool:
        """Whether one of them asks whether a float is NaN or infinite: then it has a meaning for these."""
        return any(classifies(n) for one in (self.before, self.after) for n in nodes(one))

    @cached_property
    def multiplies(self) -> bool:
        """Whether products of one of them may overflow, and not only its sums."""
        return any(may_multiply(n) for one in (self.before, self.after) for n in nodes(one))

    @cached_property
    def intricate(self) -> bool:
        """Whether one of them may hide something where several conditions hold at once, or several inputs meet."""
        from .inputs.steering import intricate

        return intricate(self.before) or intricate(self.after) or not self.covered

    @cached_property
    def points(self) -> bool:
        """Whether in one of the programs data may be part of an index."""
        return points(self.before) or points(self.after)

    @cached_property
    def withheld(self) -> frozenset[str]:
        """The parameters that may say how often a loop runs: with large integers in them it would never end."""
        sized = [one for one in (self.before, self.after) if sized_by_data(one, self.dimensions)]
        places = {k for one in sized for k in Flow(one).into_extents().parameters}
        return frozenset(self.parameters[k].name for k in places)

    @cached_property
    def rounded(self) -> str:
        """Which rounding differs by the text of the programs, as text."""
        return unlike(self.before, self.after)

    @cached_property
    def integral(self) -> frozenset[str]:
        """The integer outputs that never are floats which may round in two ways: they are made of integers.

        On the way they may have been floats, but not both programs compute with these.
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
    """Two programs with the same parameters. `given` are inputs of the caller, None: the modes draw their own.

    `sizes` holds a size for every symbolic dimension, `open_sizes` those that the caller left open; cases that differ
    in these have the same `shared_facts`.
    With `shadow`, runs on plain arrays are watched for undefined behaviour; `watched` tells that both programs had such
    a run.
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
        """The same programs where open dimensions have other sizes."""
        every, left_open = {**self.sizes, **sizes}, {**self.open_sizes, **sizes}
        return Case(self.before, self.after, self.seed, every, None, self.shadow, left_open, self.facts)

    @cached_property
    def facts(self) -> Facts:
        """What the programs say whatever the sizes."""
        return self.shared_facts or Facts(self.before, self.after, frozenset(self.sizes))

    @property
    def parameters(self) -> list[Parameter]:
        """The parameters of `before`; the other's differ in names at most."""
        return self.facts.parameters

    @cached_property
    def rounded(self) -> str:
        """Which rounding differs, as text. Where both round alike, error bounds say how far they may lie apart."""
        return self.facts.rounded or hint(lambda: elsewhere(self), "")

    @property
    def judges_chosen(self) -> bool:
        """Whether modes choose inputs of their own beside the first: none are given, and these sizes are small."""
        return self.fixed_inputs is None and not self.brief

    @cached_property
    def _exact(self) -> list[Any] | Unsupported:
        try:
            return exact_arguments(self.before, self.seed, self.sizes)
        except Unsupported as reason:
            return reason

    @cached_property
    def elements(self) -> Elements | None:
        """Elements of the outputs that formulas tell, where such are asked for; None where they tell none."""
        from .inputs.steering import elements

        return hint(lambda: elements(self), None)

    def exact_inputs(self) -> list[Any]:
        """Inputs on which `before` does not round; `Unsupported` where there are none, or others are given."""
        if self.fixed_inputs is not None:
            raise Unsupported("exact mode: inputs were given")
        if isinstance(self._exact, Unsupported):
            raise Unsupported(str(self._exact))
        return self._exact

    def inputs(self) -> Sequence[Any]:
        """What concrete inputs there are: those given, exact ones, else random floats."""
        if self.fixed_inputs is not None:
            return self.fixed_inputs
        try:
            return self.exact_inputs()
        except Unsupported:
            return random_inputs(self.before, self.seed, self.sizes)

    def run_before(self, inputs: Sequence[Any], **options: Any) -> list[Any]:
        """The arguments after a run of `before`, whose undefined actions are errors: there is nothing to compare."""
        args = copies(inputs)
        with self.bounded():
            execute(self.before, args, self.shadow, self.sizes, coverage=self.facts.coverages[0], **options)
        return args

    def bounded(self) -> AbstractContextManager[None]:
        """A bound in steps for runs of `before` if it has a `while`, which may have no end on chosen inputs."""
        return limited(RUN) if deciding(self.before) else nullcontext()

    def run_after(self, inputs: Sequence[Any], **options: Any) -> list[Any]:
        """The arguments after a run of `after`; raises `Undefined`, which the check turns into a verdict.

        If `before` is undefined on these inputs as well, its `ExecutionError` is raised.
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
        """The outputs of two runs: equal values, and NaN equal to NaN; `accept` may say that a difference is none."""
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

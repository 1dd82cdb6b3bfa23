"""Build a graph with operands. An operator whose inputs are all known is computed immediately and adds no node."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, cast

import numpy as np

from ... import te
from ...arith import Analyzer
from ...errors import InputError, ModelError, UnsupportedOperator
from ...expr import GT, And, DType, Expr, Not, SizeVar, as_expr, const, free_vars, match, structural_equal
from ...free_memory import require_memory
from ...graph.builder import GraphBuilder
from ...graph.nodes import Dim, Graph, Value
from ...graph.passes.dead_code import dead_code
from ...topi import registry as operators
from ...topi.shapes import differ, may_exceed, product, same, simple
from . import symbolic
from .bounds import Computed
from .loop_writer import Body, LoopWriter
from .matching import Pairs, fitted, match_cast, resized
from .operand import Operand
from .output_names import with_output_names
from .reshaping import divisors, exact, fitted_shape, is_zero, with_inferred

# Operators that sum many elements. For half floats, this is done in float32, as in ONNX Runtime.
_SUMS = frozenset({
    "cumsum", "einsum", "l1", "l2", "log_sum", "logsumexp", "mean", "nn.avg_pool1d", "nn.avg_pool2d",
    "nn.avg_pool3d", "nn.conv1d", "nn.conv1d_transpose", "nn.conv2d", "nn.conv2d_transpose", "nn.conv3d",
    "nn.conv3d_transpose", "nn.dense", "nn.global_avg_pool", "nn.group_norm", "nn.gru", "nn.instance_norm",
    "nn.layer_norm", "nn.log_softmax", "nn.lrn", "nn.lstm", "nn.matmul", "nn.rms_norm", "nn.rnn", "prod", "sum",
    "sum_square", "variance",
})  # fmt: skip


# The largest number of symbolic numbers in a tensor that is used as data: each one is written into the program.
_MOST_NUMBERS = 64


class OperandBuilder:
    """A `GraphBuilder` whose inputs and results are operands."""

    def __init__(self, name: str) -> None:
        self._builder = GraphBuilder(name)
        self._computed_here: list[Operand] = []  # those whose values are operators of the graph
        self._nearly: dict[Value, np.ndarray] = {}  # what a run computes in floats from sizes, without their rounding
        self._sizes: dict[tuple[Value, int], SizeVar] = {}  # the sizes that elements of values are
        self._under: Expr | None = None  # the condition of the branch that is being written

    @contextmanager
    def at(self, where: str) -> Iterator[None]:
        """Within this scope, added operators are recorded as coming from the node `where` of the model."""
        around, self._builder.where = self._builder.where, where
        try:
            yield
        finally:
            self._builder.where = around

    def input(self, name: str, shape: Sequence[Dim], dtype: str) -> Operand:
        """Add an input to the graph. The operand depends on this input. Raises `InputError` if the name is taken."""
        return Operand.of(self._builder.input(name, shape, dtype), frozenset((name,)))

    def build(
        self,
        outputs: Sequence[tuple[str, Operand]],
        states: Sequence[tuple[Operand, Operand]] = (),
        first: Sequence[np.ndarray | None] = (),
    ) -> Graph:
        """Return the graph with these outputs, named if a node computes them.

        `states` holds pairs (old, new), and `first` the array of each state in the first run, or None for zeros.
        """
        values = [self.value(operand, name) for name, operand in outputs]
        pairs = {self.value(old, "old"): self.value(new, "new") for old, new in states}
        arrays = {old: array for old, array in zip(pairs, first, strict=False) if array is not None}
        graph = dead_code(self._builder.build(values, pairs, arrays))
        return with_output_names(graph, [name for name, _ in outputs])

    def op(self, op: str, operands: Sequence[Operand], attrs: Mapping[str, Any], name: str, where: str = "") -> Any:
        """Return the outputs of an operator: arrays if all inputs are known and can be computed, or graph nodes
        otherwise.

        Dimensions that must be equal, and may be equal, are assumed to be so. `where` names the node, for run-time
        errors.
        """
        depends = frozenset().union(*(o.depends for o in operands)) if operands else frozenset()
        if op in _SUMS and any(o.dtype.is_half for o in operands):
            return self._in_float32(op, operands, attrs, name, where)
        operator = operators.get(op)
        if all(o.is_known for o in operands):
            folded = _fold(operator, operands, operator.normalize(attrs))
            if folded is not None:
                return folded
        results = self._added(op, [self.value(o) for o in operands], attrs, name, where)
        if isinstance(results, tuple):
            return tuple(Operand.of(v, depends) for v in results)
        self._estimate(operator, operands, attrs, results)
        return Operand.of(results, depends)

    def _estimate(
        self, operator: operators.Operator, operands: Sequence[Operand], attrs: Mapping[str, Any], result: Value
    ) -> None:
        """Record the exact result of an operator on numbers that follow from sizes, ignoring rounding."""
        arrays = [o.data if o.data is not None else self._nearly.get(self.value(o)) for o in operands]
        if not any(a is not None and a.dtype == object for a in arrays) or not all(a is not None for a in arrays):
            return
        nearly = symbolic.fold(operator, cast(list[np.ndarray], arrays), operator.normalize(attrs), nearly=True)
        if isinstance(nearly, np.ndarray) and nearly.size <= _MOST_NUMBERS:
            self._nearly[result] = nearly

    def dims(self, operand: Operand, limit: Dim | None, bind: Callable[[Operand, Dim], SizeVar]) -> list[Dim] | None:
        """Return the elements of a vector that is computed at run time as dimensions, or None if they have no bound.

        Unknown elements become sizes with `bind(element [], most)`. `limit` is the bound for elements without another
        one.
        """
        if not isinstance(product(operand.shape), int) or not operand.dtype.is_int:
            return None
        computed = Computed(self._builder.nodes, self._builder.data)
        result: list[Dim] = []
        for element in computed.elements(self.value(operand)):
            if not isinstance(element, tuple):
                result.append(cast(Dim, element))
                continue
            if element not in self._sizes:
                value, place = element
                most = self._most(computed, value, place)
                most = limit if most is None else most
                if most is None:
                    return None
                flat = self._builder.op("reshape", value, newshape=(-1,))
                one = self._builder.op("strided_slice", flat, begin=(place,), end=(place + 1,), strides=(1,), axes=(0,))
                self._sizes[element] = bind(Operand.of(one, operand.depends), most)
            result.append(self._sizes[element])
        return result

    def elements(self, operand: Operand) -> list[Any]:
        """Return the known elements of a vector, as dimensions or floats, with None for those that are computed at run
        time.
        """
        found = Computed(self._builder.nodes, self._builder.data).elements(self.value(operand))
        return [None if isinstance(element, tuple) else element for element in found]

    def bound_by_data(self, dim: Dim) -> bool:
        """Return whether a dimension depends on a number that is computed at run time."""
        return isinstance(dim, Expr) and any(v in self._sizes.values() for v in free_vars(dim))

    def at_least(self, operand: Operand, least: int) -> bool:
        """Return whether the operators that compute an operand show that all of its elements are at least `least`."""
        return Computed(self._builder.nodes, self._builder.data).at_least(self.value(operand), least)

    def _most(self, computed: Computed, value: Value, place: int) -> Dim | None:
        if value not in self._nearly:
            return computed.most(value)
        number = self._nearly[value].reshape(-1)[place]
        quotient = symbolic.Quotient.of(number) if isinstance(number, symbolic.Quotient | Expr) else number
        if isinstance(quotient, symbolic.Quotient):
            return simple(quotient.above // quotient.below + 1)
        return int(quotient) + 1

    def _added(self, op: str, values: list[Value], attrs: Mapping[str, Any], name: str, where: str) -> Any:
        try:
            return self._builder.op(op, *values, name=name, **attrs)
        except InputError:
            fits = fitted(self._builder, op, values, attrs, where, self._under)
            if fits is None:
                raise
            return self._builder.op(op, *fits[0], name=name, **fits[1])

    def assume(self, operand: Operand, pairs: Sequence[tuple[Dim, Dim]], where: str) -> Operand:
        """Return the operand in a program that refuses runs in which the dimensions of a pair differ."""
        return Operand.of(self._cast(self.value(operand), list(pairs), where), operand.depends)

    def _cast(self, value: Value, pairs: Pairs, where: str) -> Value:
        return match_cast(self._builder, value, pairs, where, self._under)

    @contextmanager
    def branch(self, condition: Expr) -> Iterator[None]:
        """Within this scope, operators belong to a branch that a run takes if a condition on sizes holds.

        The branch is computed in every run. Its assumptions about equal dimensions are checked only if the condition
        holds.
        """
        around = self._under
        self._under = condition if around is None else And(around, condition)
        try:
            with self.forgetting():
                yield
        finally:
            self._under = around

    def selected(self, flag: Operand, condition: Expr, a: Operand, b: Operand, name: str, where: str) -> Operand:
        """Return a if a condition on sizes holds, and b otherwise. They may differ in shape, but not in rank.

        `flag` is the condition as data []. If a size differs, the result has the size of the selected operand.
        """
        shape = tuple(_one_of(condition, d, e) for d, e in zip(a.shape, b.shape, strict=True))
        values = [
            Operand.of(resized(self._builder, self.value(x), shape), x.depends)
            if not _same_shape(x.shape, shape)
            else x
            for x in (a, b)
        ]
        selected: Operand = self.op("where", [flag, *values], {}, name, where)
        return selected

    def reshape(self, operand: Operand, shape: Sequence[Dim], name: str, where: str) -> Operand:
        """Return the operand in another shape. One extent may be -1, but 0 does not copy an extent."""
        target = tuple(shape)
        if -1 in (d for d in target if isinstance(d, int)) and any(is_zero(d) for d in target):
            raise ModelError(f"{where}: any extent fits -1 beside the 0 of the shape {list(map(str, target))}")
        total, filled = product(operand.shape), with_inferred(operand.shape, target)
        if operand.is_known or exact(operand.shape, target) or differ(total, product(filled)):
            attrs = {"newshape": target if operand.is_known else filled, "allowzero": True}
            return cast(Operand, self.op("reshape", [operand], attrs, name, where))
        value = self._dividing(self.value(operand), operand.shape, filled, where)
        plan = fitted_shape(operand.shape, target)
        back = fitted_shape(filled, operand.shape) if plan is None else None
        if back is not None:
            # Of the result, dimensions are written as products of those of the operand.
            shape = tuple(next((b for a, b in back[0] if isinstance(d, Expr) and same(a, d)), d) for d in filled)
            split = self._builder.op("reshape", value, name=name, newshape=shape, allowzero=True)
            pairs: Pairs = [(b, a) for a, b in back[0]]
            return Operand.of(self._cast(split, pairs, where), operand.depends)
        if plan is None:
            # As one dimension: the number of elements itself is taken for that of the result.
            flat = self._builder.op("reshape", value, newshape=(total,), allowzero=True)
            value, target = self._cast(flat, [(total, product(filled))], where), filled
        else:
            value, target = self._cast(value, plan[0], where), plan[1]
        result = self._builder.op("reshape", value, name=name, newshape=target, allowzero=True)
        return Operand.of(result, operand.depends)

    def _dividing(self, value: Value, shape: Sequence[Dim], filled: Sequence[Dim], where: str) -> Value:
        """Return the value in a program that refuses runs in which an inferred extent divides by 0."""
        own = [b for d in shape for b in divisors(d)]
        new = [b for d in filled for b in divisors(d) if not any(structural_equal(b, other) for other in own)]
        pairs: Pairs = [(GT(b, const(0, b.dtype)), 1) for b in new if may_exceed(1, b)]
        return match_cast(self._builder, value, pairs, where, self._under)

    def declared(self, operand: Operand, shape: Sequence[Dim], where: str) -> Operand:
        """Return the operand with the shape that the model declares for it. Dimensions that may differ are checked at
        run time.
        """
        pairs: list[tuple[Dim, Dim]] = [
            (own, new) for own, new in zip(operand.shape, shape, strict=True)
            if isinstance(own, Expr) and not same(own, new)
        ]  # fmt: skip
        if not pairs or operand.value is None:
            return operand
        return Operand.of(self._cast(operand.value, pairs, where), operand.depends)

    def required(self, operand: Operand, conditions: Sequence[Expr], where: str) -> Operand:
        """Return the operand under conditions on dimensions (of type bool), which are checked at run time.

        Memory is safe only if they hold, so they are also checked in branches that are not taken.
        """
        pairs: list[tuple[Dim, Dim]] = [(condition, 1) for condition in conditions]
        return Operand.of(match_cast(self._builder, self.value(operand), pairs, where), operand.depends)

    def _in_float32(self, op: str, operands: Sequence[Operand], attrs: Mapping[str, Any], name: str, where: str) -> Any:
        """Compute an operator that sums half floats in float32, because long sums need more bits than the operands
        have.
        """
        half = next(str(o.dtype) for o in operands if o.dtype.is_half)
        wide = [self.op("cast", [o], {"dtype": "float32"}, name) if o.dtype.is_half else o for o in operands]
        computed = self.op(op, wide, attrs, name, where)
        results = computed if isinstance(computed, tuple) else (computed,)
        rounded = [self.op("cast", [r], {"dtype": half}, name) if r.dtype == "float32" else r for r in results]
        return tuple(rounded) if isinstance(computed, tuple) else rounded[0]

    def value(self, operand: Operand, name: str | None = None) -> Value:
        """Return the operand as a value of the graph. A constant is added to the graph on first use."""
        if operand.value is None:
            if operand.data is None:
                raise UnsupportedOperator(
                    f"{operand} is wanted as a tensor{' ' + name if name else ''}: a sequence is supported only "
                    "between operators that take it apart, with a number of elements that is known while importing"
                )
            if operand.is_symbolic:
                operand.value = self._computed(operand, name)
                self._computed_here.append(operand)
                return operand.value
            operand.value = self._builder.constant(operand.data, name)
        return operand.value

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Within this scope, remove all added operators again if it ends with an error."""
        length = self._builder.length
        try:
            with self.forgetting(only_after_errors=True):
                yield
        except BaseException:
            self._builder.undo(length)
            raise

    @contextmanager
    def forgetting(self, only_after_errors: bool = False) -> Iterator[None]:
        """After this scope, symbolic numbers that were computed in it are computed again when needed."""
        first, done = len(self._computed_here), False
        sizes = dict(self._sizes)
        try:
            yield
            done = True
        finally:
            if not (done and only_after_errors):
                self._sizes = sizes
                for operand in self._computed_here[first:]:
                    operand.value = None
                del self._computed_here[first:]

    def loop(
        self,
        body: Body,
        carried: Sequence[Operand],
        limit: Operand | None,
        going: Operand | None,
        most: Dim | None,
        where: str,
        name: str = "loop",
        growing: Callable[[], Dim] | None = None,
        longest: Dim | None = None,
    ) -> list[Operand]:
        """Add a loop. Return its number of iterations, its carried values, and the rows of all iterations
        (`GraphBuilder.loop`).

        If `growing` is given, the extents of carried values may change (`frontends.common.growing`): it returns a bound
        on the number of iterations, and `longest` is a bound for extents without another one. `body` may be called
        several times. Raises `UnsupportedOperator` for a carried value whose type an iteration changes in another way.
        """
        writer = LoopWriter(self, self._builder, body, carried, limit, going, most, where, name)
        return writer.write(growing, longest)

    def _computed(self, operand: Operand, name: str | None) -> Value:
        """Return symbolic numbers as data, which is computed at run time from the sizes of the inputs."""
        elements = np.asarray(operand.data).reshape(-1).tolist()
        if len(elements) > _MOST_NUMBERS:
            raise UnsupportedOperator(f"{len(elements)} symbolic numbers are used as data\n  try:    shapes={{...}}")
        if operand.dtype.is_float:
            return self._computed_floats(operand, elements, name)
        integers = [as_expr(e).astype("int64") if isinstance(e, Expr) and e.dtype.is_bool else e for e in elements]
        whole = "int64" if operand.dtype.is_bool else str(operand.dtype)
        result: Value = self._builder.op(
            "shape_to_tensor", name=name, values=tuple(integers), shape=operand.shape, dtype=whole
        )
        if operand.dtype.is_bool:
            result = self._builder.op("cast", result, name=name, dtype="bool")
        return result

    def _computed_floats(self, operand: Operand, elements: Sequence[Any], name: str | None) -> Value:
        """Return quotients of sizes as data. Numbers that are not quotients of small integers stay as they are."""
        with suppress(symbolic.Inexact):
            return self._computed_quotients(operand, [symbolic.Quotient.of(e) for e in elements], name)
        shape = np.asarray(operand.data).shape
        plain = [not isinstance(e, Expr | symbolic.Quotient) for e in elements]
        numbers = [e if is_plain else 0.0 for e, is_plain in zip(elements, plain, strict=True)]
        rest = [symbolic.Quotient.of(0 if is_plain else e) for e, is_plain in zip(elements, plain, strict=True)]
        mask = self.value(_known(np.array(plain).reshape(shape), DType("bool")))
        constants = self.value(_known(np.array(numbers).reshape(shape), operand.dtype))
        return cast(
            Value, self._builder.op("where", mask, constants, self._computed_quotients(operand, rest, None), name=name)
        )

    def _computed_quotients(self, operand: Operand, elements: Sequence[Any], name: str | None) -> Value:
        data = np.asarray(operand.data)

        def column(numbers: Sequence[Dim]) -> Any:
            table = np.array([*numbers, None], object)[:-1].reshape(data.shape)
            whole = self.value(_known(table, DType("int64")))
            return self._builder.op("cast", whole, name=name, dtype=str(operand.dtype))

        above = column([e.above for e in elements])
        if all(isinstance(e.below, int) and e.below == 1 for e in elements):
            return cast(Value, above)
        return cast(Value, self._builder.op("divide", above, column([e.below for e in elements]), name=name))


def _same_shape(a: Sequence[Dim], b: Sequence[Dim]) -> bool:
    return all(same(d, e) for d, e in zip(a, b, strict=True))


def _one_of(condition: Expr, a: Dim, b: Dim) -> Dim:
    """Return a if the condition holds, and b otherwise, simplified: `select(h < 16, 16, min(h, 16))` is 16."""
    if same(a, b):
        return a
    sides = []
    for side, known in ((a, condition), (b, Not(condition))):
        analyzer = Analyzer()
        with analyzer.constraint(known):
            sides.append(simple(analyzer.simplify(as_expr(side))))
    left, right = sides
    return left if same(left, right) else simple(te.select(condition, *match(as_expr(left), as_expr(right))))


def _fold(operator: operators.Operator, operands: Sequence[Operand], attrs: dict[str, Any]) -> Any:
    if _has_symbol(tuple(attrs.values())):
        return None
    arrays = [o.data for o in operands if o.data is not None]
    operand_types = [(o.shape, o.dtype) for o in operands]
    if any(o.is_symbolic for o in operands):
        results = symbolic.fold(operator, arrays, attrs)
        if results is None or _grows(results, operands):
            return None
        types = operator.output_types(operand_types, attrs)
    elif operator.fold is None or operator.sought:
        return None
    else:
        types = operator.output_types(operand_types, attrs)
        for shape, dtype in types:
            elements = product(shape)
            if isinstance(elements, int):
                require_memory(operator.name, f"{dtype}{list(shape)}", elements * dtype.bytes)
        try:
            with np.errstate(all="ignore"):
                results = operator.fold(*arrays, **attrs)
        except ValueError:  # NumPy has no value for it, such as a maximum of nothing; the operator has
            return None
        if results is None:
            return None
    listed = list(results) if isinstance(results, list | tuple) else [results]
    folded = tuple(_known(np.asarray(r), dtype) for r, (_, dtype) in zip(listed, types, strict=True))
    return folded[0] if len(folded) == 1 else folded


def _grows(results: Any, operands: Sequence[Operand]) -> bool:
    """Return whether an operator makes many symbolic numbers from a few. Computing these at run time needs less
    code.
    """
    few = max(o.data.size for o in operands if o.is_symbolic and o.data is not None)
    return isinstance(results, np.ndarray) and results.size > max(few, _MOST_NUMBERS)


def _has_symbol(value: Any) -> bool:
    return isinstance(value, Expr) or (isinstance(value, tuple) and any(map(_has_symbol, value)))


def _known(array: np.ndarray, dtype: DType) -> Operand:
    if array.dtype != object:
        return Operand.known(array.astype(dtype.numpy, copy=False))
    if not any(isinstance(d, Expr | symbolic.Quotient) for d in array.reshape(-1).tolist()):
        return Operand.known(array.astype(dtype.numpy))
    return Operand.known(array, dtype)

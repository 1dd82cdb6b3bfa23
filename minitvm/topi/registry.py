"""The operators of graphs. Each has one registration, from which all other facts about the operator follow.

    @register("nn.leaky_relu", pattern=Pattern.ELEMENTWISE, onnx=Onnx("LeakyRelu", {"alpha": "alpha"}),
              aten=Aten("leaky_relu", {"alpha": "negative_slope"}))
    def leaky_relu(x, *, alpha=0.01):
        "`x` where positive, else `alpha * x`."
        return te.compute(x.shape, lambda *i: te.select(x[i] > 0.0, x[i], x[i] * alpha))

The function *is* the declaration. Its positional parameters are the operator's inputs (a parameter with the default
None is optional, `*args` takes any number of inputs). Its keyword-only parameters are the attributes with their
defaults. Its result is the output tensor, or tensors, as te. The types of the outputs are the types of this result,
unless `infer` is given. `fold` computes the same in NumPy, for constant folding; arithmetic on shapes needs a `fold`.
With `view=True` the result is the input's memory in another shape, which costs nothing. `onnx` and `aten` name the
operator of ONNX and of PyTorch with the same meaning; the frontends read and write it with these declarations, and need
no code for it. You may register an operator in any module, also outside of this package; importing the module is
enough.

The names are those of TVM's Relay.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Literal, NoReturn, TypeVar

import numpy as np

from ..backend import own
from ..errors import InputError, MinitvmError, UnsupportedOperator, nearest
from ..expr import DType, Expr, IntImm, as_expr
from ..te.nodes import PlaceholderOp, Tensor
from .shapes import Dim, assuming, is_assuming, simple
from .spelling import Aten, Onnx

TensorType = tuple[tuple[Dim, ...], DType]
Compute = Callable[..., Any]
Function = TypeVar("Function", bound=Compute)


class Pattern(IntEnum):
    """The fusion class of an operator. These are TVM's classes, with TVM's numbers."""

    ELEMENTWISE = 0  # element i of the output from element i of each input
    BROADCAST = 1  # ... an axis of an input may be missing or 1
    INJECTIVE = 2  # each output element from one element of an input, somewhere
    COMM_REDUCE = 3  # a commutative reduction
    COMPLEX_OUT_FUSABLE = 4  # conv2d, dense: element-wise maps of its output may join it
    TUPLE = 7
    OPAQUE = 8  # never fused


MAPS = (Pattern.ELEMENTWISE, Pattern.BROADCAST)
_AXES = frozenset({"axis", "shape"})  # attributes that refer to the axes of the data


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED = _Required()


@dataclass(frozen=True, slots=True)
class Operator:
    """The declaration of an operator: its te function `compute`, and the facts that were passed to `register`.

    `arity` is the pair (least, most) of input counts; `most` is None if there is no upper limit. `attrs` maps each
    attribute to its default, or to `REQUIRED`.
    """

    name: str
    compute: Compute
    pattern: Pattern
    arity: tuple[int, int | None]
    input_names: tuple[str, ...]
    attrs: Mapping[str, Any]
    fold: Callable[..., Any] | None
    infer: Callable[..., Any] | None
    fold_types: Callable[..., Any] | None
    view: bool = False
    absorbs: frozenset[str] = frozenset()
    updates: bool = False
    sought: bool = False
    onnx: Onnx | None = None
    aten: Aten | None = None

    @property
    def doc(self) -> str:
        """The docstring of the operator's te function."""
        return inspect.getdoc(self.compute) or ""

    @property
    def is_map(self) -> bool:
        """Return whether the operator works element by element, independent of positions, in any layout."""
        return self.pattern in MAPS and not _AXES & self.attrs.keys()

    @property
    def is_reduction(self) -> bool:
        """Return whether the operator only reduces axes, and has no attributes except `axis` and `keepdims`."""
        return self.pattern is Pattern.COMM_REDUCE and self.attrs.keys() == {"axis", "keepdims"}

    def normalize(self, attrs: Mapping[str, Any]) -> dict[str, Any]:
        """Return all attributes in declared order, with defaults filled in.

        Raises `InputError` for an unknown or missing attribute.
        """
        for key in attrs:
            if key not in self.attrs:
                raise InputError(f"{self.name} has no attribute {key}; {nearest(key, list(self.attrs))}")
        complete = {key: _plain(attrs.get(key, default)) for key, default in self.attrs.items()}
        missing = [key for key, value in complete.items() if value is REQUIRED]
        if missing:
            raise InputError(f"{self.name} needs the attribute {', '.join(missing)}")
        return complete

    def check_arity(self, count: int) -> None:
        """Raise `InputError` unless the operator accepts `count` inputs."""
        least, most = self.arity
        if count < least or (most is not None and count > most):
            counts = str(least) if least == most else f"{least} or more" if most is None else f"{least} to {most}"
            raise InputError(f"{self.name}: wanted {counts} inputs, found {count}")

    def to_te(self, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> list[Tensor]:
        """Return the outputs as tensor expressions over `inputs`. `attrs` must be normalized."""
        outputs = self.compute(*inputs, **attrs)
        return list(outputs) if isinstance(outputs, list | tuple) else [outputs]

    def output_types(self, inputs: Sequence[TensorType], attrs: Mapping[str, Any]) -> list[TensorType]:
        """Return the shape and dtype of each output, given the types of the inputs. Errors name the operator.

        Results are cached, because a network contains the same operators many times, and each pass needs the types.
        Sizes are the same if they are the same node. Where relations between sizes are assumed (`assuming`), a result
        for symbolic sizes is computed anew, because it lists these relations.
        """
        static = self._question(inputs, attrs)
        key = static or (None if is_assuming() else self._question(inputs, attrs, symbolic=True))
        if key is None:
            return self._output_types(inputs, attrs)

        def types() -> list[TensorType]:
            computed = self._output_types(inputs, attrs)
            if static is not None:
                _require_arrays(self.name, computed)
            return computed

        return list(_cached(_TYPES, key, types, inputs, attrs))

    def relations(self, inputs: Sequence[TensorType], attrs: Mapping[str, Any]) -> list[tuple[Dim, Dim]]:
        """Return the relations that must hold between symbolic sizes of inputs and attributes.

        They are pairs, as listed by `topi.shapes.assuming`. Relations between known sizes are left out, because
        `output_types` checks them.
        """
        if self._question(inputs, attrs) is not None:
            return []

        def pairs() -> list[tuple[Dim, Dim]]:
            with assuming() as assumed:
                self.to_te([_placeholder(k, t) for k, t in enumerate(inputs)], attrs)
            return assumed

        key = self._question(inputs, attrs, symbolic=True)
        return pairs() if key is None else list(_cached(_RELATIONS, key, pairs, inputs, attrs))

    def _question(
        self, inputs: Sequence[TensorType], attrs: Mapping[str, Any], *, symbolic: bool = False
    ) -> Hashable | None:
        """Return the cache key for the result of `output_types`, or None for arguments with arrays, or with sizes that
        are not constant. With `symbolic`, such sizes are allowed.
        """
        try:
            shapes = tuple((_remembered(shape, symbolic), str(dtype)) for shape, dtype in inputs)
            return self.compute, self.infer, shapes, _remembered(dict(attrs), symbolic)
        except TypeError:
            return None

    def _output_types(self, inputs: Sequence[TensorType], attrs: Mapping[str, Any]) -> list[TensorType]:
        self.check_arity(len(inputs))
        try:
            if self.infer is not None:
                types_of_outputs = self.infer(*inputs, **attrs)
                return [(tuple(map(simple, shape)), DType(dtype)) for shape, dtype in types_of_outputs]
            outputs = self.to_te([_placeholder(k, t) for k, t in enumerate(inputs)], attrs)
        except UnsupportedOperator:
            raise
        except MinitvmError as error:
            types = ", ".join(f"{dtype}[{', '.join(map(str, shape))}]" for shape, dtype in inputs)
            raise InputError(f"{self.name}({types}): {error}") from error
        return [(tuple(simple(d) for d in t.shape), t.dtype) for t in outputs]


OPERATORS: dict[str, Operator] = {}

Language = Literal["onnx", "aten"]
_NAMED: dict[tuple[Language, str], list[str]] = {}  # our names for a name elsewhere; the last one counts

# Answers by question, each with the arguments of the question: keys contain the `id` of symbolic sizes.
_TYPES: dict[Hashable, tuple[list[TensorType], Any]] = {}
_RELATIONS: dict[Hashable, tuple[list[tuple[Dim, Dim]], Any]] = {}
_REMEMBERED = 4096


def _cached(answers: dict[Hashable, tuple[list[Any], Any]], key: Hashable, answer: Callable[[], list[Any]],
            inputs: Sequence[TensorType], attrs: Mapping[str, Any]) -> list[Any]:  # fmt: skip
    """Return the answer to a question, which is computed the first time."""
    if key not in answers:
        computed = answer()
        if len(answers) >= _REMEMBERED:
            answers.clear()
        answers[key] = computed, (tuple(inputs), dict(attrs))
    return answers[key][0]


def _require_arrays(name: str, types: Sequence[TensorType]) -> None:
    """Raise `InputError` for a known shape that is too large for any array. Extents of 0 count as 1, as in NumPy."""
    for shape, dtype in types:
        extents = [max(dim, 1) for dim in shape if isinstance(dim, int)]
        if math.prod(extents) * dtype.bytes >= 1 << 63:
            raise InputError(f"{name}: the result {dtype}{list(shape)} is larger than any array")


def _remembered(value: Any, symbolic: bool = False) -> Hashable:
    """Return a hashable key for plain data. Values of different types, such as 1 and 1.0, have different keys. With
    `symbolic`, the key of an expression is its identity. Raises `TypeError` for anything else.
    """
    if isinstance(value, dict):
        return tuple((name, _remembered(item, symbolic)) for name, item in value.items())
    if isinstance(value, tuple | list):
        return type(value), tuple(_remembered(item, symbolic) for item in value)
    if symbolic and isinstance(value, Expr):
        return Expr, id(value)
    if value is None or isinstance(value, bool | int | float | str):
        return type(value), repr(value)
    raise TypeError(value)


# Operators that are refused on purpose, each with the reason.
REFUSED: dict[str, str] = {}


def register(
    name: str,
    *,
    pattern: Pattern = Pattern.OPAQUE,
    fold: Callable[..., Any] | None = None,
    infer: Callable[..., Any] | None = None,
    fold_types: Callable[..., Any] | None = None,
    view: bool = False,
    absorbs: Iterable[str] = (),
    updates: bool = False,
    sought: bool = False,
    onnx: Onnx | str | None = None,
    aten: Aten | str | None = None,
    override: bool = False,
) -> Callable[[Function], Function]:
    """Return a decorator that registers a te function as the operator `name`. See the docstring of this module.

    `fold(*arrays, **attrs)` returns the output array (or a tuple of them). `infer(*types, **attrs)` returns a list of
    (shape, dtype). `fold_types(*types, **attrs)` is for an operator such as `shape_of`, whose output depends only on
    types. It returns this output as an array, which contains expressions (dtype object) if dimensions are symbolic. A
    `fold` should accept such arrays if it can, so that frontends can do arithmetic on symbolic shapes.

    `view` is for an operator with one input whose output has the same bytes in the same order. The output shares its
    input's memory, and the operator joins other views if the dtype is the same, too. `absorbs` lists changes of layout
    that fusion may add at the end of this operator's group, because its schedule can store the result in that layout
    while it is in the cache. Nothing is fused after them, unless they are complex-out-fusable. `updates` is for an
    operator whose output is the first input with some elements replaced, and whose te function is a loop program
    (`te.extern_primfunc`) that begins by copying this input and reads it nowhere else. Such an operator can work in
    place. `sought` is for an operator with constant inputs (stored weights) that passes look for. Importers do not fold
    it; if no pass has used it, it is folded afterwards. `onnx` and `aten` are the operator's names in ONNX and ATen, or
    the objects of `spelling`.

    Raises `InputError` if the name is taken, unless `override` is set.
    """

    def decorate(compute: Function) -> Function:
        if name in OPERATORS and not override:
            raise InputError(f"operator {name} is registered already\n  try:    register(..., override=True)")
        arity, names, attrs = _signature(compute)
        OPERATORS[name] = Operator(
            name,
            compute,
            pattern,
            arity,
            names,
            attrs,
            fold,
            infer,
            fold_types,
            view,
            frozenset(absorbs),
            updates,
            sought,
            Onnx(onnx) if isinstance(onnx, str) else onnx,
            Aten(aten) if isinstance(aten, str) else aten,
        )
        for elsewhere in _names_elsewhere(OPERATORS[name]):
            _NAMED.setdefault(elsewhere, []).append(name)
        return compute

    return decorate


def refuse(name: str, reason: str) -> None:
    """Register `name` as a known but unsupported operator."""
    REFUSED[name] = reason


def _types_of_group(*inputs: TensorType, graph: Any, **_: Any) -> list[TensorType]:  # noqa: ARG001
    return [(value.shape, value.dtype) for value in graph.outputs]


def _group(*inputs: Any, graph: Any, **about: Any) -> NoReturn:  # noqa: ARG001
    raise UnsupportedOperator("a fused group is no operator: its inner graph has the formulas")


# A fused group (`graph.nodes`), which passes meet only if an engine computes it. OPERATORS does not list it, because no
# model contains it.
_GROUP = Operator(
    "fused", _group, Pattern.OPAQUE, (0, None), ("*inputs",),
    {
        "graph": REQUIRED, "engine": "", "names": (), "weights": (), "workspace": 0, "room": 0, "code": "",
        "structure": "", "seconds": (),
    },
    None, _types_of_group, None,
)  # fmt: skip


def get(name: str) -> Operator:
    """Return the operator `name`. Raises `UnsupportedOperator` if there is none."""
    if name == _GROUP.name:
        return _GROUP
    if name not in OPERATORS:
        _of_machines()
    if name in OPERATORS:
        return OPERATORS[name]
    if name in REFUSED:
        raise UnsupportedOperator(f"operator {name} is not supported: {REFUSED[name]}")
    raise UnsupportedOperator(f"operator {name} is not registered; {nearest(name, list(OPERATORS))}")


def named(language: Language, name: str) -> Operator | None:
    """Return the operator that `language` (ONNX or ATen) calls `name`, for example "hardswish.default"; None if there
    is none.
    """
    for ours in reversed(_NAMED.get((language, name), [])):
        if ours in OPERATORS and (language, name) in _names_elsewhere(OPERATORS[ours]):
            return OPERATORS[ours]
    return None


def all_named(language: Language) -> dict[str, Operator]:
    """Return the operators that have a name in ONNX or ATen, keyed by that name."""
    pairs = [(pair, operator) for operator in OPERATORS.values() for pair in _names_elsewhere(operator)]
    return {name: operator for (of, name), operator in pairs if of == language}


def _names_elsewhere(operator: Operator) -> list[tuple[Language, str]]:
    onnx: list[tuple[Language, str]] = [("onnx", operator.onnx.name)] if operator.onnx else []
    return [*onnx, *(("aten", name) for name in operator.aten.full_names)] if operator.aten else onnx


def names() -> list[str]:
    """Return the names of all operators, sorted."""
    _of_machines()
    return sorted(OPERATORS)


@functools.cache
def _of_machines() -> None:
    """Register the operators that the back ends of machines define."""
    for backend in own():
        backend.part("operators")


def _signature(compute: Compute) -> tuple[tuple[int, int | None], tuple[str, ...], dict[str, Any]]:
    least, most = 0, 0
    unlimited = False
    input_names: list[str] = []
    attrs: dict[str, Any] = {}
    for parameter in inspect.signature(compute).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY:
            attrs[parameter.name] = REQUIRED if parameter.default is parameter.empty else _plain(parameter.default)
        elif parameter.kind is parameter.VAR_POSITIONAL:
            unlimited = True
            input_names.append("*" + parameter.name)
        elif parameter.kind is not parameter.VAR_KEYWORD:
            most += 1
            least += parameter.default is parameter.empty
            input_names.append(parameter.name)
    return (least, None if unlimited else most), tuple(input_names), attrs


def _plain(value: Any) -> Any:
    """Return an attribute in normal form: tuples for lists and arrays, Python scalars for NumPy's, ints for IntImms."""
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return tuple(_plain(item) for item in value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, IntImm):
        return value.value
    return value


def _placeholder(number: int, kind: TensorType) -> Tensor:
    shape = tuple(as_expr(d) for d in kind[0])
    return Tensor(PlaceholderOp(f"x{number}", shape, kind[1]), shape, kind[1])

"""The walk over the expressions of a kernel, which all languages share.

`index` writes integer arithmetic over indices, in the one type that all indices of a kernel have; `value` writes any
other expression, in exactly its dtype. Both first rewrite operations that the language lacks (`decompose`), and then
call the method for the kind of node. A dialect must spell the abstract methods. The other methods fit all languages; a
dialect overrides one if its language has a better form.

Each operation is written in parentheses, so that precedence does not matter. Sums and products of indices are long, so
they leave out the parentheses that no language needs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from .. import expr as ex
from ..arith import Analyzer
from ..errors import InternalError, Unsupported
from ..expr.conditions import is_const
from ..target import Target
from ..tir import nodes as tir
from ..tir.analysis.registers import Register, slot
from . import decompose
from .spelling import BITS, COMPARISONS, Names, Syntax, atom, is_index, keeps_value

_INDEX_CALLS = {**BITS, "shift_right": ">>"}  # the last one comes from `index_rules`


def first_lanes_of(x: ex.Expr) -> tuple[ex.Expr, ex.Expr] | None:
    """Return (n, base) of the mask `ramp(base) < broadcast(n)`, which selects the first `n - base` lanes.

    Returns None for any other expression.
    """
    if not (isinstance(x, ex.LT) and isinstance(x.a, ex.Ramp) and isinstance(x.b, ex.Broadcast)):
        return None
    indices = is_index(x.a.base) and is_index(x.b.value)
    return (x.b.value, x.a.base) if is_const(x.a.stride, 1) and indices else None


class Expressions(ABC):
    """Writes expressions as source text. `Emitter` adds statements, and a dialect adds the spelling of a language."""

    syntax: ClassVar[Syntax]
    language = ""  # for people, the kind of the result: "a CPU kernel"
    index_dtype = ex.DType("int64")  # the dtype of complete indices
    lacks: Sequence[decompose.Decomposition] = (decompose.FIXED_POINT, decompose.TFLOAT32, decompose.HINTS)
    index_rules: Sequence[decompose.Decomposition] = ()  # the rules for operations on indices
    functions: Mapping[str, str] = {}  # the names of intrinsics

    def __init__(self, kernel: tir.PrimFunc, target: Target | None, reserved: Iterable[str]) -> None:
        self.kernel = kernel
        self.target = target
        self.names = Names(reserved)
        self.registers: dict[tir.Buffer, dict[Register, str]] = {}
        self.analyzer = Analyzer()  # ranges of variables in scope: they choose cheap divisions
        self.wide: set[ex.Var] = set()  # integer variables that are kept in the type of indices
        self.lets: dict[ex.Var, ex.Expr] = {}  # indices that have names, written out
        self.spellers: dict[type, Callable[[Any], str]] = {
            ex.IntImm: self.constant, ex.FloatImm: self.constant, ex.Var: self.variable, tir.BufferLoad: self.load,
            ex.Cast: self.cast, ex.CompareOp: self.compare, ex.And: self.logical, ex.Or: self.logical,
            ex.Not: self.negation, ex.BinaryOp: self.binary, ex.Select: self.select, ex.Call: self.call,
            ex.Ramp: self.ramp, ex.Broadcast: self.broadcast, ex.Shuffle: self.shuffle, ex.Let: self.inner_let,
        }  # fmt: skip

    # -- indices

    def index(self, x: ex.Expr) -> str:
        """Return the text of a scalar index."""
        if isinstance(x, ex.IntImm):
            return self.index_constant(x.value)
        if isinstance(x, ex.Var) and x in self.wide:
            return self.names[x]
        if isinstance(x, ex.Cast) and is_index(x) and keeps_value(x, self.analyzer):
            return self.index(x.value)
        if not is_index(x) or isinstance(x, ex.Var | ex.Cast):
            return self.to_index(self.value(x))
        x = decompose.decomposed(x, self.index_rules, self.analyzer)
        if isinstance(x, ex.Add | ex.Sub):
            right = self.index_term(x.b)
            return f"{self.index(x.a)} {'+' if isinstance(x, ex.Add) else '-'} {right}"
        if isinstance(x, ex.Mul):
            return f"{atom(self.index(x.a))} * {atom(self.index(x.b))}"
        if isinstance(x, ex.Call):
            return f"({f' {_INDEX_CALLS[x.op]} '.join(atom(self.index(a)) for a in x.args)})"
        return self.index_extreme(x) if isinstance(x, ex.Min | ex.Max) else self.index_division(x)

    def index_term(self, x: ex.Expr) -> str:
        """Return the text of an index that follows a plus or minus sign."""
        return f"({self.index(x)})" if isinstance(x, ex.Add | ex.Sub) else self.index(x)

    def index_constant(self, number: int) -> str:
        return str(number)

    def contiguous(self, x: ex.Expr) -> str | None:
        """Return the start of a vector index with stride 1, or None for any other index."""
        return self.place(x.base) if isinstance(x, ex.Ramp) and is_const(x.stride, 1) else None

    def place(self, x: ex.Expr) -> str:
        """Return the text of the complete index of an element in memory."""
        return self.index(x)

    def notes_index(self, x: tir.LetStmt) -> bool:
        """Return whether a let defines an index; if so, record its range and value for later proofs."""
        if is_index(x.value):
            self.wide.add(x.var)
            self.analyzer.bind_value(x.var, x.value)
            self.lets[x.var] = ex.substitute(x.value, self.lets)
        return is_index(x.value)

    # -- values

    def value(self, x: ex.Expr) -> str:
        """Return the text of an expression, computed in exactly its dtype."""
        x = decompose.decomposed(x, self.lacks, self.analyzer)
        for kind in type(x).__mro__:
            if kind in self.spellers:
                return self.spellers[kind](x)
        raise self.lacking(x)

    def lacking(self, x: ex.Expr) -> Unsupported:
        """Return the error for an expression that the language cannot express."""
        return Unsupported(f"{type(x).__name__} in {self.language}: {x}")

    def variable(self, x: ex.Var) -> str:
        return self.from_index(self.names[x], x.dtype) if x in self.wide else self.names[x]

    def cast(self, x: ex.Cast) -> str:
        source, to = x.value.dtype, x.dtype
        if source == to:
            return self.value(x.value)
        if "handle" in (source.kind, to.kind):
            raise Unsupported(f"a cast of {source} to {to} in {self.language}")
        if is_index(x.value) and not isinstance(x.value, ex.IntImm):
            return self.converted(self.index(x.value), self.index_dtype, to)
        return self.converted(self.value(x.value), source, to)

    def compare(self, x: ex.CompareOp) -> str:
        if is_index(x.a) and is_index(x.b):
            return f"({self.index(x.a)} {COMPARISONS[type(x)]} {self.index(x.b)})"
        return self.prefix_mask(x) or self.comparison(x)

    def prefix_mask(self, x: ex.CompareOp) -> str | None:
        """Return a mask of the first lanes in the form of the language, or None for any other comparison."""
        first = first_lanes_of(x)
        return None if first is None else self.first_lanes(*first, x.dtype.lanes)

    def logical(self, x: ex.LogicalOp) -> str:
        symbol = self.syntax.logical[type(x)][x.dtype.lanes > 1]
        return f"({self.value(x.a)} {symbol} {self.value(x.b)})"

    def negation(self, x: ex.Not) -> str:
        return f"({self.syntax.negation[x.dtype.lanes > 1]}{atom(self.value(x.a))})"

    def binary(self, x: ex.BinaryOp) -> str:
        return self.contracted(x) or self.arithmetic(x)

    def contracted(self, x: ex.BinaryOp) -> str | None:
        """Return a sum and a product as one operation, or None if there is no such operation.

        It is either `c + a * b` of floats, rounded once, or `c` plus a product of words; also `a * b - c` and
        `c - a * b` of floats, where a factor of -1 is exact.
        """
        if isinstance(x, ex.Sub) and x.dtype.is_float and not x.dtype.is_half:
            minus_one = ex.const(-1.0, x.dtype.scalar)
            if isinstance(x.a, ex.Mul):
                return self.multiply_add(x.a.a, x.a.b, x.b * minus_one)
            return self.multiply_add(x.b.a * minus_one, x.b.b, x.a) if isinstance(x.b, ex.Mul) else None
        if not isinstance(x, ex.Add):
            return None
        for product, c in ((x.b, x.a), (x.a, x.b)):
            words = ex.factors_of_words(product)
            if words is not None and isinstance(product, ex.Call):
                return self.words_added(product.op, *words, c)
        # Sums of integers may be regrouped: (c + product) + d becomes (c + d) + product, one operation less.
        for total, d in ((x.a, x.b), (x.b, x.a)) if x.dtype.is_int else ():
            if isinstance(total, ex.Add) and isinstance(total.b, ex.Call):
                words = ex.factors_of_words(total.b)
                if words is not None:
                    return self.words_added(total.b.op, *words, ex.Add(total.a, d))
        product, c = (x.b, x.a) if isinstance(x.b, ex.Mul) else (x.a, x.b)
        if not isinstance(product, ex.Mul) or not x.dtype.is_float or x.dtype.is_half:
            return None
        return self.multiply_add(product.a, product.b, c)

    def select(self, x: ex.Select) -> str:
        return self.choice(x.condition, self.value(x.true_value), self.value(x.false_value), x.dtype)

    def choice(self, condition: ex.Expr, yes: str, no: str, dtype: ex.DType) -> str:
        """Return the text that selects one of two values.

        If the condition is a scalar, only the selected value is computed.
        """
        if condition.dtype.lanes == 1:
            return self.syntax.choice.format(condition=self.value(condition), yes=yes, no=no)
        return self.choice_of_lanes(condition, yes, no, dtype)

    def call(self, x: ex.Call) -> str:
        if x.op == "if_then_else":
            condition, yes, no = x.args
            return self.choice(condition, self.value(yes), self.value(no), x.dtype)
        return self.reinterpreted(x) if x.op == "reinterpret" else self.function(x, [self.value(a) for a in x.args])

    def function(self, x: ex.Call, args: list[str]) -> str:
        if x.op not in self.functions:
            raise Unsupported(f"the intrinsic {x.op} in {self.language}")
        return f"{self.functions[x.op]}({', '.join(args)})"

    def inner_let(self, _: ex.Let) -> str:
        raise InternalError("a let expression in a kernel: lowering should have removed it")

    # -- memory

    def load(self, x: tir.BufferLoad) -> str:
        buffer, index = x.buffer, x.indices[0]
        if index.dtype.lanes == 1 or buffer in self.registers:
            text = self.register(buffer, index) if buffer in self.registers else self.element(x)
            return text if x.predicate is None else self.choice(x.predicate, text, self.zero(x.dtype), x.dtype)
        base = self.contiguous(index)
        return self.gather(x) if base is None else self.neighbours(x, base)

    def register(self, buffer: tir.Buffer, index: ex.Expr) -> str:
        """Return the variable that holds the element of a buffer at a constant index."""
        at = slot(index)
        if at is None:
            raise InternalError(f"{buffer.name}[{index}] is not a constant slot")
        return self.registers[buffer][at]

    def scalar(self, buffer: tir.Buffer) -> ex.DType:
        """Return the dtype of a buffer's elements. Raises `Unsupported` for vectors."""
        if buffer.dtype.lanes > 1:
            raise Unsupported(f"buffer {buffer.name} of vector dtype {buffer.dtype} in {self.language}")
        return buffer.dtype

    # -- methods that each dialect implements

    @abstractmethod
    def to_index(self, text: str) -> str:
        """Return the text of an integer, converted to the type of indices."""

    @abstractmethod
    def from_index(self, name: str, dtype: ex.DType) -> str:
        """Return code that converts the variable `name`, which has the type of indices, to `dtype`."""

    @abstractmethod
    def index_extreme(self, x: ex.Min | ex.Max) -> str: ...
    @abstractmethod
    def index_division(self, x: Any) -> str: ...
    @abstractmethod
    def constant(self, x: ex.IntImm | ex.FloatImm) -> str: ...
    @abstractmethod
    def zero(self, dtype: ex.DType) -> str:
        """Return the source text of a zero, used for the masked-out lanes of a load."""

    @abstractmethod
    def converted(self, text: str, source: ex.DType, to: ex.DType) -> str: ...
    @abstractmethod
    def comparison(self, x: ex.CompareOp) -> str: ...
    @abstractmethod
    def arithmetic(self, x: ex.BinaryOp) -> str: ...
    @abstractmethod
    def reinterpreted(self, x: ex.Call) -> str: ...
    @abstractmethod
    def element(self, x: tir.BufferLoad) -> str: ...

    # -- vectors: a language without them refuses them

    def broadcast(self, x: ex.Broadcast) -> str:
        raise self.lacking(x)

    def ramp(self, x: ex.Ramp) -> str:
        raise self.lacking(x)

    def shuffle(self, x: ex.Shuffle) -> str:
        raise self.lacking(x)

    def choice_of_lanes(self, condition: ex.Expr, yes: str, no: str, dtype: ex.DType) -> str:  # noqa: ARG002
        raise self.lacking(condition)

    def neighbours(self, x: tir.BufferLoad, base: str) -> str:  # noqa: ARG002
        """Return the text of a load of consecutive elements from `base` on."""
        raise self.lacking(x)

    def gather(self, x: tir.BufferLoad) -> str:
        """Return the text of a load of elements at arbitrary indices."""
        raise self.lacking(x)

    # -- single operations that only some languages have: None if several operations replace them

    def first_lanes(self, limit: ex.Expr, base: ex.Expr, lanes: int) -> str | None:  # noqa: B027
        """Return the text of the mask that selects the first `limit - base` lanes, or None if the language has no such
        mask.
        """

    def multiply_add(self, a: ex.Expr, b: ex.Expr, c: ex.Expr) -> str | None:  # noqa: B027
        """Return the text of `a * b + c` on floats with a single rounding, or None if the language has no such
        operation.
        """

    def words_added(self, op: str, a: ex.Expr, b: ex.Expr, c: ex.Expr) -> str | None:  # noqa: B027
        """Return the text of c plus a product of words (`expr.factors_of_words`), or None if the language has no
        such operation.
        """

"""The descriptions that the functions of `T` return. The parser turns them into nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...expr import DType, Expr, Range, SizeVar, Var, as_expr, const
from ..nodes import Buffer as BufferNode
from ..nodes import ForKind


@dataclass(frozen=True, slots=True)
class BufferSpec:
    """The description that `T.Buffer((m, n), "float32", ...)` returns; the buffer has no name yet."""

    shape: tuple[Any, ...]
    fields: Mapping[str, Any]
    offset_factor: int = 0
    data: Any = None  # a `UnmatchedHandle`, or the buffer whose storage it is

    def named(self, name: str, own_offset: bool = False) -> BufferNode:
        """Create the buffer and call it `name`. With `own_offset`, a missing offset becomes a variable if the buffer
        has an offset factor.
        """
        more: dict[str, Any] = {}
        if own_offset and self.offset_factor and "elem_offset" not in self.fields:
            more["elem_offset"] = Var(f"{name}_elem_offset")
        return BufferNode(name, tuple(as_expr(d) for d in self.shape), **self.fields, **more)


@dataclass(frozen=True, slots=True)
class UnmatchedHandle:
    """A parameter `a: T.handle` that has not been matched to a buffer yet."""

    name: str


@dataclass(frozen=True, slots=True)
class ConstSpec:
    """The description that `T.allocate_const(...)` returns: a buffer and its values."""

    buffer: BufferSpec
    values: Any


@dataclass(frozen=True, slots=True)
class AllocSpec:
    """The description that `T.alloc_buffer(...)` returns: storage that the enclosing block allocates."""

    buffer: BufferSpec


@dataclass(frozen=True, slots=True)
class DeclSpec:
    """The description that `T.decl_buffer(...)` returns: storage for the following statements (kernel level)."""

    buffer: BufferSpec
    annotations: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class MatchSpec:
    """The description that `T.match_buffer(handle or region, shape, ...)` returns."""

    source: Any
    buffer: BufferSpec


@dataclass(frozen=True, slots=True)
class LoopSpec:
    """The description that `T.serial(...)`, `T.grid(...)` and the like return: one range for each loop variable."""

    ranges: tuple[Range, ...]
    kind: ForKind
    thread: str | None = None
    annotations: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""  # the variable's name, if `T.env_thread` gave one


@dataclass(frozen=True, slots=True)
class EnvThread:
    """The description that `T.env_thread("threadIdx.x")` returns: a thread axis, and the name of its variable."""

    axis: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class BlockSpec:
    """The description that `T.block("name")` returns: the statements inside the `with` are the body of this block."""

    name: str


@dataclass(frozen=True, slots=True)
class InitSpec:
    """The description that `T.init()` returns: the statements inside the `with` are the init of the enclosing block."""


@dataclass(frozen=True, slots=True)
class LetSpec:
    """The description that `T.LetStmt(value)` returns: a variable with this value, inside the `with`."""

    value: Expr
    var: Var | None = None


@dataclass(frozen=True, slots=True)
class AxisSpec:
    """The description of one iterator of a block. If `domain` is None, it is the range of the loop (`remap`)."""

    kind: str
    domain: Range | None
    value: Any


@dataclass(frozen=True, slots=True)
class HeaderSpec:
    """The description that `T.where`, `T.reads`, `T.writes`, `T.block_attr` or `T.func_attr` returns: a property of the
    enclosing block or function.
    """

    what: str
    value: Any


@dataclass(frozen=True, slots=True)
class CallSpec:
    """The description that `T.call_kernel(...)` returns."""

    kernel: str
    args: tuple[Any, ...]
    parallel: bool
    grid: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class InstructionSpec:
    """The description that `T.instruction("name", T.tile(...), ...)` returns."""

    name: str
    operands: tuple[Any, ...]
    together: int = 1


@dataclass(frozen=True, slots=True)
class AsyncSpec:
    """The description that `T.async_scope()` returns."""


@dataclass(frozen=True, slots=True)
class Meta:
    """The description that `T.meta_var(x)` returns: a Python value that gets a name but no statement."""

    value: Any


@dataclass(frozen=True, slots=True)
class TypeName:
    """`T.int32`: can be used as an annotation, a variable (`T.int32()`), a constant (`T.int32(3)`) or a conversion
    (`T.int32(x)`).
    """

    dtype: DType

    def __call__(self, value: Any = None, is_size_var: bool = False) -> Any:
        if value is None:
            return SizeVar("", self.dtype) if is_size_var else Var("", self.dtype)
        if isinstance(value, str):
            return const(float(value), self.dtype)
        if isinstance(value, Expr):
            return value.astype(self.dtype)
        return const(value, self.dtype)

    def __repr__(self) -> str:
        return f"T.{self.dtype}"


@dataclass(frozen=True, slots=True)
class HandleType(TypeName):
    """`T.handle`, `T.handle("float32")` or `T.Ptr[T.float32]`: the type of a parameter that is later matched to a
    buffer.
    """

    def __call__(self, *kind: Any, **more: Any) -> HandleType:  # noqa: ARG002 (TVMScript's words)
        return self

    def __getitem__(self, kind: Any) -> HandleType:
        return self

"""The nodes of loop programs and, after lowering, of kernels.

    module    ::= IRModule {name: func}
    func      ::= PrimFunc (params) attrs: stmt                params are buffers and scalar variables
    stmt      ::= For | While | If | Seq | BufferStore | LetStmt | Assert | Evaluate | Allocate
                | Instruction                                  what a machine does at once, with its meaning
                | Async                                        a copy that arrives later
                | Prefetch                                     a hint, after lowering
                | BlockRealize                                 gone after lowering
                | KernelCall                                   in a host function, after lowering
    realize   ::= BlockRealize iter_values where predicate: Block
    block     ::= Block iter_vars reads writes alloc_buffers match_buffers annotations init: stmt
    load      ::= BufferLoad buffer [indices]                  an expression
    address   ::= BufferData buffer                            an argument of a foreign call

At kernel level there are no blocks and no match_buffers, buffers are flat (one dimension), indices may be `Ramp`s, and
`Allocate` opens the scope of a buffer. The meaning of a program is this: loops run as they are written. A block runs
once for every point of its loops at which its predicate holds, and runs its `init` first if all its reduction iterators
are at their start.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any, NoReturn

from .. import expr as ex
from ..errors import InputError, TypeMismatch, nearest
from ..expr import node


class ForKind(StrEnum):
    """How the iterations of a loop run.

    All kinds except SERIAL and UNROLLED promise that the iterations may run in any order.
    """

    SERIAL = "serial"
    PARALLEL = "parallel"
    VECTORIZED = "vectorized"
    UNROLLED = "unroll"
    THREAD = "thread_binding"


# Kinds of loops whose iterations run at the same time.
CONCURRENT = (ForKind.PARALLEL, ForKind.VECTORIZED, ForKind.THREAD)


@node
class Buffer(ex.Node):
    """A multi-dimensional array. Two buffers are the same only if they are the same object; `name` is only for readers.

    An empty `strides` means row-major order. `elem_offset` counts elements from the start of `data`. `scope` is the
    kind of memory: "global", "shared", "local" (the registers or stack of one thread), or a scope of an accelerator.
    `align` is the alignment of the first element in bytes.
    """

    name: str
    shape: tuple[ex.Expr, ...]
    dtype: ex.DType = ex.DType("float32")
    scope: str = "global"
    strides: tuple[ex.Expr, ...] = ()
    elem_offset: ex.Expr = ex.IntImm(0)
    align: int = 64
    device: str = "cpu"
    axis_separators: tuple[int, ...] = ()
    _children = ("shape", "strides", "elem_offset")
    _renamable = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", ex.DType(self.dtype))
        object.__setattr__(self, "shape", tuple(ex.as_expr(d) for d in self.shape))
        object.__setattr__(self, "strides", tuple(ex.as_expr(d) for d in self.strides))
        object.__setattr__(self, "elem_offset", ex.as_expr(self.elem_offset))

    __hash__ = object.__hash__

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __getitem__(self, indices: Any) -> BufferLoad:
        position = indices if isinstance(indices, tuple) else (indices,)
        return BufferLoad(self, tuple(ex.as_expr(i) for i in position))

    def __iter__(self) -> NoReturn:
        # Without this, Python would read A[0], A[1], ... without end, since no index is refused.
        raise TypeMismatch(f"a buffer cannot be iterated: {self.name}\n  try:    {self.name}[i] in a loop over i")

    @property
    def data(self) -> BufferData:
        """The address of the buffer's storage, to be passed to foreign calls."""
        return BufferData(self)

    def access_ptr(self, access_mask: str | int, ptr_type: str = "handle", content_lanes: int = 1, offset: Any = 0,
                   extent: Any = None) -> ex.Expr:  # fmt: skip
        """Return TVM's `tvm_access_ptr`: the address of the buffer, marked as read ("r"), written ("w") or both ("rw").

        `offset` counts elements from the start of the buffer. `extent` is the number of elements accessed, by default
        all after the offset. Raises `InputError` for any other mask.
        """
        from .pointers import access_ptr

        return access_ptr(self, access_mask, ex.DType(ptr_type), content_lanes, ex.as_expr(offset), extent)

    def full_region(self) -> BufferRegion:
        """Return the region that covers the whole buffer."""
        return BufferRegion(self, tuple(ex.Range(ex.const(0, d.dtype), d) for d in self.shape))

    def __repr__(self) -> str:
        return f"Buffer({self.name}: {self.dtype}[{', '.join(map(str, self.shape))}] in {self.scope})"


@node
class BufferLoad(ex.Expr):
    """`buffer[indices]`. If the last index is a `Ramp` (or another vector), this is a vector load, and `predicate`
    masks its lanes.
    """

    buffer: Buffer
    indices: tuple[ex.Expr, ...]
    predicate: ex.Expr | None = None
    dtype: ex.DType = field(init=False)
    _children = ("indices", "predicate")
    _accesses = "element"

    def __post_init__(self) -> None:
        _check_rank(self.buffer, self.indices)
        object.__setattr__(self, "dtype", _element_dtype(self.buffer, self.indices))

    def _format(self, printer: ex.ExprPrinter) -> str:
        return f"{self.buffer.name}[{', '.join(map(printer.expr, self.indices)) or '()'}]"


@node
class BufferData(ex.Expr):
    """`A.data`: the address of a buffer's storage, passed to code that the program does not describe.

    The enclosing block declares the regions that this code reads and writes.
    """

    buffer: Buffer
    dtype: ex.DType = ex.DType("handle")
    _accesses = "address"

    def _format(self, printer: ex.ExprPrinter) -> str:  # noqa: ARG002 (a node's method)
        return f"{self.buffer.name}.data"


@node
class BufferRegion(ex.Node):
    """A box of elements in a buffer, with one range for each dimension."""

    buffer: Buffer
    region: tuple[ex.Range, ...]
    _children = ("region",)


class Stmt(ex.Node):
    """The base class of statements."""

    __slots__ = ()

    def __repr__(self) -> str:
        from .script.printer import script

        return script(self)


@node
class BufferStore(Stmt):
    """`buffer[indices] = value`. If the last index is a vector, this is a vector store, and `predicate` masks its
    lanes.
    """

    buffer: Buffer
    value: ex.Expr
    indices: tuple[ex.Expr, ...]
    predicate: ex.Expr | None = None
    _children = ("indices", "value", "predicate")
    _accesses = "element"

    def __post_init__(self) -> None:
        _check_rank(self.buffer, self.indices)
        element = _element_dtype(self.buffer, self.indices)
        if self.value.dtype != element:
            raise TypeMismatch(
                f"{self.buffer.name}[{', '.join(map(str, self.indices))}] = {self.value}: dtypes differ\n"
                f"  wanted: {element}\n  found:  {self.value.dtype}\n  try:    .astype('{element}')"
            )


@node
class For(Stmt):
    """`for var in kind(start, start + extent): body`. For a THREAD loop, `thread` is the name of the axis
    ("blockIdx.x").
    """

    var: ex.Var
    start: ex.Expr
    extent: ex.Expr
    kind: ForKind
    body: Stmt
    thread: str | None = None
    annotations: Mapping[str, Any] = field(default_factory=dict)
    _children = ("start", "extent", "body")
    _defs = ("var",)

    @property
    def loop_var(self) -> ex.Var:
        """TVM's name for `var`."""
        return self.var

    @property
    def min(self) -> ex.Expr:
        """TVM's name for `start`."""
        return self.start


@node
class While(Stmt):
    """The statement `while condition: body`."""

    condition: ex.Expr
    body: Stmt
    _children = ("condition", "body")


@node
class If(Stmt):
    """The statement `if condition: then_case else: else_case`."""

    condition: ex.Expr
    then_case: Stmt
    else_case: Stmt | None = None
    _children = ("condition", "then_case", "else_case")


@node
class Seq(Stmt):
    """A sequence of statements."""

    stmts: tuple[Stmt, ...]
    _children = ("stmts",)

    @staticmethod
    def of(*stmts: Stmt | None) -> Stmt:
        """Combine statements into one: nested sequences are flattened, and a single statement is returned as it is."""
        flat: list[Stmt] = []
        for stmt in stmts:
            if isinstance(stmt, Seq):
                flat.extend(stmt.stmts)
            elif stmt is not None:
                flat.append(stmt)
        return flat[0] if len(flat) == 1 else Seq(tuple(flat))


@node
class LetStmt(Stmt):
    """Defines `var = value` for the statements in `body`."""

    var: ex.Var
    value: ex.Expr
    body: Stmt
    _children = ("value", "body")
    _defs = ("var",)


@node
class Assert(Stmt):
    """Stops the run with `message` unless `condition` holds."""

    condition: ex.Expr
    message: str
    _children = ("condition",)


@node
class Evaluate(Stmt):
    """Evaluates an expression for its side effects, such as an intrinsic call."""

    value: ex.Expr
    _children = ("value",)

    def __post_init__(self) -> None:
        if not isinstance(self.value, ex.Expr):
            object.__setattr__(self, "value", ex.as_expr(self.value))


@node
class Prefetch(Stmt):
    """A hint that the cache line of `buffer[index]` will be read soon (kernel level only).

    It has no effect on results, so any index is allowed.
    """

    buffer: Buffer
    index: ex.Expr
    _children = ("index",)


@node
class Tile(ex.Node):
    """The location of an operand of an instruction. `places[0]` is its first element.

    `places[1 + d]` is the next element along dimension d of the operand, or the first element again if there is only
    one. These loads only name locations and read nothing. A pass that moves the elements of a buffer also moves these
    locations, so the distance between two of them is the stride at every level.
    """

    places: tuple[BufferLoad, ...]
    _children = ("places",)

    def __post_init__(self) -> None:
        strange = [p for p in self.places if not isinstance(p, BufferLoad) or p.buffer is not self.places[0].buffer]
        if strange or not self.places:
            raise TypeMismatch(f"the places of a tile are elements of one buffer, found {strange or 'none'}")

    @property
    def buffer(self) -> Buffer:
        """The buffer that contains the operand."""
        return self.places[0].buffer


@node
class Instruction(Stmt):
    """One instruction of a machine, applied to tiles and scalars; `name` is the name of its `TensorIntrin`.

    `body` is its meaning, written as loops over the same buffers. Interpreters and analyses use the body; code
    generators use the name and the operands. If `together` is greater than 1, that many neighbouring threads of a block
    execute the instruction jointly, and the body runs once for all of them.
    """

    name: str
    operands: tuple[Tile | ex.Expr, ...]
    body: Stmt
    together: int = 1
    _children = ("operands", "body")

    @property
    def tiles(self) -> tuple[Tile, ...]:
        """The operands that are tiles of buffers."""
        return tuple(o for o in self.operands if isinstance(o, Tile))


def copied_load(value: ex.Expr) -> BufferLoad | None:
    """Return the load in a copied value: A[j] for `A[j]` and for `if_then_else(c, A[j], 0)`. Return None for any other
    value.
    """
    if isinstance(value, ex.Call) and value.op == "if_then_else":
        condition, read, other = value.args
        plain = is_zero(other) and not ex.contains(condition, BufferLoad)
        return read if plain and isinstance(read, BufferLoad) else None
    return value if isinstance(value, BufferLoad) else None


def is_copied(value: ex.Expr) -> bool:
    """Return whether storing this value is a copy: of a load, of zeros, or of either one depending on a condition."""
    return copied_load(value) is not None or is_zero(value)


def is_zero(value: ex.Expr) -> bool:
    """Return whether a value is the constant 0 or a vector of zeros."""
    while isinstance(value, ex.Broadcast | ex.Cast):
        value = value.value
    return isinstance(value, ex.IntImm | ex.FloatImm) and value.value == 0


@node
class Async(Stmt):
    """A copy, `body`, that is started here but may read its source and write its destination at any later time.

    The thread's next `ptx_commit_group` puts it into a group. The copy is complete after the thread executes a
    `ptx_wait_group(n)` at which its group is not among the n newest. Until then, no statement may access the
    destination or write the source. A machine without such copies executes the body immediately.

    The stored value is a load, or `if_then_else(c, A[j], 0)`. The condition is evaluated when the copy starts
    (`source`).
    """

    body: BufferStore
    _children = ("body",)

    def __post_init__(self) -> None:
        if not isinstance(self.body, BufferStore) or not is_copied(self.body.value):
            raise TypeMismatch(
                "an asynchronous copy is a store of what is loaded, without arithmetic\n"
                f"  found:  {str(self.body).strip()}\n  try:    S[i] = A[j]"
            )


@node
class Allocate(Stmt):
    """Provides uninitialised storage for `buffer` during `body`. It is used after lowering; before, blocks have
    `alloc_buffers`.
    """

    buffer: Buffer
    body: Stmt
    annotations: Mapping[str, Any] = field(default_factory=dict)
    _children = ("body",)
    _defs = ("buffer",)


@node
class KernelCall(Stmt):
    """Calls the module's function `kernel` with buffers and scalars. A host function is a sequence of such calls.

    If `parallel` is set, all threads of the team run the kernel (its outermost loop is PARALLEL); otherwise a single
    thread does. Calls run one after the other, with a barrier in between. For a kernel whose loops are bound to a grid,
    `grid` has the number of blocks along x, y and z, followed by the number of threads in a block along x, y and z;
    otherwise it is empty. These numbers repeat the extents of the kernel's loops, so that code that launches the kernel
    need not inspect it.
    """

    kernel: str
    args: tuple[Buffer | ex.Expr, ...]
    parallel: bool = False
    grid: tuple[ex.Expr, ...] = ()
    _children = ("args", "grid")


class BlockId:
    """The opaque identity of a block, which stays the same when the block is rewritten. A `BlockRV` refers to it."""

    __slots__ = ("__weakref__",)

    def __deepcopy__(self, memo: Any) -> BlockId:
        return self


@node
class MatchBufferRegion(ex.Node):
    """A view: `buffer` gives the region `source` another name, shape and layout."""

    buffer: Buffer
    source: BufferRegion
    _children = ("source",)
    _defs = ("buffer",)


@node
class Block(Stmt):
    """A unit of computation with a signature: its iterators, the regions that it reads and writes, and its local
    buffers.

    `init` runs in the iterations in which all reduction iterators have their first value. `name` is for readers and for
    `get_block`; as in TVM, structural equality ignores it. `id` survives `expr.replace`; if you duplicate a block, give
    the copy a new `BlockId()`.
    """

    iter_vars: tuple[ex.IterVar, ...]
    reads: tuple[BufferRegion, ...]
    writes: tuple[BufferRegion, ...]
    name: str = field(compare=False)
    body: Stmt
    init: Stmt | None = None
    alloc_buffers: tuple[Buffer, ...] = ()
    match_buffers: tuple[MatchBufferRegion, ...] = ()
    annotations: Mapping[str, Any] = field(default_factory=dict)
    id: BlockId = field(default_factory=BlockId, compare=False)
    _children = ("iter_vars", "match_buffers", "reads", "writes", "init", "body")
    _defs = ("iter_vars", "alloc_buffers", "match_buffers")

    @property
    def name_hint(self) -> str:
        """TVM's name for `name`."""
        return self.name


@node
class BlockRealize(Stmt):
    """One execution of a block: its iterators get the values `iter_values`, and it runs only if `predicate` holds."""

    iter_values: tuple[ex.Expr, ...]
    predicate: ex.Expr
    block: Block
    _children = ("iter_values", "predicate", "block")


# The attribute of a function in which a sum over no terms is its initial value. Functions of graphs have it, since an
# unknown extent may be 0 in a run. In other functions such a sum stores nothing, as its loops say.
EMPTY_SUMS = "tir.empty_sums"


@node
class PrimFunc(ex.Node):
    """A function over buffers and scalars.

    `params` are in calling order. Free variables in the shapes of the buffers are symbolic dimensions, whose values
    come from the arguments. `attrs` are those of TVM ("global_symbol", "tir.noalias", "target", ...). The body of a
    loop program is a `BlockRealize` of the root block, which is named "root" and contains the buffers that the
    function allocates.
    """

    params: tuple[Buffer | ex.Var, ...]
    body: Stmt
    attrs: Mapping[str, Any] = field(default_factory=dict)
    _children = ("body",)
    _defs = ("params",)
    _closed = True

    @property
    def name(self) -> str:
        return str(self.attrs.get("global_symbol", "main"))

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """The parameters that are buffers."""
        return tuple(p for p in self.params if isinstance(p, Buffer))

    def with_attr(self, key: str, value: Any) -> PrimFunc:
        """Return a copy with one attribute set."""
        return PrimFunc(self.params, self.body, {**self.attrs, key: value})

    def with_body(self, body: Stmt) -> PrimFunc:
        """Return a copy with a different body."""
        return PrimFunc(self.params, body, self.attrs)

    def script(self, **options: Any) -> str:
        """Return the function as TVMScript text."""
        from .script.printer import script

        return script(self, **options)

    def show(self, **options: Any) -> None:
        """Print the function as TVMScript, with colours on a terminal."""
        from .script.show import show

        show(self, **options)

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook displays."""
        from ..notebook import program_html

        return program_html(self.script(with_header=False))

    def __repr__(self) -> str:
        return self.script()


@node
class IRModule(ex.Node):
    """An ordered collection of named functions. `@I.ir_module` creates a module, and a `Schedule` works on one.

    If there is only one function, "main" also refers to it, whatever its name is. TVM uses the name "main" for the
    function in a module that it creates itself.
    """

    functions: Mapping[str, PrimFunc] = field(default_factory=dict)
    attrs: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> PrimFunc:
        """Return the function called `name`; raise an `InputError` that suggests similar names if there is none."""
        return self.functions[self.name_of(name)]

    def __contains__(self, name: object) -> bool:
        return name in self.functions or (name == "main" and len(self.functions) == 1)

    def name_of(self, name: str) -> str:
        """Return the name under which a function is stored. If the module has only one function, "main" also refers to
        it.

        Raises an `InputError` that suggests similar names if there is no such function.
        """
        asked = str(name)
        if asked not in self:
            raise InputError(f"no function {asked!r} in the module; {nearest(asked, list(self.functions))}")
        return asked if asked in self.functions else next(iter(self.functions))

    def items(self) -> Iterator[tuple[str, PrimFunc]]:
        """Iterate over the pairs (name, function)."""
        return iter(self.functions.items())

    def with_function(self, name: str, function: PrimFunc) -> IRModule:
        """Return a copy with one function added or replaced."""
        return IRModule({**self.functions, name: function}, self.attrs)

    @staticmethod
    def from_expr(function: PrimFunc) -> IRModule:
        """Return a module with a single function, stored under the function's own name (TVM's constructor)."""
        return IRModule({function.name: function})

    def script(self, **options: Any) -> str:
        """Return the module as TVMScript text."""
        from .script.printer import script

        return script(self, **options)

    def show(self, **options: Any) -> None:
        """Print the module as TVMScript, with colours on a terminal."""
        from .script.show import show

        show(self, **options)

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook displays."""
        from ..notebook import program_html

        return program_html(self.script(with_header=False))

    def __repr__(self) -> str:
        return self.script()


def root_block(func: PrimFunc) -> Block:
    """Return the root block of a loop program; raise `TypeMismatch` if it has none."""
    if isinstance(func.body, BlockRealize):
        return func.body.block
    raise TypeMismatch(f"{func.name} has no root block: it is lowered already, or was built by hand without one")


def with_root(
    params: tuple[Buffer | ex.Var, ...], body: Stmt, attrs: Mapping[str, Any], alloc_buffers: tuple[Buffer, ...] = ()
) -> PrimFunc:
    """Return a loop program with `body` inside the root block that every such function has."""
    root = Block((), (), (), "root", body, alloc_buffers=alloc_buffers)
    return PrimFunc(params, BlockRealize((), ex.const(True), root), attrs)


def _check_rank(buffer: Buffer, indices: tuple[ex.Expr, ...]) -> None:
    if len(indices) != len(buffer.shape):
        raise TypeMismatch(
            f"{buffer.name}[{', '.join(map(str, indices))}]: wrong number of indices\n"
            f"  wanted: {len(buffer.shape)}, as {buffer.name} has shape ({', '.join(map(str, buffer.shape))})\n"
            f"  found:  {len(indices)}"
        )


def _element_dtype(buffer: Buffer, indices: tuple[ex.Expr, ...]) -> ex.DType:
    lanes = indices[-1].dtype.lanes if indices else 1
    return buffer.dtype.with_lanes(buffer.dtype.lanes * lanes)

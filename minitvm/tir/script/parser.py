"""Parse the statements of a program's text: turn Python's `ast` into a `PrimFunc`.

`parse(text)` reads everything that `printer.script` writes, and the notations that TVM has used since 2022. Expressions
are evaluated (see `evaluate`). The functions of `T` return descriptions, which the parser turns into nodes.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ...arith import holds_data
from ...errors import MinitvmError, ParseError
from ...expr import DataVar, DType, Expr, IntImm, IterVar, Range, SizeVar, Var, as_expr, const, structural_equal
from .. import nodes as tir
from ..analysis.block_regions import regions_touched
from . import descriptions
from .all_reduce import ReduceScope, ThreadReduction
from .buffers import as_region
from .evaluate import Evaluator, Source, VectorStore, describe, is_scalar, load_of
from .signatures import declared_dimensions, is_buffer, names_of_sizes, quoted_names, with_names


@dataclass(slots=True)
class _Frame:
    """Collects the parts of a block or function while its statements are parsed."""

    name: str
    iter_vars: list[IterVar] = field(default_factory=list)
    values: list[Expr] = field(default_factory=list)
    headers: dict[str, Any] = field(default_factory=dict)
    allocs: list[tir.Buffer] = field(default_factory=list)
    matches: list[tir.MatchBufferRegion] = field(default_factory=list)
    init: tir.Stmt | None = None


class FunctionParser(Evaluator):
    """Parses one function. `captured` has the names from the scope in which the text was written."""

    def __init__(self, source: Source, captured: Mapping[str, Any]) -> None:
        super().__init__(source, captured)
        self.frames: list[_Frame] = []
        self.loops: dict[Var, Range] = {}
        self.handles: dict[str, tir.Buffer | None] = {}
        self.dimensions: dict[str, Var] = {}
        self.node: ast.FunctionDef | None = None
        self.end: ast.stmt | None = None  # the function's last statement
        self.offsets: set[str] = set()  # the buffers whose offset the text uses

    # ---- the function ------------------------------------------------------------------------------------------

    @cached_property
    def sizes(self) -> set[str]:
        """The names used in buffer shapes, strides and offsets. They are only needed for functions with scalar
        parameters.
        """
        return set() if self.node is None else names_of_sizes(self.node)

    def function(
        self, node: ast.FunctionDef, private: bool = False, lowered: bool = False, s_tir: bool = False
    ) -> tir.PrimFunc:
        """Parse a `def` into a function. Unless it is `private`, its name becomes its attribute "global_symbol".

        `s_tir` says that the text is in the style of TVM v0.24 and later, in which any variable can be a dimension, not
        only a `SizeVar`.
        """
        frame = _Frame(node.name)
        self.frames.append(frame)
        self._parameter_list(node.args)
        self.node, self.end = node, node.body[-1]
        uses_offsets = any(name in self.source.text for name in _OFFSETS)
        self.offsets = {
            part.value.id
            for part in (ast.walk(node) if uses_offsets else ())
            if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.attr in _OFFSETS
        }
        if s_tir:
            self._dimensions(node)
        # The shape of a buffer may use a scalar that comes later.
        first_scalars = sorted(node.args.args, key=lambda argument: is_buffer(argument.annotation))
        by_name: dict[str, tir.Buffer | Var | None] = {}
        for argument in first_scalars:
            with self._located(argument.annotation or argument):
                by_name[argument.arg] = self._parameter(argument)
        parameters = [by_name[argument.arg] for argument in node.args.args]
        body = self._suite(node.body)
        params: list[tir.Buffer | Var] = []
        for argument, parameter in zip(node.args.args, parameters, strict=False):
            matched = self.handles.get(argument.arg) if parameter is None else parameter
            if matched is None:
                raise self.error(
                    argument,
                    f"the handle {argument.arg} is not matched to a buffer",
                    tries=(f'A = T.match_buffer({argument.arg}, (m, n), "float32")',),
                )
            params.append(matched)
        attrs = dict(frame.headers.get("func_attr", {}))
        if not private and "global_symbol" not in attrs:
            attrs = {"global_symbol": node.name, **attrs}
        if lowered:
            return tir.PrimFunc(tuple(params), body, attrs)
        own_root = isinstance(body, tir.BlockRealize) and body.block.name == "root" and not body.block.iter_vars
        if own_root and not frame.allocs:
            return tir.PrimFunc(tuple(params), body, attrs)
        return tir.with_root(tuple(params), body, attrs, tuple(frame.allocs))

    def _dimensions(self, node: ast.FunctionDef) -> None:
        """Define the symbolic dimensions. TVM's text uses them in the signature before the body declares them."""
        for name, dtype in declared_dimensions(node, self.captured, self.evaluate):
            self.dimensions[name] = self.variables[name] = SizeVar(name, dtype)

    def _parameter_list(self, arguments: ast.arguments) -> None:
        """Raise `ParseError` if the parameter list has anything besides names and types, or a duplicate name, because
        it would be lost.
        """
        for one in (*arguments.posonlyargs, arguments.vararg, *arguments.kwonlyargs, arguments.kwarg):
            if one is not None:
                raise self.error(one, "parameters are given in their order, without `*` and `/`")
        if arguments.defaults:
            raise self.error(arguments.defaults[0], "a parameter has no default value")
        names: set[str] = set()
        for argument in arguments.args:
            if argument.arg in names:
                raise self.error(argument, f"two parameters of the name {argument.arg}")
            names.add(argument.arg)

    def _parameter(self, argument: ast.arg) -> tir.Buffer | Var | None:
        name, annotation = argument.arg, argument.annotation
        if annotation is None:
            raise self.error(argument, f"the parameter {name} has no type",
                             tries=(f'{name}: T.Buffer((m, n), "float32")', f"{name}: T.int32"))  # fmt: skip
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            annotation = ast.parse(annotation.value, mode="eval").body
        for quoted, in_shape in quoted_names(annotation):
            if quoted not in self.variables and quoted not in self.captured:
                self.dimensions[quoted] = self.variables[quoted] = (SizeVar if in_shape else Var)(quoted)
        kind = self.evaluate(with_names(annotation))
        if isinstance(kind, descriptions.TypeName) and kind.dtype == "handle":
            self.handles[name] = None
            self.variables[name] = descriptions.UnmatchedHandle(name)
            return None
        value: tir.Buffer | Var
        if isinstance(kind, descriptions.BufferSpec):
            value = kind.named(name, name in self.offsets)
        elif isinstance(kind, descriptions.TypeName):
            value = (Var if name in self.sizes else DataVar)(name, kind.dtype)
        elif isinstance(kind, Var):
            value = type(kind)(name, kind.dtype)
        else:
            raise self.error(annotation, f"the type of the parameter {name} is not one of the language",
                             wanted="T.Buffer(...), T.handle or a dtype", found=describe(kind))  # fmt: skip
        self.variables[name] = value
        return value

    # ---- suites ------------------------------------------------------------------------------------------------

    def _suite(self, nodes: Sequence[ast.stmt]) -> tir.Stmt:
        """Parse an indented block. Names that it binds are undefined after it."""
        outer = dict(self.variables)
        result = self._statements(nodes)
        self.variables = outer
        return result

    def _statements(self, nodes: Sequence[ast.stmt]) -> tir.Stmt:
        # A `let` or an allocation holds the rest of its suite. There may be thousands: no recursion.
        stmts: list[tir.Stmt] = []
        holders: list[tuple[list[tir.Stmt], Callable[[tir.Stmt], tir.Stmt]]] = []
        for node in nodes:
            wrap = self._statement(node, stmts)
            if wrap is not None:
                holders.append((stmts, wrap))
                stmts = []
        result = tir.Seq.of(*stmts)
        for before, wrap in reversed(holders):
            result = tir.Seq.of(*before, wrap(result))
        return result

    def _statement(self, node: ast.stmt, stmts: list[tir.Stmt]) -> Callable[[tir.Stmt], tir.Stmt] | None:
        method = getattr(self, f"_{type(node).__name__}_stmt", None)
        if method is None:
            raise self.error(node, f"Python's `{self.source.word(node)}` is not a statement of the language")
        with self._located(node):
            result = method(node)
        if isinstance(result, tir.Stmt):
            stmts.append(result)
            return None
        return result

    @contextmanager
    def _located(self, node: ast.AST) -> Iterator[None]:
        try:
            yield
        except ParseError:
            raise
        except (MinitvmError, TypeError, ValueError, AttributeError, LookupError, SyntaxError) as problem:
            headline, _, rest = str(problem).partition("\n")
            error = self.error(node, headline or type(problem).__name__)
            raise ParseError(f"{error}\n{rest}" if rest else str(error)) from problem

    # ---- assignments -------------------------------------------------------------------------------------------

    def _Assign_stmt(self, node: ast.Assign) -> Any:
        if len(node.targets) != 1:
            raise self.error(node, "several targets in one assignment", tries=("one assignment each",))
        target = node.targets[0]
        if isinstance(target, ast.Subscript):
            return self._store(target, node.value)
        return self._bind(target, self.evaluate(node.value), node)

    def _AugAssign_stmt(self, node: ast.AugAssign) -> Any:
        if not isinstance(node.target, ast.Subscript):
            raise self.error(node, "only elements of buffers can be updated", tries=("x_new: T.int32 = x + 1",))
        load = ast.copy_location(ast.Subscript(node.target.value, node.target.slice, ast.Load()), node.target)
        return self._store(node.target, ast.copy_location(ast.BinOp(load, node.op, node.value), node))

    def _AnnAssign_stmt(self, node: ast.AnnAssign) -> Any:
        if not isinstance(node.target, ast.Name) or node.value is None:
            raise self.error(node, "a typed name needs a value", tries=("x: T.int32 = value",))
        kind = self.evaluate(node.annotation)
        if not isinstance(kind, descriptions.TypeName):
            raise self.error(node.annotation, "this is not a dtype", wanted="T.int32, ...", found=describe(kind))
        value = self.evaluate(node.value)
        value = as_expr(value) if isinstance(value, Expr) else const(value, kind.dtype)
        if value.dtype != kind.dtype:
            raise self.error(node.value, f"{node.target.id} is declared with another dtype", wanted=str(kind.dtype),
                             found=f"{value} of dtype {value.dtype}")  # fmt: skip
        return self._let_rest(node.target.id, value)

    def _store(self, target: ast.Subscript, value_node: ast.expr) -> tir.Stmt:
        place = self.evaluate(target)
        if isinstance(place, tir.BufferRegion):
            place = load_of(place)
        buffer = getattr(place, "buffer", None)
        if buffer is None:
            raise self.error(target, "only elements of buffers can be assigned", found=describe(place))
        self.widened = False
        value = self.evaluate(value_node)
        if isinstance(value, tir.BufferRegion):
            value = load_of(value)
        half = place.dtype.is_float and place.dtype.bits < 32
        if half and self.widened and isinstance(value, Expr) and value.dtype == "float32":
            value = value.astype(place.dtype)  # a number in the text made it a float32
        if not is_scalar(value):
            raise self.error(value_node, f"{buffer.name} cannot hold this", wanted=f"a value of dtype {buffer.dtype}",
                             found=describe(value))  # fmt: skip
        with self._located(value_node):
            return tir.BufferStore(buffer, _converted(value, place.dtype), place.indices)

    def _bind(self, target: ast.expr, value: Any, node: ast.AST) -> Any:
        """Execute `target = value` for any target other than an element of a buffer."""
        if isinstance(target, ast.Tuple | ast.List):
            value = [value] if isinstance(value, descriptions.AxisSpec) else value
            if isinstance(value, descriptions.Meta) and isinstance(value.value, list | tuple):
                value = [descriptions.Meta(item) for item in value.value]
            values = value if isinstance(value, list | tuple) else None
            if values is None or len(values) != len(target.elts):
                count = "one value" if values is None else f"{len(values)} values"
                raise self.error(target, "wrong number of names", wanted=f"{len(target.elts)} values", found=count)
            for name, item in zip(target.elts, values, strict=False):
                self._bind(name, item, node)
            return None
        if not isinstance(target, ast.Name):
            raise self.error(target, "this cannot be assigned", wanted="a name, or an element of a buffer")
        return self._bind_name(target.id, value, node)

    def _bind_name(self, name: str, value: Any, node: ast.AST) -> Any:
        if isinstance(value, descriptions.AxisSpec):
            return self._axis(name, value, node)
        if isinstance(value, descriptions.AllocSpec):
            buffer = value.buffer.named(name)
            self.frames[-1].allocs.append(buffer)
            return self._define(name, buffer)
        if isinstance(value, descriptions.MatchSpec):
            return self._match(name, value, node)
        if isinstance(value, descriptions.DeclSpec):
            declared = value.buffer.named(name)
            self._define(name, declared)
            return lambda body: tir.Allocate(declared, body, value.annotations)
        if isinstance(value, descriptions.ConstSpec):
            return self._constants(name, value)
        if isinstance(value, descriptions.EnvThread):
            return self._define(name, descriptions.EnvThread(value.axis, name))
        if (
            isinstance(value, descriptions.LoopSpec) and value.kind is tir.ForKind.THREAD
        ):  # tx = T.launch_thread("threadIdx.x", 128)
            return self._thread_rest(name, value)
        if isinstance(value, descriptions.Meta):
            return self._define(name, value.value)
        if isinstance(value, Var) and value.name == "":  # n = T.int32()
            is_dimension = name in self.dimensions
            return self._define(name, self.dimensions[name] if is_dimension else type(value)(name, value.dtype))
        if isinstance(value, descriptions.BufferSpec) and value.data is not None:
            return self._over_storage(name, value, node)
        if isinstance(value, descriptions.BufferSpec):
            raise self.error(node, "T.Buffer is the type of a parameter", tries=(f"{name} = T.alloc_buffer(...)",))
        if is_scalar(value):
            return self._let_rest(name, as_expr(value))
        return self._define(name, value)

    def _constants(self, name: str, spec: descriptions.ConstSpec) -> tir.Stmt:
        """Return a block, named like the buffer, that fills the buffer with constants."""
        buffer = spec.buffer.named(name)
        self.frames[-1].allocs.append(buffer)
        self._define(name, buffer)
        stores = [
            tir.BufferStore(buffer, const(value.item(), buffer.dtype), tuple(map(const, place)))
            for place, value in np.ndenumerate(spec.values)
        ]
        block = tir.Block((), (), (buffer.full_region(),), name, tir.Seq.of(*stores))
        return tir.BlockRealize((), const(True), block)

    def _over_storage(self, name: str, spec: descriptions.BufferSpec, node: ast.AST) -> None:
        """Execute `B = T.Buffer(shape, dtype, data=A.data)`: B becomes another name for A; raise `ParseError` if their
        layouts differ.
        """
        if isinstance(spec.data, descriptions.UnmatchedHandle):
            return self._match(name, descriptions.MatchSpec(spec.data, spec), node)
        source, own = spec.data, spec.named(name)
        alike = structural_equal(
            (own.shape, own.strides, own.elem_offset), (source.shape, source.strides, source.elem_offset)
        )
        if not alike or own.dtype != source.dtype:
            raise self.error(node, "two buffers over one storage", wanted=f"the shape and dtype of {source.name}",
                             found=f"{own.dtype}[{', '.join(map(str, own.shape))}]",
                             tries=("T.match_buffer(A[...]) for a view of a region",))  # fmt: skip
        return self._define(name, source)

    def _define(self, name: str, value: Any) -> None:
        self.variables[name] = value

    def _let_rest(self, name: str, value: Expr) -> Callable[[tir.Stmt], tir.Stmt]:
        variable = (DataVar if holds_data(value) else Var)(name, value.dtype)
        self.variables[name] = variable
        return lambda body: tir.LetStmt(variable, value, body)

    def _thread_rest(self, name: str, spec: descriptions.LoopSpec) -> Callable[[tir.Stmt], tir.Stmt]:
        interval = spec.ranges[0]
        variable = Var(name, interval.extent.dtype)
        self.variables[name] = variable
        self.loops[variable] = interval
        return lambda body: tir.For(variable, interval.start, interval.extent, spec.kind, body, spec.thread)

    def _axis(self, name: str, axis: descriptions.AxisSpec, node: ast.AST) -> None:
        frame = self._block_frame(node, "an iterator")
        domain = axis.domain
        if domain is None:
            domain = self.loops.get(axis.value) if isinstance(axis.value, Var) else None
            if domain is None:
                raise self.error(node, "T.axis.remap takes the variables of loops around", found=describe(axis.value),
                                 tries=(f"{name} = T.axis.spatial(extent, value)",))  # fmt: skip
        if axis.value is None:
            raise self.error(node, f"the iterator {name} has no value", tries=(f"{name} = T.axis.S(extent, i)",))
        variable = Var(name, domain.extent.dtype)
        value = _converted(axis.value, variable.dtype) if isinstance(axis.value, int | IntImm) else as_expr(axis.value)
        frame.iter_vars.append(IterVar(variable, domain, axis.kind))
        frame.values.append(value)
        self._define(name, variable)

    def _match(self, name: str, spec: descriptions.MatchSpec, node: ast.AST) -> None:
        buffer = spec.buffer.named(name, name in self.offsets)
        if isinstance(spec.source, descriptions.UnmatchedHandle):
            if self.handles[spec.source.name] is not None:
                raise self.error(node, f"the handle {spec.source.name} is matched twice")
            self.handles[spec.source.name] = buffer
        else:
            with self._located(node):
                source = as_region(spec.source)
            self._block_frame(node, "a view of a region").matches.append(tir.MatchBufferRegion(buffer, source))
        self._define(name, buffer)

    def _block_frame(self, node: ast.AST, what: str) -> _Frame:
        if len(self.frames) < 2:
            raise self.error(node, f"{what} outside of a block", tries=('with T.block("name"):',))
        return self.frames[-1]

    # ---- control -----------------------------------------------------------------------------------------------

    def _no_else(self, node: ast.For | ast.While) -> None:
        if node.orelse:
            raise self.error(node.orelse[0], "a loop has no `else`", tries=("put the statements after the loop",))

    def _For_stmt(self, node: ast.For) -> tir.Stmt:
        self._no_else(node)
        spec = self.evaluate(node.iter)
        if isinstance(spec, range) and spec.step == 1:
            spec = descriptions.LoopSpec((Range.of(spec.start, spec.stop),), tir.ForKind.SERIAL)
        if not isinstance(spec, descriptions.LoopSpec):
            raise self.error(node.iter, "a loop does not run over this", found=describe(spec),
                             wanted="range(n), T.grid(m, n), T.parallel(n), ...")  # fmt: skip
        targets = node.target.elts if isinstance(node.target, ast.Tuple | ast.List) else [node.target]
        if len(targets) != len(spec.ranges):
            raise self.error(
                node.target, "wrong number of loop variables", wanted=str(len(spec.ranges)), found=str(len(targets))
            )
        return self._nest(targets, spec, node.body)

    def _nest(self, targets: Sequence[ast.expr], spec: descriptions.LoopSpec, body: Sequence[ast.stmt]) -> tir.Stmt:
        outer, outer_loops = dict(self.variables), dict(self.loops)
        variables = []
        for target, interval in zip(targets, spec.ranges, strict=False):
            if not isinstance(target, ast.Name):
                raise self.error(target, "a loop variable is a name")
            variable = Var(target.id, interval.extent.dtype)
            variables.append(variable)
            self._define(target.id, variable)
            self.loops[variable] = interval
        result = self._suite(body)
        for variable, interval in zip(reversed(variables), reversed(spec.ranges), strict=False):
            result = tir.For(
                variable, interval.start, interval.extent, spec.kind, result, spec.thread, spec.annotations
            )
        self.variables, self.loops = outer, outer_loops
        return result

    def _While_stmt(self, node: ast.While) -> tir.Stmt:
        self._no_else(node)
        return tir.While(self.expr(node.test), self._suite(node.body))

    def _If_stmt(self, node: ast.If) -> tir.Stmt:
        condition = self.evaluate(node.test)
        if not isinstance(condition, Expr):  # known while the program is built
            return self._suite(node.body if condition else node.orelse)
        return tir.If(condition, self._suite(node.body), self._suite(node.orelse) if node.orelse else None)

    def _Assert_stmt(self, node: ast.Assert) -> tir.Stmt:
        message = self.evaluate(node.msg) if node.msg is not None else ""
        if isinstance(message, tuple):  # TVM's form since v0.24: the kind of error, and the parts of its text
            message = "".join(message[-1])
        return tir.Assert(self.expr(node.test), str(message))

    def _Pass_stmt(self, node: ast.Pass) -> None:  # noqa: ARG002 (a visitor)
        return None

    def _Return_stmt(self, node: ast.Return) -> None:
        if node.value is not None:
            raise self.error(node, "a function returns nothing: it writes to its buffers")
        if node is not self.end:
            raise self.error(node, "a function runs to its end", tries=("if ...: around the statements that follow",))

    def _With_stmt(self, node: ast.With) -> tir.Stmt:
        item = node.items[0]
        rest = node.body
        if len(node.items) > 1:
            rest = [ast.copy_location(ast.With(node.items[1:], node.body), node)]
        spec = self.evaluate(item.context_expr)
        if isinstance(spec, descriptions.BlockSpec | descriptions.InitSpec) and item.optional_vars is not None:
            raise self.error(item.optional_vars, "nothing is named here", tries=("vi, vj = T.axis.remap(...) inside",))
        if isinstance(spec, descriptions.BlockSpec):
            return self._block(spec, rest)
        if isinstance(spec, descriptions.InitSpec):
            frame = self._block_frame(node, "T.init")
            if frame.init is not None:
                raise self.error(item.context_expr, "T.init is given twice")
            frame.init = self._suite(rest)
            return tir.Seq(())
        if isinstance(spec, descriptions.InstructionSpec | descriptions.AsyncSpec):
            if item.optional_vars is not None:
                raise self.error(item.optional_vars, "nothing is named here")
            body = self._suite(rest)
            if isinstance(spec, descriptions.InstructionSpec):
                return tir.Instruction(spec.name, spec.operands, body, spec.together)
            return tir.Async(body)  # type: ignore[arg-type]  # its constructor checks it
        if isinstance(spec, ReduceScope):
            outer = dict(self.variables)
            self.variables[_REDUCER] = spec.reducer
            inside = self._suite(rest)
            self.variables = outer
            return inside
        if isinstance(spec, descriptions.LoopSpec):
            target = item.optional_vars or ast.copy_location(ast.Name(spec.name or "t"), node)
            return self._nest([target], spec, rest)
        if isinstance(spec, descriptions.LetSpec) and spec.var is not None:
            return tir.LetStmt(spec.var, spec.value, self._suite(rest))
        if isinstance(spec, descriptions.LetSpec | descriptions.DeclSpec):
            if not isinstance(item.optional_vars, ast.Name):
                raise self.error(item.context_expr, "this needs a name", tries=("with ... as x:",))
            outer = dict(self.variables)
            value = spec.value if isinstance(spec, descriptions.LetSpec) else spec
            wrap = self._bind(item.optional_vars, value, node)
            result = wrap(self._suite(rest))
            self.variables = outer
            return result
        raise self.error(item.context_expr, "this does not open a scope", found=describe(spec),
                         wanted='T.block("name"), T.init(), T.LetStmt(value) or T.decl_buffer(...)')  # fmt: skip

    def _block(self, spec: descriptions.BlockSpec, body: Sequence[ast.stmt]) -> tir.Stmt:
        frame = _Frame(spec.name)
        self.frames.append(frame)
        statement = self._suite(body)
        self.frames.pop()
        headers = frame.headers
        block = tir.Block(
            tuple(frame.iter_vars), headers.get("reads", ()), headers.get("writes", ()), spec.name, statement,
            frame.init, tuple(frame.allocs), tuple(frame.matches), headers.get("block_attr", {}),
        )  # fmt: skip
        if not ("reads" in headers and "writes" in headers) and not _is_root(frame, len(self.frames)):
            reads, writes = regions_touched(block)
            block = tir.Block(
                block.iter_vars, headers.get("reads", reads), headers.get("writes", writes), block.name, block.body,
                block.init, block.alloc_buffers, block.match_buffers, block.annotations,
            )  # fmt: skip
        return tir.BlockRealize(tuple(frame.values), headers.get("where", const(True)), block)

    # ---- expressions as statements -----------------------------------------------------------------------------

    def _Expr_stmt(self, node: ast.Expr) -> Any:
        if isinstance(node.value, ast.Constant):  # a docstring, or `...`
            return None
        value = self.evaluate(node.value)
        if isinstance(value, descriptions.HeaderSpec):
            return self._header(value, node)
        if isinstance(value, VectorStore):
            element = value.buffer[value.indices].dtype
            return tir.BufferStore(value.buffer, _converted(value.value, element), value.indices, value.predicate)
        if isinstance(value, descriptions.CallSpec):
            args = tuple(a if isinstance(a, tir.Buffer) else as_expr(a) for a in value.args)
            return tir.KernelCall(value.kernel, args, value.parallel, tuple(map(as_expr, value.grid)))
        if isinstance(value, tir.Stmt):
            return value
        if isinstance(value, ReduceScope):
            return self._define(_REDUCER, value.reducer)
        if isinstance(value, ThreadReduction):
            if _REDUCER not in self.variables:
                way = 'with T.attr(T.comm_reducer(lambda x, y: x + y, [T.float32(0)]), "reduce_scope", ...):'
                raise self.error(node, "how do the threads combine their values?", tries=(f"{way} around it",))
            return value.by(self.variables[_REDUCER])
        if isinstance(value, descriptions.LoopSpec) and value.name:  # T.launch_thread(tx, 128), tx from T.env_thread
            return self._thread_rest(value.name, value)
        if is_scalar(value):
            return tir.Evaluate(as_expr(value))
        raise self.error(node, "this is not a statement", found=describe(value))

    def _header(self, header: descriptions.HeaderSpec, node: ast.AST) -> None:
        in_function = len(self.frames) == 1
        if in_function != (header.what == "func_attr"):
            place = "at the head of a function" if header.what == "func_attr" else "at the head of a block"
            raise self.error(node, f"T.{header.what} stands {place}")
        headers = self.frames[-1].headers
        if header.what in headers and header.what not in ("func_attr", "block_attr"):
            raise self.error(node, f"T.{header.what} is given twice")
        joined = header.what in ("func_attr", "block_attr")
        headers[header.what] = {**headers.get(header.what, {}), **header.value} if joined else header.value


_REDUCER = "the reducer of T.attr"  # not a Python name: the reducer of the statements after or inside a `T.attr`

# The attributes of a buffer that say where it begins in its storage.
_OFFSETS = ("elem_offset", "access_ptr")


def _is_root(frame: _Frame, depth: int) -> bool:
    return depth == 1 and frame.name == "root" and not frame.iter_vars


def _widens(own: DType, target: DType) -> bool:
    """Return whether one dtype converts to another without loss of range: to a wider dtype, or from an integer to a
    float.
    """
    if own.lanes != target.lanes or own.kind not in _WIDER:
        return False
    if own.kind == target.kind:
        return own.bits < target.bits
    return target.kind in _WIDER[own.kind] and (target.is_float or own.bits < target.bits)


# For each kind of dtype, the kinds to which its values are converted when they are stored.
_WIDER = {"bool": ("int", "uint", "float"), "uint": ("int", "float"), "int": ("float",), "float": ()}


def _converted(value: Any, dtype: DType) -> Expr:
    """Convert a value before it is stored: a constant takes the dtype of the element, and other values are converted to
    a wider dtype if necessary.

    TVM does the same. It also converts floats to integers and values to narrower dtypes, with a warning; here the store
    refuses these.
    """
    if isinstance(value, Expr):
        if isinstance(value, IntImm) and not value.dtype.is_bool and dtype.is_int and dtype.lanes == 1:
            return IntImm(value.value, dtype)
        return value.astype(dtype) if _widens(value.dtype, dtype) else value
    if isinstance(value, float) and not dtype.is_float:
        return as_expr(value)  # the store refuses it, naming both dtypes
    return const(value, dtype)

"""Print programs as TVMScript text: `script(node)`, optionally with marked spots for error messages.

The text can be parsed back: `parse(script(program))` is structurally equal to `program`. The notation is that of TVM
v0.23 or v0.27 (see `dialects`). For things that TVM's language cannot express, we use our own notation:
`@T.prim_func(lowered=True)` for a function without a root block, and `T.call_kernel("name", A, B)` for a kernel call.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ... import expr as ex
from ...errors import InputError
from .. import nodes as tir
from ..all_reduce import AllReduce
from ..conditions import is_const
from .all_reduce import reducer_text, reduction_text
from .dialects import DIALECTS
from .marks import annotate
from .text import ProgramText, quote

_I_HEADER, _T_HEADER = "# from {} import ir as I", "# from {} as T"
_AXIS = {"S": "spatial", "R": "reduce", "O": "opaque"}


def script(
    node: ex.Node,
    *,
    mark: Mapping[ex.Node, str] | None = None,
    dialect: str = "tvm-0.23",
    with_header: bool | None = None,
    context: int | None = None,
    name: str | None = None,
) -> str:
    """Return a module, function, statement, expression, buffer or region as TVMScript.

    `mark` maps nodes of the program to notes. Each node is underlined with `^^^^`, with its note next to the underline:
    a loop, block or function is marked at its header, a variable or buffer at its definition, and anything else in
    full. If you also pass `context=n`, only n lines around each mark are shown, and the headers that enclose them.
    `with_header` puts the imports above the text as comments; by default this is done for whole functions and modules
    without marks. Raises `InputError` for an unknown dialect.
    """
    if dialect not in DIALECTS:
        raise InputError(f"unknown dialect {dialect!r} of TVMScript\n  wanted: {' or '.join(DIALECTS)}")
    marks = dict(mark or {})
    spelling = DIALECTS[dialect]
    printer = TirPrinter(spelling, list(marks))
    if with_header is None:
        with_header = not marks
    if isinstance(node, tir.IRModule):
        header = [_I_HEADER.format(spelling.module.partition(" ")[0]), _T_HEADER.format(spelling.module), ""]
        printer.module(node)
    elif isinstance(node, tir.PrimFunc):
        header = [_T_HEADER.format(spelling.module), ""]
        printer.function(node, name or node.name)
    else:
        header = []
        printer.anything(node)
    lines = [*header, *printer.lines] if with_header else printer.lines
    return annotate(lines, list(marks.values()), context)


class TirPrinter(ProgramText):
    """Prints a program by collecting its lines: functions, statements and blocks."""

    # ---- functions and modules ---------------------------------------------------------------------------------

    def module(self, mod: tir.IRModule) -> None:
        """Print `@I.ir_module class Module:` followed by its functions."""
        self.line("@I.ir_module")
        self.line("class Module:", mod)
        self.depth += 1
        if mod.attrs:
            self.line(f"I.module_attrs({self.value(mod.attrs)})")
            self.line("")
        if not mod.functions:
            self.line("pass")
        for number, (name, function) in enumerate(mod.items()):
            if number:
                self.line("")
            self.function(function, name)
        self.depth -= 1

    def function(self, func: tir.PrimFunc, name: str) -> None:
        """Print `@T.prim_func def name(...):` followed by its body."""
        self.names.push()
        root = trivial_root(func)
        lowered = not isinstance(func.body, tir.BlockRealize) or func.body.block.name != "root"
        options = [] if "global_symbol" in func.attrs else ["private=True"]
        options += ["lowered=True"] if lowered else self.dialect.options
        self.line("@T.prim_func" + (f"({', '.join(options)})" if options else ""))
        taken = {p.name for p in func.params} | {v.name for v in undeclared_sizes(func)}
        for parameter in func.params:  # all parameters come before the dimensions, so that they keep their names
            self.names.define(parameter, parameter.name)
        parameters, matched = [], []
        for parameter in func.params:
            if isinstance(parameter, ex.Var):
                size = self._size(parameter)
                parameters.append(f"{self.name(parameter)}: T.{parameter.dtype}" + (f"({size})" if size else ""))
            elif _fits_signature(parameter):
                arguments = self._buffer_arguments(parameter, dtype=True)
                parameters.append(f"{self.buffer(parameter)}: T.Buffer({arguments})")
            else:
                hint = f"var_{parameter.name}"
                handle = self.names.fresh(hint if hint not in taken else f"{hint}_handle")
                parameters.append(f"{handle}: T.handle")
                matched.append((parameter, handle))
        left_out = () if root is None else (func.body, root)
        self.line(f"def {name}({', '.join(parameters)}):", func, *left_out)
        self.depth += 1
        attrs = {k: v for k, v in func.attrs.items() if not (k == "global_symbol" and v == name)}
        if attrs:
            attrs = {re.sub("^tir[.]", self.dialect.prefix, key): value for key, value in attrs.items()}
            self.line(f"T.func_attr({self.value(attrs)})")
        for variable in undeclared_sizes(func):
            self.line(f"{self.define(variable)} = T.{variable.dtype}({self._size(variable)})")
        for parameter, handle in matched:
            self.line(f"{self.buffer(parameter)} = T.match_buffer({handle}, {self._buffer_arguments(parameter)})")
        if root is None:
            self.suite(func.body)
        else:
            for allocated in root.alloc_buffers:
                self._alloc(allocated)
            self.suite(root.body)
        self.depth -= 1
        self.names.pop()

    def _size(self, variable: ex.Var) -> str:
        return "is_size_var=True" if isinstance(variable, ex.SizeVar) and self.dialect.size_vars else ""

    def _buffer_arguments(self, b: tir.Buffer, dtype: bool = False) -> str:
        """Return the arguments that describe a buffer, for example `(128, 128), "float32", scope="local"`.

        Defaults are left out; with `dtype`, the dtype is always included.
        """
        shape = ", ".join(map(self.expr, b.shape)) + ("," if len(b.shape) == 1 else "")
        parts = [f"({shape})"]
        if dtype or b.dtype != "float32":
            parts.append(quote(str(b.dtype)))
        if b.strides:
            parts.append(f"strides=({', '.join(map(self.expr, b.strides))}{',' if len(b.strides) == 1 else ''})")
        if not is_const(b.elem_offset, 0) or b.elem_offset.dtype != "int32":
            parts.append(f"elem_offset={self.expr(b.elem_offset)}")
        if b.scope != "global":
            parts.append(f"scope={quote(b.scope)}")
        if b.align != 64:
            parts.append(f"align={b.align}")
        if b.device != "cpu":
            parts.append(f"device={quote(b.device)}")
        if b.axis_separators:
            parts.append(f"axis_separators={list(b.axis_separators)}")
        return ", ".join(parts)

    def _alloc(self, buffer: tir.Buffer) -> None:
        arguments = self._buffer_arguments(buffer)
        self.line(f"{self.define(buffer)} = T.{self.dialect.alloc_buffer}({arguments})")

    # ---- statements --------------------------------------------------------------------------------------------

    def anything(self, item: ex.Node) -> None:
        """Print a node other than a function or module, such as a statement, an expression or a buffer."""
        if isinstance(item, tir.Stmt):
            return self.suite(item)
        if isinstance(item, ex.Expr):
            text = self.expr(item)
        elif isinstance(item, tir.BufferRegion):
            text = self.region(item)
        elif isinstance(item, ex.Range):
            text = self.fenced(item, f"range({', '.join(self.span(item))})")
        elif isinstance(item, tir.Buffer):
            text = f"{self.define(item)}: T.Buffer({self._buffer_arguments(item, dtype=True)})"
        elif isinstance(item, ex.IterVar):
            text = self._axis(item, None)
        elif isinstance(item, tir.Tile):
            text = self._tile(item)
        elif isinstance(item, tir.MatchBufferRegion):
            text = self._match(item)
        else:
            text = repr(item)
        self.line(text)

    def suite(self, stmt: tir.Stmt) -> None:
        """Print a statement at the current indentation.

        The body of a let or an allocation that comes last is not nested: it continues at the same indentation. With
        `dialect.flat_lets`, this holds for every let.
        """
        self.names.push()
        pending = [stmt]
        # The body of a last `let` or allocation is in the same block. There may be thousands of them: no recursion.
        while pending:
            item = pending.pop()
            if isinstance(item, tir.Seq) and item.stmts:
                pending.extend(reversed(item.stmts))
            elif isinstance(item, tir.LetStmt) and (not pending or self.dialect.flat_lets):
                value, dtype = self.expr(item.value), f"T.{item.var.dtype}"
                kind = f"T.let[{dtype}]" if self.dialect.flat_lets else dtype
                self.line(f"{self.define(item.var)}: {kind} = {value}", item)
                pending.append(item.body)
            elif not pending and isinstance(item, tir.Allocate):
                arguments = self._allocation(item)
                self.line(f"{self.define(item.buffer)} = T.decl_buffer({arguments})", item)
                pending.append(item.body)
            else:
                self.stmt(item)
        self.names.pop()

    def stmt(self, s: tir.Stmt) -> None:
        """Print one statement, including everything nested inside it."""
        if isinstance(s, tir.BufferStore):
            self._store(s)
        elif isinstance(s, tir.For):
            self._for(s)
        elif isinstance(s, tir.BlockRealize):
            self._block(s.block, s)
        elif isinstance(s, tir.Block):
            self._block(s, None)
        elif isinstance(s, tir.If):
            self._if(s)
        elif isinstance(s, tir.While):
            self.line(f"while {self.expr(s.condition)}:", s)
            self._indented(s.body)
        elif isinstance(s, tir.LetStmt):
            value = self.expr(s.value)
            self._scope(f"with T.LetStmt({value})", s.var, s)
        elif isinstance(s, tir.Allocate):
            self._scope(f"with T.decl_buffer({self._allocation(s)})", s.buffer, s)
        elif isinstance(s, tir.Assert):
            self.line(f"assert {self.expr(s.condition)}, {quote(s.message)}", s)
        elif isinstance(s, tir.Evaluate):
            text = self.expr(s.value)
            self.line(text if isinstance(s.value, ex.Call) else f"T.evaluate({text})", s)
        elif isinstance(s, tir.Instruction):
            operands = [self._tile(o) if isinstance(o, tir.Tile) else self.expr(o) for o in s.operands]
            operands += [f"together={s.together}"] if s.together > 1 else []
            self.line(f"with T.instruction({', '.join([quote(s.name), *operands])}):", s)
            self._indented(s.body)
        elif isinstance(s, tir.Async):
            self.line("with T.async_scope():", s)
            self._indented(s.body)
        elif isinstance(s, tir.Prefetch):
            self.line(f"T.prefetch({self.buffer(s.buffer)}[{self.expr(s.index)}])", s)
        elif isinstance(s, AllReduce):
            self._all_reduce(s)
        elif isinstance(s, tir.KernelCall):
            args = [quote(s.kernel), *(self.buffer(a) if isinstance(a, tir.Buffer) else self.expr(a) for a in s.args)]
            args += ["parallel=True"] if s.parallel else []
            args += [f"grid=({', '.join(map(self.expr, s.grid))})"] if s.grid else []
            self.line(f"T.call_kernel({', '.join(args)})", s)
        elif isinstance(s, tir.Seq):
            self.line("pass", s)
        else:
            raise InputError(f"the printer does not know the statement {type(s).__name__}")

    def _tile(self, tile: tir.Tile) -> str:
        return f"T.tile({', '.join(map(self.expr, tile.places))})"

    def _all_reduce(self, s: AllReduce) -> None:
        self.names.push()
        reducer = reducer_text(s.reducer, self.define, self.expr)
        self.names.pop()
        self.line(f'with T.attr({reducer}, "reduce_scope", T.reinterpret("handle", T.uint64(0))):', s)
        self.depth += 1
        self.line(reduction_text(s, lambda b: f"{self.buffer(b.buffer)}[{self._indices(b.indices)}]", self.expr))
        self.depth -= 1

    def _indented(self, body: tir.Stmt) -> None:
        self.depth += 1
        self.suite(body)
        self.depth -= 1

    def _store(self, s: tir.BufferStore) -> None:
        name, value = self.buffer(s.buffer), self.expr(s.value)
        if s.predicate is None:
            self.line(f"{name}[{self._indices(s.indices)}] = {value}", s)
        else:
            indices = self._indices(s.indices, empty="")
            self.line(f"{name}.vstore([{indices}], {value}, predicate={self.expr(s.predicate)})", s)

    def _for(self, s: tir.For) -> None:
        nest = grid_of(s)
        if len(nest) > 1:
            extents = [self.expr(loop.extent) for loop in nest]
            self.names.push()
            variables = [self.fenced(loop, self.define(loop.var)) for loop in nest]
            self.line(f"for {', '.join(variables)} in T.grid({', '.join(extents)}):")
        else:
            header = self._iterable(s)
            self.names.push()
            self.line(f"for {self.define(s.var)} in {header}:", s)
        outer = dict(self._loops)
        self._loops.update({loop.var: (loop.start, loop.extent) for loop in nest})
        self._indented(nest[-1].body)
        self._loops = outer
        self.names.pop()

    def _iterable(self, s: tir.For) -> str:
        from_zero = is_const(s.start, 0) and s.start.dtype == s.extent.dtype
        arguments = [self.expr(s.extent)] if from_zero else list(self.span(ex.Range(s.start, s.extent)))
        if s.kind is tir.ForKind.SERIAL and not s.annotations:
            return f"range({', '.join(arguments)})"
        name = {tir.ForKind.UNROLLED: "unroll", tir.ForKind.THREAD: "thread_binding"}.get(s.kind, str(s.kind))
        if s.thread is not None:
            arguments.append(f"thread={quote(s.thread)}")
        if s.annotations:
            arguments.append(f"annotations={self.value(s.annotations)}")
        return f"T.{name}({', '.join(arguments)})"

    def _if(self, s: tir.If) -> None:
        keyword = "if"
        while True:
            self.line(f"{keyword} {self.expr(s.condition)}:", s)
            self._indented(s.then_case)
            if not isinstance(s.else_case, tir.If):
                break
            s, keyword = s.else_case, "elif"
        if s.else_case is not None:
            self.line("else:")
            self._indented(s.else_case)

    def _scope(self, opening: str, defined: ex.Var | tir.Buffer, s: tir.LetStmt | tir.Allocate) -> None:
        self.names.push()
        self.line(f"{opening} as {self.define(defined)}:", s)
        self._indented(s.body)
        self.names.pop()

    def _allocation(self, s: tir.Allocate) -> str:
        annotations = f", annotations={self.value(s.annotations)}" if s.annotations else ""
        return self._buffer_arguments(s.buffer) + annotations

    # ---- blocks ------------------------------------------------------------------------------------------------

    def _block(self, block: tir.Block, realize: tir.BlockRealize | None) -> None:
        owners: tuple[ex.Node, ...] = (block,) if realize is None else (realize, block)
        self.line(f"with T.{self.dialect.block}({quote(block.name)}):", *owners)
        self.depth += 1
        self.names.push()
        self._axes(block.iter_vars, realize.iter_values if realize is not None else None)
        if realize is not None and not is_true(realize.predicate):
            self.line(f"T.where({self.expr(realize.predicate)})")
        for name, regions in (("reads", block.reads), ("writes", block.writes)):
            self.line(f"T.{name}({', '.join(map(self.region, regions))})")
        if block.annotations:
            self.line(f"T.{self.dialect.block_attr}({self.value(block.annotations)})")
        for buffer in block.alloc_buffers:
            self._alloc(buffer)
        for match in block.match_buffers:
            for variable in _layout_variables(match.buffer):  # they have the values of the source
                if not self.names.knows(variable):
                    self.line(f"{self.define(variable)} = T.{variable.dtype}({self._size(variable)})")
            self.line(self._match(match), match)
        if block.init is not None:
            self.line("with T.init():")
            self._indented(block.init)
        self.suite(block.body)
        self.names.pop()
        self.depth -= 1

    def _match(self, m: tir.MatchBufferRegion) -> str:
        source = self.region(m.source)
        return f"{self.define(m.buffer)} = T.match_buffer({source}, {self._buffer_arguments(m.buffer)})"

    def _axes(self, iter_vars: Sequence[ex.IterVar], values: Sequence[ex.Expr] | None) -> None:
        if values is None or len(values) != len(iter_vars):  # a single block, or one that the verifier refuses
            for axis in iter_vars:
                self.line(self._axis(axis, None))
            if values:
                self.line(f"# bound to {', '.join(map(self.expr, values))}")
            return
        group: list[tuple[ex.IterVar, ex.Expr]] = []
        for axis, value in zip(iter_vars, values, strict=True):
            if self._remaps(axis, value):
                group.append((axis, value))
                continue
            self._remap(group)
            group = []
            self.line(self._axis(axis, value))
        self._remap(group)

    def _remaps(self, axis: ex.IterVar, value: ex.Expr) -> bool:
        if not isinstance(value, ex.Var) or value not in self._loops or axis.kind not in self.dialect.remaps:
            return False
        start, extent = self._loops[value]
        same = ex.structural_equal(axis.dom.start, start) and ex.structural_equal(axis.dom.extent, extent)
        return same and axis.var.dtype == value.dtype

    def _remap(self, group: Sequence[tuple[ex.IterVar, ex.Expr]]) -> None:
        if not group:
            return
        values = ", ".join(self.expr(value) for _, value in group)
        names = ", ".join(self.fenced(axis, self.define(axis.var)) for axis, _ in group)
        kinds = "".join(axis.kind for axis, _ in group)
        self.line(f'{names} = T.axis.remap("{kinds}", [{values}])')

    def _axis(self, axis: ex.IterVar, value: ex.Expr | None) -> str:
        bound = "" if value is None else f", {self.expr(value)}"
        from_zero = is_const(axis.dom.start, 0) and axis.dom.start.dtype == axis.dom.extent.dtype
        domain = self.expr(axis.dom.extent) if from_zero else f"({', '.join(self.span(axis.dom))})"
        name = self.fenced(axis, self.define(axis.var))
        return f"{name} = T.axis.{_AXIS[axis.kind]}({self.fenced(axis.dom, domain)}{bound})"


def grid_of(loop: tir.For) -> list[tir.For]:
    """Return the loops from `loop` inward that can be printed as one `T.grid`: plain loops that start at zero and have
    independent extents.
    """
    nest = [loop]
    if not _is_plain(loop):
        return nest
    while isinstance(inner := nest[-1].body, tir.For) and _is_plain(inner):
        used = set(ex.find(inner.extent, ex.Var))
        if used & {outer.var for outer in nest}:
            break
        nest.append(inner)
    return nest


def trivial_root(func: tir.PrimFunc) -> tir.Block | None:
    """Return the root block if it contains nothing but allocations, so that it need not be printed; otherwise None."""
    if not isinstance(func.body, tir.BlockRealize) or not is_true(func.body.predicate) or func.body.iter_values:
        return None
    root = func.body.block
    if root.name != "root" or root.iter_vars or root.reads or root.writes or root.init is not None:
        return None
    return None if root.match_buffers or root.annotations else root


def _layout_variables(buffer: tir.Buffer) -> list[ex.Var]:
    parts = (*buffer.shape, *buffer.strides, buffer.elem_offset)
    return list(dict.fromkeys(v for part in parts for v in ex.free_vars(part)))


def undeclared_sizes(func: tir.PrimFunc) -> list[ex.Var]:
    """Return the variables used by the buffers of the signature that are not parameters themselves, in order of first
    use.
    """
    sizes: dict[ex.Var, None] = {}
    for buffer in func.buffers:
        for part in (*buffer.shape, *buffer.strides, buffer.elem_offset):
            for variable in ex.free_vars(part):
                sizes.setdefault(variable)
    return [v for v in sizes if not any(v is p for p in func.params)]


def is_true(e: ex.Expr) -> bool:
    """Return whether an expression is the constant True."""
    return isinstance(e, ex.IntImm) and e.dtype.is_bool and e.value == 1


def _is_plain(loop: tir.For) -> bool:
    from_zero = is_const(loop.start, 0) and loop.start.dtype == loop.extent.dtype
    return loop.kind is tir.ForKind.SERIAL and not loop.annotations and from_zero


def _fits_signature(b: tir.Buffer) -> bool:
    return all(isinstance(part, ex.IntImm) for part in (*b.shape, *b.strides, b.elem_offset))

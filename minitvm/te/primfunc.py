"""`create_prim_func` turns tensor expressions into a loop program, with one block for each compute (TVM's name)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .. import expr as ex
from ..errors import InputError, report
from ..expr.conditions import is_const
from ..expr.printer import fresh
from ..tir import nodes as tir
from ..tir.analysis.block_regions import with_declared_regions, with_merged_reads
from ..tir.analysis.tree import fresh_copy
from .nodes import ComputeOp, ExternOp, Operation, PlaceholderOp, Tensor, TensorLoad
from .tensors import post_order


def create_prim_func(
    ops: Sequence[Tensor | ex.Var] | Tensor,
    index_dtype_override: str | None = None,
    name: str = "main",
) -> tir.PrimFunc:
    """Return a function that computes tensors from placeholders. `ops` lists the placeholders and the tensors, in
    parameter order.

    Each compute becomes a block with its signature, spatial iterators first; the root block allocates all tensors that
    are not parameters. The attrs of a compute become annotations of its block. Variables in `ops` become scalar
    parameters; other free variables must be dimensions of some parameter. A reduction over a constant extent of 0
    stores its initial value; over a symbolic extent it has TVM's form, which stores nothing if the extent is 0 at run
    time. With `index_dtype_override`, loops and indices have that dtype. Raises `InputError` when a needed placeholder
    or variable is missing from `ops`.
    """
    args: list[Tensor | ex.Var] = [ops] if isinstance(ops, Tensor) else list(ops)
    _check_args(args)
    lowering = _FunctionBuilder(index_dtype_override)
    tensors = [arg for arg in args if isinstance(arg, Tensor)]
    for tensor in tensors:
        lowering.declare(tensor)
    allocated: list[tir.Buffer] = []
    stmts: list[tir.Stmt] = []
    ordered = post_order(tensors)
    done: set[Operation] = set()
    for tensor in ordered:
        op = tensor.op
        if isinstance(op, PlaceholderOp):
            _check_is_argument(tensor, tensors)
            continue
        if not isinstance(op, ComputeOp | ExternOp) or op in done:
            continue
        done.add(op)
        outputs = _outputs(op, tensor, [*tensors, *ordered])
        allocated += [lowering.declare(out) for out in outputs if out not in lowering.buffers]
        if isinstance(op, ExternOp):
            body, own = lowering.extern(op, outputs)
            allocated += own
            stmts.append(body)
        else:
            stmts += lowering.blocks(op, outputs)
    if not stmts:
        raise InputError("create_prim_func: there is nothing to compute: every tensor given is a placeholder")
    params = tuple(lowering.buffers[arg] if isinstance(arg, Tensor) else arg for arg in args)
    func = tir.with_root(
        params, tir.Seq.of(*stmts), {"global_symbol": name, "tir.noalias": True}, alloc_buffers=tuple(allocated)
    )
    _check_variables(func, allocated)
    return func


def _check_args(args: Iterable[Any]) -> None:
    seen: set[ex.Node] = set()
    for arg in args:
        if not isinstance(arg, Tensor | ex.Var):
            raise InputError(f"create_prim_func: wanted tensors and variables, found {arg!r}")
        if arg in seen:
            raise InputError(f"create_prim_func: {arg} is given twice; a parameter has one place")
        seen.add(arg)


def _check_is_argument(tensor: Tensor, arguments: list[Tensor]) -> None:
    if any(tensor is other for other in arguments):
        return
    raise InputError(
        report(
            f"create_prim_func: placeholder {tensor.name} is needed and not a parameter",
            wanted=f"{tensor.name} among the arguments",
            found=f"[{', '.join(t.name for t in arguments)}]",
            tries=[f"create_prim_func([{', '.join([tensor.name, *(t.name for t in arguments)])}])"],
        )
    )


def _check_variables(func: tir.PrimFunc, allocated: list[tir.Buffer]) -> None:
    defined: set[ex.Var] = {p for p in func.params if isinstance(p, ex.Var)}
    for buffer in func.buffers:
        defined.update(v for dim in buffer.shape for v in ex.walk(dim) if isinstance(v, ex.Var))
    used = dict.fromkeys(ex.free_vars(func.body))
    used.update({v: None for b in allocated for dim in b.shape for v in ex.free_vars(dim)})
    unknown = [v.name for v in used if v not in defined]
    if unknown:
        raise InputError(
            f"create_prim_func: {', '.join(unknown)} has no value: it is no parameter, no dimension of one, and no"
            f" axis of its compute\n  try:    give it among the arguments, or reduce over the axis that it belongs to"
        )


def _outputs(op: ComputeOp | ExternOp, first: Tensor, tensors: list[Tensor]) -> list[Tensor]:
    """Return a tensor for every output of `op`: those that the program uses, and new tensors for unused outputs."""
    outputs = {first.value_index: first}
    for tensor in tensors:
        if tensor.op is op:
            outputs.setdefault(tensor.value_index, tensor)
    if isinstance(op, ExternOp):
        return [outputs.get(k) or Tensor(op, b.shape, b.dtype, k) for k, b in enumerate(op.results)]
    return [outputs.get(k) or Tensor(op, first.shape, body.dtype, k) for k, body in enumerate(op.body)]


class _FunctionBuilder:
    """The buffers and names of a function under construction."""

    def __init__(self, index_dtype: str | None) -> None:
        self.index_dtype = None if index_dtype is None else ex.DType(index_dtype)
        self.buffers: dict[Tensor, tir.Buffer] = {}
        self.buffer_names: set[str] = set()
        self.block_names: set[str] = {"root"}

    def declare(self, tensor: Tensor) -> tir.Buffer:
        name = fresh(tensor.name, self.buffer_names)
        buffer = tir.Buffer(name, tuple(self.index(d) for d in tensor.shape), tensor.dtype)
        self.buffers[tensor] = buffer
        return buffer

    def index(self, value: ex.Expr) -> ex.Expr:
        return value if self.index_dtype is None else _as_index(value, self.index_dtype)

    def blocks(self, op: ComputeOp, outputs: list[Tensor]) -> list[tir.Stmt]:
        """Return the blocks of a compute: one for a reduction, even with several outputs, or else one per output."""
        if isinstance(op.body[0], ex.Reduce):
            if any(is_const(a.dom.extent, 0) for a in op.reduce_axis):
                # There is nothing to reduce: the init is part of the first iteration, which never runs.
                return [self.nest(op, [output], op.axis) for output in outputs]
            return [self.nest(op, outputs, op.axis + op.reduce_axis)]
        return [self.nest(op, [output], op.axis) for output in outputs]

    def extern(self, op: ExternOp, outputs: list[Tensor]) -> tuple[tir.Stmt, list[tir.Buffer]]:
        """Return the loops of a loop program, rewritten to use the tensors' buffers, and the buffers that it
        allocates.
        """
        root = tir.root_block(op.func)
        paired = zip(op.func.buffers, (*op.inputs, *outputs), strict=True)
        moved = {buffer: self.buffers[tensor] for buffer, tensor in paired}
        shared = len(set(op.inputs)) < len(op.inputs)
        for buffer in root.alloc_buffers:
            moved[buffer] = ex.replace(buffer, name=fresh(buffer.name, self.buffer_names))

        def change(at: ex.Node) -> ex.Node | None:
            if (
                isinstance(at, tir.BufferLoad | tir.BufferStore | tir.BufferRegion | tir.BufferData)
                and at.buffer in moved
            ):
                return ex.replace(at, buffer=moved[at.buffer])
            if isinstance(at, tir.Block):
                block = ex.replace(at, name=fresh(at.name, self.block_names))
                return with_merged_reads(block) if shared else block
            return None

        # A function may be called twice: each call gets its own loops and blocks.
        return fresh_copy(ex.rewrite(root.body, change)), [moved[buffer] for buffer in root.alloc_buffers]

    def nest(self, op: ComputeOp, outputs: list[Tensor], axes: tuple[ex.IterVar, ...]) -> tir.Stmt:
        iter_vars, loops, values = [], [], {}
        for axis in axes:
            start, extent = self.index(axis.dom.start), self.index(axis.dom.extent)
            dtype = self.index_dtype or axis.var.dtype
            block_var = ex.Var(f"v_{axis.var.name}", dtype)
            iter_vars.append(ex.IterVar(block_var, ex.Range(start, extent), axis.kind))
            loops.append((ex.Var(axis.var.name, dtype), start, extent))
            values[axis.var] = block_var
        buffers = [self.buffers[t] for t in outputs]
        point = tuple(values[a.var] for a in op.axis)
        first = op.body[0]
        init: tir.Stmt | None
        body: tir.Stmt
        reduces = any(axis.kind == ex.REDUCE for axis in axes)
        if isinstance(first, ex.Reduce) and not reduces:
            start = (first.init or first.combiner.identity)[outputs[0].value_index]
            init, body = None, tir.BufferStore(buffers[0], self.element(start, values).astype(buffers[0].dtype), point)
        elif isinstance(first, ex.Reduce):
            init, body = self.reduction(first, buffers, point, values)
        else:
            value = self.element(op.body[outputs[0].value_index], values)
            init, body = None, tir.BufferStore(buffers[0], value.astype(buffers[0].dtype), point)
        label = op.name if len(outputs) > 1 else outputs[0].name
        block = with_declared_regions(
            tir.Block(tuple(iter_vars), (), (), fresh(label, self.block_names), body, init, annotations=dict(op.attrs))
        )
        stmt: tir.Stmt = tir.BlockRealize(tuple(loop for loop, _, _ in loops), ex.const(True), block)
        for var, start, extent in reversed(loops):
            stmt = tir.For(var, start, extent, tir.ForKind.SERIAL, stmt)
        return stmt

    def reduction(
        self, reduce: ex.Reduce, buffers: list[tir.Buffer], point: tuple[ex.Expr, ...], values: Mapping[ex.Var, ex.Expr]
    ) -> tuple[tir.Stmt, tir.Stmt]:
        """Return the statements (init, update) of a reduction into `buffers` at `point`."""
        combiner = reduce.combiner
        starts = [self.element(e, values).astype(e.dtype) for e in reduce.init or combiner.identity]
        init = tir.Seq.of(*(tir.BufferStore(b, s, point) for b, s in zip(buffers, starts, strict=True)))
        sources = [self.element(s, values).astype(s.dtype) for s in reduce.sources]
        condition = self.element(reduce.condition, values)
        if not (isinstance(condition, ex.IntImm) and condition.value):
            # If the condition fails, the identity is combined, so that the update stays a plain reduction.
            sources = [
                ex.call("if_then_else", condition, s, i) for s, i in zip(sources, combiner.identity, strict=True)
            ]
        arguments: dict[ex.Var, ex.Expr] = {}
        arguments.update(zip(combiner.lhs, (tir.BufferLoad(b, point) for b in buffers), strict=True))
        arguments.update(zip(combiner.rhs, sources, strict=True))
        results = [ex.substitute(result, arguments) for result in combiner.results]
        if len(buffers) == 1:
            return init, tir.BufferStore(buffers[0], results[0], point)
        # All results are computed before the first is stored: each may read all the old values.
        names = [ex.DataVar(f"v_{b.name}", b.dtype) for b in buffers]
        update = tir.Seq.of(*(tir.BufferStore(b, v, point) for b, v in zip(buffers, names, strict=True)))
        for var, result in reversed(list(zip(names, results, strict=True))):
            update = tir.LetStmt(var, result, update)
        return init, update

    def element(self, value: ex.Expr, values: Mapping[ex.Var, ex.Expr]) -> ex.Expr:
        """Rewrite a te expression so that it uses buffers and block iterators."""

        def go(old: Any) -> Any:
            if isinstance(old, ex.Var):
                return values.get(old, old)
            if isinstance(old, TensorLoad):
                indices = tuple(go(i) for i in old.indices)
                return tir.BufferLoad(self.buffers[old.tensor], tuple(self.index(i) for i in indices))
            if self.index_dtype is None:
                return ex.map_children(old, go)
            return _retyped(old, go)

        return go(value)


def _retyped(old: ex.Node, go: Any) -> Any:
    """Like `map_children`, but convert the operands of a node to a common dtype again, because iterators in them have a
    new dtype.
    """
    if isinstance(old, ex.BinaryOp):
        return type(old)(*ex.match(go(old.a), go(old.b)))
    if isinstance(old, ex.Select):
        return ex.Select(go(old.condition), *ex.match(go(old.true_value), go(old.false_value)))
    if isinstance(old, ex.Call) and len(old.args) > 1:
        return ex.call(old.op, *(go(a) for a in old.args))
    return ex.map_children(old, go)


def _as_index(value: ex.Expr, dtype: ex.DType) -> ex.Expr:
    return ex.const(value.value, dtype) if isinstance(value, ex.IntImm) else value.astype(dtype)

"""The rules that apply both before and after lowering: names, indices, dtypes, threads."""

from __future__ import annotations

from ...expr import Node, Select, Var, find, walk
from ...expr.visitor import variables
from .. import nodes as tir
from ..analysis.threads import is_thread, why_not_again
from ..strides import why_not_strides
from . import visibility
from .rule import Broken, Rule, rule

SHARED_RULES: list[Rule] = []


@rule(SHARED_RULES)
def variables_are_defined(func: tir.PrimFunc) -> Broken:
    """a variable is a parameter, a symbolic dimension, or defined by a loop, block or let around its use"""
    for row in visibility.scoped(func):
        tree, scope, whole = row
        if whole and variables(tree) <= scope.variables:
            continue
        for node in visibility.nodes_in(row):
            if isinstance(node, Var) and node not in scope.variables:
                yield node, f"{node.name} is not defined here"


@rule(SHARED_RULES)
def variables_are_defined_once(func: tir.PrimFunc) -> Broken:
    """each loop, iterator and let defines a different variable"""
    seen = {p for p in func.params if isinstance(p, Var)} | set(visibility.dimensions(func))
    for node in visibility.nodes_of(func, tir.For, tir.Block, tir.LetStmt):
        defined = [a.var for a in node.iter_vars] if isinstance(node, tir.Block) else [getattr(node, "var", None)]
        for variable in defined:
            if variable in seen:
                yield node, f"{variable.name} is defined a second time"
            elif variable is not None:
                seen.add(variable)


@rule(SHARED_RULES)
def buffers_are_defined(func: tir.PrimFunc) -> Broken:
    """a buffer is a parameter, or allocated or matched by a block or statement around its use"""
    for row in visibility.scoped(func):
        tree, scope, whole = row
        if whole and visibility.buffers_in(tree) <= scope.buffers:
            continue
        for node in visibility.nodes_in(row):
            for buffer in node.args if isinstance(node, tir.KernelCall) else (visibility.used_buffer(node),):
                if isinstance(buffer, tir.Buffer) and buffer not in scope.buffers:
                    yield node, f"{buffer.name} is not defined here"


@rule(SHARED_RULES)
def buffers_are_defined_once(func: tir.PrimFunc) -> Broken:
    """each parameter, allocation and view defines a different buffer"""
    seen: set[tir.Buffer] = set()
    definitions: list[tuple[Node, tir.Buffer]] = [(b, b) for b in func.buffers]
    for node in visibility.nodes_of(func, tir.Block, tir.Allocate):
        if isinstance(node, tir.Block):
            definitions += [(node, b) for b in node.alloc_buffers] + [(m, m.buffer) for m in node.match_buffers]
        elif isinstance(node, tir.Allocate):
            definitions.append((node, node.buffer))
    for node, buffer in definitions:
        if buffer in seen:
            yield node, f"{buffer.name} is defined a second time"
        seen.add(buffer)


@rule(SHARED_RULES)
def dimensions_can_be_bound(func: tir.PrimFunc) -> Broken:
    """a symbolic dimension is a parameter, or an entry of a parameter's shape, strides or offset by itself"""
    if func.attrs.get("host"):
        return  # its buffers are flat; the linker knows the dimensions from the function that it was lowered from
    scalars = {p for p in func.params if isinstance(p, Var)}
    alone = {part for b in func.buffers for part in (*b.shape, *b.strides, b.elem_offset) if isinstance(part, Var)}
    for buffer in func.buffers:
        for part in (*buffer.shape, *buffer.strides, buffer.elem_offset):
            for item in walk(part):
                if isinstance(item, Var) and item not in scalars and item not in alone:
                    yield buffer, f"{item.name} stands only inside {part}: no argument tells its value"


@rule(SHARED_RULES)
def strides_are_injective(func: tir.PrimFunc) -> Broken:
    """explicit strides have one entry for each dimension, and give each element a different location"""
    buffers: list[tuple[Node, tir.Buffer]] = [(b, b) for b in func.buffers]
    for node in visibility.nodes_of(func, tir.Block, tir.Allocate):
        if isinstance(node, tir.Block):
            buffers += [(b, b) for b in node.alloc_buffers] + [(m, m.buffer) for m in node.match_buffers]
        elif isinstance(node, tir.Allocate):
            buffers.append((node, node.buffer))
    for node, buffer in buffers:
        wrong = why_not_strides(buffer.shape, buffer.strides, buffer.elem_offset)
        if wrong:
            yield node, f"{buffer.name}: {wrong}"


@rule(SHARED_RULES)
def indices_are_integers(func: tir.PrimFunc) -> Broken:
    """loads, stores and regions have one integer index for each dimension"""
    for node in visibility.nodes_of(func, *visibility.USES_BUFFER):
        buffer = visibility.used_buffer(node)
        if buffer is None or isinstance(node, tir.BufferData):
            continue
        indices = [r.start for r in node.region] if isinstance(node, tir.BufferRegion) else node.indices  # type: ignore[attr-defined]
        if len(indices) != buffer.ndim:
            yield node, f"{len(indices)} indices of {buffer.name}, which has {buffer.ndim} dimensions"
        for index in indices:
            if not index.dtype.is_int:
                yield node, f"the index {index} has dtype {index.dtype}"


@rule(SHARED_RULES)
def loops_are_over_integers(func: tir.PrimFunc) -> Broken:
    """the start, extent and variable of a loop have the same integer dtype"""
    for node in visibility.nodes_of(func, tir.For):
        assert isinstance(node, tir.For)
        dtypes = {node.var.dtype, node.start.dtype, node.extent.dtype}
        if len(dtypes) > 1 or not node.var.dtype.is_int:
            fault = f"{node.var.dtype} runs from {node.start.dtype} over {node.extent.dtype}"
            yield node, fault


@rule(SHARED_RULES)
def conditions_are_bool(func: tir.PrimFunc) -> Broken:
    """conditions and predicates are bool; those of statements and blocks have one lane"""
    for node in visibility.nodes_with(func, *visibility.CONDITIONS):
        for condition in visibility.conditions(node):
            scalar = not isinstance(node, tir.BufferStore) and visibility.used_buffer(node) is None
            vector = condition.dtype.lanes > 1 and not isinstance(node, Select)
            if not condition.dtype.is_bool or (scalar and vector):
                yield node, f"{condition} has dtype {condition.dtype}"


@rule(SHARED_RULES)
def instructions_touch_their_operands(func: tir.PrimFunc) -> Broken:
    """an instruction touches only the buffers of its tiles, and buffers that it allocates itself"""
    for node in visibility.nodes_of(func, tir.Instruction):
        assert isinstance(node, tir.Instruction)
        inside = {n.buffer for n in find(node.body, tir.Allocate)}
        known = {tile.buffer for tile in node.tiles}
        for part in walk(node.body):
            buffer = visibility.used_buffer(part)
            if buffer is not None and buffer not in known and buffer not in inside:
                yield node, f"{buffer.name} is no operand of {node.name}"


@rule(SHARED_RULES)
def thread_loops_name_their_axis(func: tir.PrimFunc) -> Broken:
    """thread loops, and no others, name an axis; an inner loop over the same axis divides its work among the threads"""
    for node, scope in visibility.statements_of(func, tir.For):
        if (node.thread is not None) != (node.kind is tir.ForKind.THREAD):
            yield node, f"kind {node.kind} with thread={node.thread}"
        outer = [loop for loop in scope.loops if loop.thread is not None and loop.thread == node.thread]
        if outer and not str(node.thread).startswith("vthread"):
            reason = why_not_again(outer[0], node) if is_thread(node) else ""
            if reason is not None:
                already = f"{node.thread} is bound by the loop over {outer[0].var.name} already"
                yield node, f"{already}; {reason}" if reason else already

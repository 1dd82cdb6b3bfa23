"""The rules of level 3 and of the kernel level, one short function each.

`verify(func)` raises `VerificationError` naming the first rule that is broken, with the spot marked. With
MINITVM_VERIFY=1 (`errors.verification_asked`) a schedule checks its function after every step, lowering what it is
given and the kernels it makes, by `verify_if_asked`.

Claims (declared regions, iterators in their domains) are refuted only where plain interval reasoning decides; the rest
is for the reference interpreter's shadow checks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from ..arith import Analyzer
from ..errors import VerificationError, report, verification_asked
from ..expr import REDUCE, IntImm, Node, Range, Select, Var, children, walk
from .analysis.accesses import handed_out
from .analysis.effects import effects
from .analysis.threads import is_thread, why_not_again
from .analysis.touches import Box, Touch, stretch
from .conditions import is_const
from .nodes import (
    Allocate,
    Block,
    BlockRealize,
    Buffer,
    BufferData,
    BufferRegion,
    BufferStore,
    For,
    ForKind,
    IRModule,
    KernelCall,
    LetStmt,
    MatchBufferRegion,
    PrimFunc,
)
from .scopes import Scope, conditions, dimensions, every_node, scoped, used_buffer
from .strides import why_not_strides

Broken = Iterator[tuple[Node, str]]


@dataclass(frozen=True, slots=True)
class Rule:
    """A named rule: `check(func)` yields each node that breaks it, and what was found there."""

    name: str
    meaning: str
    check: Callable[[PrimFunc], Broken]


TIR_RULES: list[Rule] = []
SHARED_RULES: list[Rule] = []


def rule(*tables: list[Rule]) -> Callable[[Callable[[PrimFunc], Broken]], Callable[[PrimFunc], Broken]]:
    """Enter a function into tables: its name is the rule's, its docstring what it demands."""

    def register(check: Callable[[PrimFunc], Broken]) -> Callable[[PrimFunc], Broken]:
        for table in tables:
            table.append(Rule(check.__name__, (check.__doc__ or "").strip(), check))
        return check

    return register


# ---- names, at both levels -----------------------------------------------------------------------------------------


@rule(SHARED_RULES)
def variables_are_defined(func: PrimFunc) -> Broken:
    """a variable is a parameter, a symbolic dimension, or defined by a loop, block or let around its use"""
    for node, scope in scoped(func):
        if isinstance(node, Var) and node not in scope.variables:
            yield node, f"{node.name} is not defined here"


@rule(SHARED_RULES)
def variables_are_defined_once(func: PrimFunc) -> Broken:
    """every loop, iterator and let has a variable of its own"""
    seen = {p for p in func.params if isinstance(p, Var)} | set(dimensions(func))
    for node in every_node(func):
        defined = [a.var for a in node.iter_vars] if isinstance(node, Block) else [getattr(node, "var", None)]
        if not isinstance(node, For | Block | LetStmt):
            continue
        for variable in defined:
            if variable in seen:
                yield node, f"{variable.name} is defined a second time"
            elif variable is not None:
                seen.add(variable)


@rule(SHARED_RULES)
def buffers_are_defined(func: PrimFunc) -> Broken:
    """a buffer is a parameter, or allocated or matched by a block or statement around its use"""
    for node, scope in scoped(func):
        used = [a for a in node.args if isinstance(a, Buffer)] if isinstance(node, KernelCall) else [used_buffer(node)]
        for buffer in used:
            if buffer is not None and buffer not in scope.buffers:
                yield node, f"{buffer.name} is not defined here"


@rule(SHARED_RULES)
def buffers_are_defined_once(func: PrimFunc) -> Broken:
    """every parameter, allocation and view is a buffer of its own"""
    seen: set[Buffer] = set()
    definitions: list[tuple[Node, Buffer]] = [(b, b) for b in func.buffers]
    for node in every_node(func):
        if isinstance(node, Block):
            definitions += [(node, b) for b in node.alloc_buffers] + [(m, m.buffer) for m in node.match_buffers]
        elif isinstance(node, Allocate):
            definitions.append((node, node.buffer))
    for node, buffer in definitions:
        if buffer in seen:
            yield node, f"{buffer.name} is defined a second time"
        seen.add(buffer)


@rule(SHARED_RULES)
def dimensions_can_be_bound(func: PrimFunc) -> Broken:
    """a symbolic dimension stands alone in the shape, strides or offset of a parameter, or is a parameter"""
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
def strides_are_injective(func: PrimFunc) -> Broken:
    """explicit strides are as many as dimensions, and lead each element to a place of its own"""
    buffers: list[tuple[Node, Buffer]] = [(b, b) for b in func.buffers]
    for node in every_node(func):
        if isinstance(node, Block):
            buffers += [(b, b) for b in node.alloc_buffers] + [(m, m.buffer) for m in node.match_buffers]
        elif isinstance(node, Allocate):
            buffers.append((node, node.buffer))
    for node, buffer in buffers:
        wrong = why_not_strides(buffer.shape, buffer.strides, buffer.elem_offset)
        if wrong:
            yield node, f"{buffer.name}: {wrong}"


@rule(SHARED_RULES)
def indices_are_integers(func: PrimFunc) -> Broken:
    """the indices of loads, stores and regions are integers, one a dimension"""
    for node in every_node(func):
        buffer = used_buffer(node)
        if buffer is None or isinstance(node, BufferData):
            continue
        indices = [r.start for r in node.region] if isinstance(node, BufferRegion) else node.indices  # type: ignore[attr-defined]
        if len(indices) != buffer.ndim:
            yield node, f"{len(indices)} indices of {buffer.name}, which has {buffer.ndim} dimensions"
        for index in indices:
            if not index.dtype.is_int:
                yield node, f"the index {index} has dtype {index.dtype}"


@rule(SHARED_RULES)
def loops_are_over_integers(func: PrimFunc) -> Broken:
    """start, extent and variable of a loop have one integer dtype"""
    for node in every_node(func):
        if isinstance(node, For):
            dtypes = {node.var.dtype, node.start.dtype, node.extent.dtype}
            if len(dtypes) > 1 or not node.var.dtype.is_int:
                found = f"{node.var.dtype} runs from {node.start.dtype} over {node.extent.dtype}"
                yield node, found


@rule(SHARED_RULES)
def conditions_are_bool(func: PrimFunc) -> Broken:
    """conditions and predicates are bool; those of statements and blocks have one lane"""
    for node in every_node(func):
        for condition in conditions(node):
            scalar = not isinstance(node, BufferStore) and used_buffer(node) is None
            vector = condition.dtype.lanes > 1 and not isinstance(node, Select)
            if not condition.dtype.is_bool or (scalar and vector):
                yield node, f"{condition} has dtype {condition.dtype}"


@rule(SHARED_RULES)
def thread_loops_name_their_axis(func: PrimFunc) -> Broken:
    """a thread loop names its axis, no other loop does, and an axis that is bound again shares an inner loop out"""
    for node, scope in scoped(func):
        if not isinstance(node, For):
            continue
        if (node.thread is not None) != (node.kind is ForKind.THREAD):
            yield node, f"kind {node.kind} with thread={node.thread}"
        outer = [loop for loop in scope.loops if loop.thread is not None and loop.thread == node.thread]
        if outer and not str(node.thread).startswith("vthread"):
            reason = why_not_again(outer[0], node) if is_thread(node) else ""
            if reason is not None:
                already = f"{node.thread} is bound by the loop over {outer[0].var.name} already"
                yield node, f"{already}; {reason}" if reason else already


# ---- level 3 -------------------------------------------------------------------------------------------------------

TIR_RULES += SHARED_RULES


@rule(TIR_RULES)
def there_is_a_root_block(func: PrimFunc) -> Broken:
    """the body is the root block, with no iterators"""
    if not isinstance(func.body, BlockRealize) or func.body.block.iter_vars:
        yield func.body, f"a {type(func.body).__name__}"


@rule(TIR_RULES)
def nothing_is_lowered_yet(func: PrimFunc) -> Broken:
    """allocations belong to blocks, and kernels are called by host functions only"""
    for node in every_node(func):
        if isinstance(node, Allocate | KernelCall):
            yield node, f"{type(node).__name__} at level 3"


@rule(TIR_RULES)
def iterators_are_bound(func: PrimFunc) -> Broken:
    """every iterator of a block has one value, of its dtype, and is spatial, reduction or opaque"""
    for node in every_node(func):
        if not isinstance(node, BlockRealize):
            continue
        axes, values = node.block.iter_vars, node.iter_values
        if len(axes) != len(values):
            yield node, f"{len(axes)} iterators, {len(values)} values"
        for axis, value in zip(axes, values):
            if axis.var.dtype != value.dtype:
                yield axis, f"{axis.var.name} is {axis.var.dtype}, its value {value} is {value.dtype}"
            if axis.kind not in ("S", "R", "O"):
                yield axis, f"{axis.var.name} is of kind {axis.kind!r}"


@rule(TIR_RULES)
def blocks_use_their_iterators(func: PrimFunc) -> Broken:
    """a block uses the loops around it only through its iterators"""
    for node, scope in scoped(func):
        for variable in children(node):
            if isinstance(variable, Var) and variable in scope.block_loops and scope.block is not None:
                yield node, f"the loop variable {variable.name} inside the block {scope.block.name}"


@rule(TIR_RULES)
def iterators_stay_in_their_domains(func: PrimFunc) -> Broken:
    """where a block has no predicate, the values of its iterators lie in their domains"""
    for node, scope in scoped(func):
        if not isinstance(node, BlockRealize) or not _always(node):
            continue
        if any(is_const(loop.extent, 0) for loop in scope.loops):
            continue  # the block never runs
        for axis, value in zip(node.block.iter_vars, node.iter_values):
            values = stretch(Range(value, IntImm(1, value.dtype)), scope.loops)
            if values is None or not isinstance(axis.dom.extent, IntImm) or scope.guarded:
                continue
            first, count = values
            shift = first - Analyzer().affine(axis.dom.start)
            below = shift.const
            if shift.is_const and (below < 0 or below + count > axis.dom.extent.value):
                start = axis.dom.start
                low = start.value + below if isinstance(start, IntImm) else f"{start} + {below}"
                last = low + count - 1 if isinstance(low, int) else f"{low} + {count - 1}"
                yield axis, f"{axis.var.name} = {value} runs from {low} to {last}"


@rule(TIR_RULES)
def reads_are_declared(func: PrimFunc) -> Broken:
    """what the body of a block reads lies in the regions that the block declares to read"""
    yield from _undeclared(func, write=False)


@rule(TIR_RULES)
def writes_are_declared(func: PrimFunc) -> Broken:
    """what the body of a block writes lies in the regions that the block declares to write"""
    yield from _undeclared(func, write=True)


@rule(TIR_RULES)
def addresses_are_declared(func: PrimFunc) -> Broken:
    """a block declares to read or write each buffer of which it hands out the address, or makes that buffer itself"""
    for node, scope in scoped(func):
        block, buffer = scope.block, handed_out(node)
        if buffer is None or block is None or _makes_no_claims(block):
            continue
        own = {*block.alloc_buffers, *(m.buffer for m in block.match_buffers)}
        if buffer not in own and all(r.buffer is not buffer for r in (*block.reads, *block.writes)):
            yield node, f"the block {block.name} declares no access of {buffer.name}, whose address it hands out"


@rule(TIR_RULES)
def views_fit_their_source(func: PrimFunc) -> Broken:
    """a matched buffer has the dtype and scope of the buffer that it views"""
    for node in every_node(func):
        if isinstance(node, MatchBufferRegion):
            view, source = node.buffer, node.source.buffer
            if (view.dtype, view.scope) != (source.dtype, source.scope):
                yield node, f"{view.dtype} in {view.scope}, a view of {source.dtype} in {source.scope}"


@rule(TIR_RULES)
def concurrent_loops_bind_no_reductions(func: PrimFunc) -> Broken:
    """parallel and vectorised loops and block indices drive only spatial iterators, thread indices also reductions"""
    for node, scope in scoped(func):
        if not isinstance(node, BlockRealize):
            continue
        around = [loop for loop in scope.loops if loop.var not in scope.block_loops]
        concurrent = {loop.var: loop for loop in around if _is_concurrent(loop)}
        for axis, value in zip(node.block.iter_vars, node.iter_values):
            for item in walk(value):
                if isinstance(item, Var) and item in concurrent and axis.kind == REDUCE:
                    loop = concurrent[item]
                    yield loop, f"{item.name} is {loop.thread or loop.kind} and drives the reduction {axis.var.name}"


@rule(TIR_RULES)
def vectorised_loops_have_constant_extents(func: PrimFunc) -> Broken:
    """the extent of a vectorised loop is a constant: it becomes the lanes of vectors"""
    for node in every_node(func):
        if isinstance(node, For) and node.kind is ForKind.VECTORIZED and not isinstance(node.extent, IntImm):
            yield node, f"extent {node.extent}"


def _always(realize: BlockRealize) -> bool:
    return isinstance(realize.predicate, IntImm) and bool(realize.predicate.value)


def _is_concurrent(loop: For) -> bool:
    if loop.kind is ForKind.THREAD:
        return not str(loop.thread).startswith("threadIdx")
    return loop.kind in (ForKind.PARALLEL, ForKind.VECTORIZED)


def _undeclared(func: PrimFunc, write: bool) -> Broken:
    for realize, scope in scoped(func):
        if not isinstance(realize, BlockRealize) or _makes_no_claims(realize.block):
            continue
        block = realize.block
        declared = {r.buffer: r.region for r in (block.writes if write else block.reads)}
        taken = _values_taken(realize, scope)
        touched = effects(block)
        for touch in touched.writes if write else touched.reads:
            if touch.opaque or touch.accumulated or any(is_const(l.extent, 0) for l in touch.loops):
                continue  # not shown by the text, left out as in TVM, or it never happens
            region, name = declared.get(touch.buffer), touch.buffer.name
            if region is None:
                fault = f"the block {block.name} declares no {'writes' if write else 'reads'} of {name}"
            elif touch.sure and not touch.conditions and (outside := _outside(touch, region, taken)) is not None:
                number, where = outside
                at = f", where {where}" if where else ""
                word = "written" if write else "read"
                fault = f"dimension {number} of {name} is {word} outside of the declared region{at}"
            else:
                continue
            # What the block has written itself before depends on nobody: a body may start its own sum.
            if write or any(t.node is touch.node for t in touched.exposed):
                yield touch.node, fault


def _values_taken(realize: BlockRealize, scope: Scope) -> dict[Var, tuple[int, int]]:
    """The iterators that certainly take all values from the first to the last given here, whatever the others are."""
    if not _always(realize) or scope.guarded:
        return {}
    loops = {loop.var: loop for loop in scope.loops if loop.var not in scope.block_loops}
    uses = Counter(item for value in realize.iter_values for item in walk(value) if isinstance(item, Var))
    taken = {}
    for axis, value in zip(realize.block.iter_vars, realize.iter_values):
        loop = loops.get(value) if isinstance(value, Var) and uses[value] == 1 else None
        if loop is not None and isinstance(loop.start, IntImm) and isinstance(loop.extent, IntImm):
            if loop.extent.value > 0:
                taken[axis.var] = (loop.start.value, loop.start.value + loop.extent.value - 1)
    return taken


def _makes_no_claims(block: Block) -> bool:
    return block.name == "root" and not (block.iter_vars or block.reads or block.writes)


def _outside(touch: Touch, declared: Box, taken: Mapping[Var, tuple[int, int]]) -> tuple[int, str] | None:
    """The dimension in which a touch certainly leaves a declared region, and values of iterators at which it does."""
    for number, (own, region) in enumerate(zip(touch.ranges, declared, strict=True)):
        inner = None if own is None else stretch(own, touch.loops)
        outer = stretch(region, ())
        if inner is None or outer is None:
            continue
        shift = inner[0] - outer[0]
        if not all(term in taken for term in shift.terms):
            continue
        # At the least shift it starts before the declared region, or at the greatest it ends behind it.
        for last in (False, True):
            ends = {term: taken[term][(factor > 0) is last] for term, factor in shift.terms.items()}
            below = shift.const + sum(factor * ends[term] for term, factor in shift.terms.items())
            if below + inner[1] > outer[1] if last else below < 0:
                return number, ", ".join(f"{var.name} = {value}" for var, value in ends.items())
    return None


# ---- modules -------------------------------------------------------------------------------------------------------


def _calls_fit(module: IRModule) -> Broken:
    for func in module.functions.values():
        for call in walk(func.body):
            if not isinstance(call, KernelCall):
                continue
            kernel = module.functions.get(call.kernel)
            if kernel is None:
                yield call, f"the module has no function {call.kernel}"
            elif len(kernel.params) != len(call.args):
                yield call, f"{len(call.args)} arguments for {len(kernel.params)} parameters"
            else:
                yield from ((call, text) for text in map(_misfit, call.args, kernel.params) if text)
                outermost = isinstance(kernel.body, For) and kernel.body.kind is ForKind.PARALLEL
                if call.parallel and not outermost:
                    yield call, f"parallel, but the outermost loop of {call.kernel} is not"


def _misfit(argument: Node, parameter: Node) -> str:
    if isinstance(argument, Buffer) != isinstance(parameter, Buffer) or argument.dtype != parameter.dtype:  # type: ignore[attr-defined]
        return f"{_named(argument)} is handed over as {_named(parameter)}"
    return ""


def _named(item: Node) -> str:
    kind = "buffer" if isinstance(item, Buffer) else "scalar"
    return f"the {item.dtype} {kind} {getattr(item, 'name', item)}"  # type: ignore[attr-defined]


_FIT = "a call names a function of the module and hands over what its parameters are"
MODULE_RULES: dict[str, tuple[str, Callable[[IRModule], Broken]]] = {"calls_fit_their_kernels": (_FIT, _calls_fit)}


# ---- entry points --------------------------------------------------------------------------------------------------


def rules(func: PrimFunc, level: str = "tir") -> list[Rule]:
    """The rules that apply to a function, in the order in which they are checked."""
    if level == "tir":
        return TIR_RULES
    from .transform.verify_kernel import HOST_RULES, KERNEL_RULES

    own = HOST_RULES if func.attrs.get("host") else KERNEL_RULES
    return [*SHARED_RULES, *own]


def verify(program: PrimFunc | IRModule, level: str = "tir", context: int | None = 6) -> None:
    """Raise `VerificationError` for the first rule that a function, or a function of a module, breaks.

    `level` is "tir" (level 3) or "kernel" (after lowering). `context` is the number of lines shown around the spot.
    """
    functions = [program] if isinstance(program, PrimFunc) else list(program.functions.values())
    for func in functions:
        for entry in rules(func, level):
            for node, found in entry.check(func):
                raise _error(func, entry.name, entry.meaning, node, found, context)
    if isinstance(program, IRModule) and level == "kernel":
        for name, (meaning, check) in MODULE_RULES.items():
            for node, found in check(program):
                raise _error(program, name, meaning, node, found, context)


def verify_if_asked(name: str, program: PrimFunc | IRModule, level: str = "tir") -> None:
    """`verify` after the pass or primitive `name`, if MINITVM_VERIFY=1; its error says which one broke the program."""
    if not verification_asked():
        return
    try:
        verify(program, level)
    except VerificationError as error:
        raise VerificationError(f"after {name}: {error}") from None


def _error(
    program: PrimFunc | IRModule, name: str, meaning: str, node: Node, found: str, context: int | None
) -> VerificationError:
    from .script.printer import script

    what = program.name if isinstance(program, PrimFunc) else "the module"
    text = script(program, mark={node: found}, context=context)
    return VerificationError(report(f"{what}: {name}", program=text, wanted=meaning, found=found))


__all__ = ["MODULE_RULES", "SHARED_RULES", "TIR_RULES", "Rule", "Scope", "rules", "verify", "verify_if_asked"]

"""`Schedule`: a thin mutable object over an immutable module and the trace of what was done to it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...errors import InputError, InternalError, ScheduleError, report
from ...expr import Node, walk
from ..nodes import Block, BlockId, BlockRealize, For, IRModule, PrimFunc, Seq, Stmt
from ..verifier import verify_if_asked
from .handles import BlockRV, LoopRV, handles_in, to_handles
from .registry import PRIMITIVES, Primitive, Refused, Requirement, on_registration, transforms
from .state import ScheduleState
from .trace import Instruction, Trace, plain
from .tree import Tree, with_own_keys

_LEVELS = ("detail", "fast", "none")


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """Everything that `undo` needs to bring back."""

    mod: IRModule
    trace: Trace
    gone: Mapping[object, str]


@dataclass(frozen=True, slots=True)
class Call:
    """A legal call of a primitive on a schedule: drawn by tests, tried by tuners."""

    primitive: Primitive
    arguments: Mapping[str, Any]
    text: str  # `split(i, [None, 4])`

    def __repr__(self) -> str:
        return self.text

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """How Hypothesis and IPython show it: the call as it is written, not its parts."""
        printer.text(self.text)


class Schedule:
    """Transforms a module step by step; each step checks that the program keeps its meaning.

    `mod` is a `PrimFunc` or an `IRModule`. Methods are the registered primitives (`split`, `cache_read`, ...), under
    TVM's names. A call that is not legal raises `ScheduleError` and changes nothing. With `verify=True` every step is
    also checked by running the program before and after in the reference interpreter.

    `error_render_level`: "detail" shows the program with the spot marked, "fast" only the text, "none" one line.
    `debug_mask` and `seed` are accepted as in TVM; the program is always checked.
    """

    def __init__(
        self,
        mod: PrimFunc | IRModule,
        *,
        seed: int | None = None,
        debug_mask: str | int | None = None,
        error_render_level: str | None = None,
        enable_check: bool = True,
        verify: bool = False,
    ) -> None:
        level = error_render_level or "detail"
        if level not in _LEVELS:
            raise InputError(f"error_render_level={level!r}: wanted one of {', '.join(_LEVELS)}")
        if isinstance(mod, PrimFunc):
            mod = IRModule({mod.attrs.get("global_symbol", "main"): mod})
        if not isinstance(mod, IRModule):
            raise InputError(f"Schedule takes a PrimFunc or an IRModule, found {type(mod).__name__}")
        if not mod.functions:
            raise InputError("Schedule: the module has no function")
        functions = {name: with_own_keys(f) if isinstance(f.body, BlockRealize) else f for name, f in mod.items()}
        names = list(functions)
        working = "main" if "main" in functions else names[0]
        self._state = ScheduleState(IRModule(functions, mod.attrs), working)
        self._trace = Trace()
        self._gone: dict[object, str] = {}
        self._history: list[_Snapshot] = []
        self._level = level
        self._verify = verify
        self.seed = seed

    # ------------------------------------------------------------------ what it holds

    @property
    def mod(self) -> IRModule:
        """The module as it is now."""
        return self._state.mod

    @property
    def func(self) -> PrimFunc:
        """The function that is worked on."""
        return self._state.mod[self._state.func_name]

    @property
    def func_working_on(self) -> str:
        """The name of the function that block names refer to."""
        return self._state.func_name

    @property
    def state(self) -> ScheduleState:
        """The present state, for tools that look at trees; change it only through primitives."""
        return self._state

    @property
    def trace(self) -> Trace:
        """What was done so far."""
        return self._trace

    def work_on(self, func_name: str) -> None:
        """Let names of blocks refer to another function of the module."""
        if func_name not in self.mod:
            raise InputError(f"no function {func_name!r} in the module; there are {', '.join(self.mod.functions)}")
        self._state = ScheduleState(self.mod, func_name, self._state.trees)

    def copy(self) -> Schedule:
        """A schedule of its own in the same state; handles work on both."""
        other = Schedule.__new__(Schedule)
        other.__dict__.update(self.__dict__)
        other._trace, other._gone, other._history = self._trace.copy(), dict(self._gone), list(self._history)
        return other

    def show(self, *args: Any, **options: Any) -> None:
        """Print the module and the trace."""
        self.mod.show(*args, **options)
        self._trace.show()

    def undo(self) -> None:
        """Take the last step that changed the program back, and the queries after it."""
        if not self._history:
            raise ScheduleError("undo: there is no step to take back")
        last = self._history.pop()
        self._state = ScheduleState(last.mod, self._state.func_name)
        self._trace, self._gone = last.trace, dict(last.gone)

    def get(self, handle: BlockRV | LoopRV) -> Block | For:
        """The node that a handle stands for now; raises `ScheduleError` when it is gone."""
        node = self._resolve(handle)
        return node.block if isinstance(node, BlockRealize) else node

    def get_sref(self, handle: BlockRV | LoopRV) -> Block | For:
        """TVM's name: here the node itself."""
        return self.get(handle)

    # ------------------------------------------------------------------ calling primitives

    def call(self, primitive: Primitive | str, arguments: Mapping[str, Any]) -> Any:
        """Apply a primitive to arguments by name (what its method does); all of it happens or nothing."""
        chosen = PRIMITIVES[primitive] if isinstance(primitive, str) else primitive
        known = self._trace.handle_names()
        for handle in handles_in(list(arguments.values())):
            if handle not in known:
                self._introduce(handle)
        state = ScheduleState(self.mod, self._state.func_name, self._state.trees)
        try:
            nodes = {name: self._to_nodes(state, chosen, name, value) for name, value in arguments.items()}
            result = chosen.run(state, nodes)
        except Refused as refused:
            raise ScheduleError(self._render(state, chosen, arguments, refused)) from None
        given = {name: plain(value) for name, value in arguments.items()}
        outputs = to_handles(result)
        if not chosen.query:
            self._commit(state, chosen, given, outputs)
        if not chosen.query or chosen.kind:
            self._trace.insts.append(Instruction(chosen, given, outputs))
        return outputs

    def _commit(self, state: ScheduleState, chosen: Primitive, given: Mapping[str, Any], outputs: Any) -> None:
        before = self._state
        step = len(self._trace) + 1
        if self._verify:
            _check_same_meaning(before.mod, state.mod)
        made = ", ".join(_name_of(state, handle) for handle in handles_in(outputs))
        history = _Snapshot(before.mod, self._trace.copy(), dict(self._gone))
        for name, func in before.mod.items():
            if state.mod[name] is func or not isinstance(func.body, BlockRealize):
                continue
            verify_if_asked(chosen.name, state.mod[name])
            old, new = before.tree(name), state.tree(name)
            story = f"{chosen.past} {made} at step {step}" if made else f"is gone since step {step}: {chosen.name}"
            for var in old.loops.keys() - new.loops.keys():
                self._gone[var] = f"loop {var.name} {story}"
            for key in old.blocks.keys() - new.blocks.keys():
                self._gone[key] = f"block {old.blocks[key].block.name} {story}"
        self._history.append(history)
        self._state = ScheduleState(state.mod, before.func_name, state.trees)

    def _introduce(self, handle: BlockRV | LoopRV) -> None:
        """Record how to find a block or loop whose handle no query gave (`space` makes such): the trace must replay."""
        node = self._state.block(handle.key) if isinstance(handle, BlockRV) else self._state.loop(handle.key)
        if node is None:
            return  # the call will say so
        tree = self._state.home(node)
        if isinstance(node, For):
            inside = tree.blocks_in(node)
            if inside:
                self.call("get_loops", {"block": BlockRV(inside[0].block.id)})
            return
        func = next(name for name, f in self.mod.items() if f is tree.func)
        if sum(b.block.name == node.block.name for b in tree.blocks.values()) == 1:
            self.call("get_block", {"name": node.block.name, "func_name": func})
        else:
            self.call("get_child_blocks", {"block_or_loop": BlockRV(tree.scope(node).block.id)})

    def _resolve(self, handle: BlockRV | LoopRV, state: ScheduleState | None = None) -> BlockRealize | For:
        at = state or self._state
        node = at.block(handle.key) if isinstance(handle, BlockRV) else at.loop(handle.key)
        if node is not None:
            return node
        raise ScheduleError(self._gone.get(handle.key) or _foreign(handle))

    def _to_nodes(self, state: ScheduleState, chosen: Primitive, name: str, value: Any) -> Any:
        if not chosen.takes_nodes(name) or value is None:
            return value
        if isinstance(value, list | tuple):
            return type(value)(self._to_nodes(state, chosen, name, item) for item in value)
        if isinstance(value, str) and chosen.takes_blocks(name):
            return state.block_named(value)
        if isinstance(value, BlockRV | LoopRV):
            node = self._resolve(value, state)
            if isinstance(node, BlockRealize) == chosen.takes_blocks(name) or chosen.takes_both(name):
                return node
        wanted = "a block (a BlockRV or its name)" if chosen.takes_blocks(name) else "a loop (a LoopRV)"
        raise ScheduleError(f"{chosen.name}: {name} must be {wanted}, found {_described(value)}")

    # ------------------------------------------------------------------ what is legal now

    def space(self, *names: str) -> list[Call]:
        """The calls that are legal now, of the named primitives or of all: what tests draw from and tuners try."""
        chosen = [PRIMITIVES[name] for name in names] if names else list(transforms())
        tried = (self._legal(primitive, values) for primitive in chosen for values in self._candidates(primitive))
        return [call for call in tried if call is not None]

    def draw(self, choose: Callable[[int], int], *names: str, tries: int | None = None) -> Call | None:
        """One legal call, without trying all of them: first a primitive, then one of its calls.

        `choose(n)` gives a number below n (`random.randrange`, or a Hypothesis draw); it is asked twice. A call that
        turns out not to be legal gives way to the ones after it, and a primitive with `tries` illegal calls in a row
        (by default 6, where there is another one) to the next primitive. None when nothing legal was found. `names` as
        in `space`.
        """
        chosen = [PRIMITIVES[name] for name in names] if names else list(transforms())
        first, at = choose(len(chosen)), choose(1 << 16)
        most = tries or (6 if len(chosen) > 1 else None)
        for primitive in (*chosen[first:], *chosen[:first]):
            candidates = list(self._candidates(primitive))
            start = at % len(candidates) if candidates else 0
            for values in (candidates[start:] + candidates[:start])[:most]:
                call = self._legal(primitive, values)
                if call is not None:
                    return call
        return None

    def _candidates(self, primitive: Primitive) -> Iterable[tuple[Any, ...]]:
        if primitive.calls is None:
            return ()
        return primitive.calls(ScheduleState(self.mod, self._state.func_name, self._state.trees))

    def _legal(self, primitive: Primitive, values: tuple[Any, ...]) -> Call | None:
        """The call with these arguments (nodes), None when it is refused."""
        arguments = bind(primitive, values, {})
        # Some conditions show only while a primitive works, so a call is tried on a copy: states are values.
        try:
            primitive.run(ScheduleState(self.mod, self._state.func_name, self._state.trees), arguments)
        except Refused:
            return None
        handles = {name: to_handles(value) for name, value in arguments.items()}
        return Call(primitive, handles, f"{primitive.name}({_arguments_text(self._state, primitive, handles)})")

    def apply(self, call: Call) -> Any:
        """Make a call that `space` gave."""
        return self.call(call.primitive, call.arguments)

    # ------------------------------------------------------------------ errors

    def _render(self, state: ScheduleState, chosen: Primitive, arguments: Mapping[str, Any], refused: Refused) -> str:
        failure, needed = refused.failure, refused.requirement
        headline = f"{chosen.name}({_arguments_text(self._state, chosen, arguments)}): {needed.name}"
        if self._level == "none":
            return headline
        headline = f"{headline:<79} [step {len(self._trace) + 1} of the trace]"
        program = None
        if self._level == "detail" and failure.spots:
            program = _marked_program((self._state, state), failure.spots)
        return report(headline, program=program, wanted=failure.wanted, found=failure.found, tries=failure.tries)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


def bind(primitive: Primitive, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call by name, defaults filled in; raises `ScheduleError` where they do not fit."""
    try:
        bound = primitive.signature.bind(*args, **kwargs)
    except TypeError as error:
        raise ScheduleError(f"{primitive.name}: {error}; it takes {primitive.call_signature()}") from None
    bound.apply_defaults()
    return dict(bound.arguments)


def _add_method(primitive: Primitive) -> None:
    @functools.wraps(primitive.function)
    def method(self: Schedule, *args: Any, **kwargs: Any) -> Any:
        return self.call(primitive, bind(primitive, args, kwargs))

    method.__signature__ = primitive.signature  # type: ignore[attr-defined]
    method.__doc__ = primitive.document()
    for name in (primitive.name, *(alias for who, alias in primitive.aka.items() if who == "TVM")):
        setattr(Schedule, name, method)


on_registration(_add_method)


def _check_same_meaning(before: IRModule, after: IRModule) -> None:
    from ...reference import check

    for name, func in before.items():
        if after[name] is not func:
            verdict = check(func, after[name])
            if not verdict:
                raise InternalError(f"the step changes what {name} computes\n{verdict}")


def _name_of(state: ScheduleState, handle: BlockRV | LoopRV) -> str:
    if isinstance(handle, LoopRV):
        return handle.key.name
    found = state.block(handle.key)
    return found.block.name if found else "?"


def _foreign(handle: BlockRV | LoopRV) -> str:
    if isinstance(handle, LoopRV):
        return f"loop {handle.key.name} is not part of this schedule's module"
    return "the block is not part of this schedule's module"


def _described(value: Any) -> str:
    if isinstance(value, LoopRV):
        return f"the loop {value.key.name}"
    return "a block" if isinstance(value, BlockRV | BlockId) else repr(value)


def _arguments_text(state: ScheduleState, primitive: Primitive, arguments: Mapping[str, Any]) -> str:
    shown: list[str] = []
    for name, parameter in primitive.signature.parameters.items():
        value = arguments[name]
        if parameter.kind is parameter.VAR_POSITIONAL:
            shown.extend(_argument_text(state, item) for item in value)
        elif parameter.default is parameter.empty:
            shown.append(_argument_text(state, value))
        elif value != parameter.default:
            shown.append(f"{name}={_argument_text(state, value)}")
    return ", ".join(shown)


def _argument_text(state: ScheduleState, value: Any) -> str:
    if isinstance(value, BlockRV | LoopRV):
        return _name_of(state, value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(_argument_text(state, item) for item in value)}]"
    return repr(value)


def _marked_program(states: Sequence[ScheduleState], spots: Mapping[Node, str]) -> str:
    """The smallest nest around all spots, as text with the spots marked.

    The spots stand in the program as it was before the step, or as the step had made it when it was refused.
    """
    from ..script.printer import script

    for state in states:
        for tree in state.trees.values():
            if all(s in tree.order for s in spots if isinstance(s, Stmt)):
                return script(_nest_around(tree, spots), mark=dict(spots))
    return script(states[0].mod)


def _nest_around(tree: Tree, spots: Mapping[Node, str]) -> Node:
    body = tree.root.block.body
    for stmt in body.stmts if isinstance(body, Seq) else (body,):
        inside = set(walk(stmt))
        if all(spot in inside for spot in spots):
            return stmt
    return tree.func


__all__ = ["Call", "Requirement", "Schedule", "bind"]

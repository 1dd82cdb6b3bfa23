"""`Schedule`: a small mutable object that holds an immutable module and the trace of its steps."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from ...errors import InputError, ScheduleError, TypeMismatch, nearest, report
from ...expr import Expr, Var, find
from ..analysis.tree import with_own_keys
from ..nodes import Block, BlockRealize, For, IRModule, PrimFunc
from ..verifier import verify_if_asked
from . import handles as schedule_handles
from .block_scope import StmtSRef
from .calls import PrimitiveCall, bind, complete, introduce, misfit, normal, run, with_numbers
from .claims import declares_what_it_touches, widened
from .lambdas import adopted, require_text
from .messages import arguments_text, foreign, marked_program, name_of
from .randomness import RandomNumbers
from .registry import RESERVED, Primitive, Refused, Requirement, on_registration, registered, transforms
from .shared_steps import Waypoint
from .space import draw_call, legal_calls
from .state import ScheduleState
from .trace import Instruction, Trace, plain
from .verify_step import verify_step

_LEVELS = ("detail", "fast", "none")
_MASKS = (None, "all", "none")


# Decides a sampling call, from the schedule, the primitive and the arguments; None means a random draw.
Decide = Callable[["Schedule", Primitive, Mapping[str, Any]], Any]

# Called with each new schedule and its module, so that tests can replay its trace on this module.
WATCHERS: list[Callable[[Schedule, IRModule], None]] = []

if TYPE_CHECKING:
    from .methods import Methods  # written by method_types.py
else:
    Methods = object


class Schedule(Methods):
    """Transforms a module step by step; each step checks that the program keeps its meaning.

    `mod` is a `PrimFunc` or an `IRModule`. The methods are the registered primitives (`split`, `cache_read`, ...),
    under the names that TVM uses. A call that is not legal raises `ScheduleError` and changes nothing. With
    `verify=True`, each step is also verified by the oracle (`minitvm.reference.check` with the modes exact, field and
    shadow).

    `error_render_level` controls error messages: "detail" shows the program with the spot marked, "fast" only the text,
    "none" a single line. `seed` makes sampling reproducible (with None, or -1 as in TVM, the seed is different each
    time). `debug_mask` is accepted for compatibility with TVM; the program is always checked.
    """

    def __init__(
        self,
        mod: PrimFunc | IRModule | Callable[..., Any],  # some type checkers think that decorators return functions
        *,
        seed: int | None = None,
        debug_mask: str | int | None = None,
        error_render_level: str | None = None,
        enable_check: bool = True,  # noqa: ARG002 (TVM's argument)
        verify: bool = False,
    ) -> None:
        level = error_render_level or "detail"
        if level not in _LEVELS:
            raise InputError(f"error_render_level={level!r}: wanted one of {', '.join(_LEVELS)}")
        if debug_mask not in _MASKS and (not isinstance(debug_mask, int) or isinstance(debug_mask, bool)):
            raise InputError(f'debug_mask={debug_mask!r}: wanted "all", "none" or a whole number')
        if isinstance(mod, PrimFunc):
            mod = IRModule({mod.attrs.get("global_symbol", "main"): mod})
        if not isinstance(mod, IRModule):
            raise InputError(f"Schedule takes a PrimFunc or an IRModule, found {type(mod).__name__}")
        if not mod.functions:
            raise InputError("Schedule: the module has no function")
        functions = {name: with_own_keys(f) if isinstance(f.body, BlockRealize) else f for name, f in mod.items()}
        names = [name for name, f in functions.items() if isinstance(f.body, BlockRealize)] or list(functions)
        # As in TVM, one of several has to be chosen, by work_on or by its name.
        working = "main" if "main" in functions else names[0] if len(names) == 1 else None
        self._state = ScheduleState(IRModule(functions, mod.attrs), working)
        self._trace = Trace()
        self._gone: dict[object, str] = {}
        self._history: list[Mapping[str, Any]] = []
        self._level = level
        self._verify = verify
        self._numbers: dict[schedule_handles.ExprRV, int] = {}  # the values of sampled numbers
        self._random = RandomNumbers(seed).state
        self._removed: frozenset[schedule_handles.Handle] = frozenset()
        self._first = working  # the function in which a replay first looks names up
        self._waypoint: Waypoint | None = None  # its place among steps that are shared with other schedules
        self._decide: Decide | None = None  # decides what calls leave open
        for watcher in WATCHERS:
            watcher(self, mod)

    # ------------------------------------------------------------------ what it holds

    @property
    def mod(self) -> IRModule:
        """The module in its current form."""
        return self._state.mod

    @property
    def func(self) -> PrimFunc:
        """The function that you work on (see `work_on`)."""
        return self._state.mod[self._state.named(None)]

    @property
    def began_with(self) -> IRModule:
        """The module as it was before the first step."""
        return self._history[0]["_state"].mod if self._history else self.mod

    @property
    def func_working_on(self) -> str | None:
        """The name of the function in which block names are looked up; None if the module has several functions and you
        have not called `work_on`.
        """
        return self._state.func_name

    @property
    def state(self) -> ScheduleState:
        """The current state, for tools that inspect trees. Only primitives may change it."""
        return self._state

    @property
    def trace(self) -> Trace:
        """The trace of the steps so far."""
        return self._trace

    def work_on(self, func_name: str) -> None:
        """Select the function of the module in which block names are looked up."""
        self._state = ScheduleState(self.mod, self.mod.name_of(func_name), self._state.trees)
        self._waypoint = None

    def copy(self) -> Schedule:
        """Return a new schedule in the same state, with its own random numbers. Handles are valid in both schedules."""
        other = self.sharing(None)
        other.seed(self.fork_seed())
        return other

    def sharing(self, waypoint: Waypoint | None) -> Schedule:
        """Return a schedule in the same state, including the random numbers, at the node `waypoint` of the tree of
        shared steps.
        """
        other = Schedule.__new__(Schedule)
        other.__dict__.update(self.__dict__)
        other.take_over(self.held())
        other._waypoint = waypoint
        return other

    def held(self) -> Mapping[str, Any]:
        """Return a copy of all state that a call may change, for use with `take_over`."""
        return {
            "_state": self._state, "_trace": self._trace.copy(), "_gone": dict(self._gone),
            "_history": list(self._history), "_numbers": dict(self._numbers), "_random": self._random,
            "_removed": self._removed,
        }  # fmt: skip

    def take_over(self, held: Mapping[str, Any]) -> None:
        """Restore the state that this or another schedule returned from `held()`."""
        self.__dict__.update(held)
        self._trace, self._gone, self._history = self._trace.copy(), dict(self._gone), list(self._history)
        self._numbers = dict(self._numbers)

    def seed(self, seed: int) -> None:
        """Reset the random numbers of sampling to a seed; -1 means a different seed each time."""
        self._random = RandomNumbers(seed).state
        self._waypoint = None

    def fork_seed(self) -> int:
        """Return a seed for another schedule. Each call returns a different one."""
        numbers = RandomNumbers(self._random)
        forked, self._random = numbers.fork(), numbers.state
        self._waypoint = None
        return forked

    def can_decompose_padding(self, block: schedule_handles.BlockRV | str, loop: schedule_handles.LoopRV) -> bool:
        """Return whether `decompose_padding(block, loop)` is legal."""
        with suppress(ScheduleError):
            self.copy().decompose_padding(block, loop)
            return True
        return False

    def show(self, *args: Any, **options: Any) -> None:
        """Print the module and the trace."""
        self.mod.show(*args, **options)
        self._trace.show()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # noqa: ARG002 (IPython's protocol)
        """Show the steps so far in Hypothesis and IPython, as Python code to paste."""
        printer.text(str(self._trace))

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook displays: the program, and the steps that led to it."""
        return self.mod._repr_html_() + self._trace._repr_html_()

    def undo(self) -> None:
        """Undo the last step that changed the program, and all queries and sampling after it; raise `ScheduleError` if
        there is none.
        """
        if not self._history:
            raise ScheduleError("undo: there is no step to take back")
        self._restore(self._history.pop())

    @contextmanager
    def deciding(self, decide: Decide) -> Iterator[None]:
        """Context manager: let `decide(schedule, primitive, arguments)` make the decisions of sampling calls. If it
        returns None, the call samples at random.
        """
        outer, self._decide = self._decide, decide
        try:
            yield
        finally:
            self._decide = outer

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Context manager: undo all steps made inside the `with` block if an exception leaves it."""
        before, history = self._snapshot(), list(self._history)
        try:
            yield
        except BaseException:
            self._restore(before)
            self._history = history
            raise

    def _snapshot(self) -> Mapping[str, Any]:
        """Return all parts of the state that `undo` restores."""
        brought_back = ("_state", "_trace", "_gone", "_numbers", "_random")
        held = self.held()
        return {name: held[name] for name in brought_back} | {"_waypoint": self._waypoint}

    def _restore(self, at: Mapping[str, Any]) -> None:
        name, shares = self._state.func_name, self._waypoint is not None
        self.take_over(at)
        self._state = ScheduleState(self._state.mod, name, self._state.trees)
        self._waypoint = self._waypoint if shares else None

    def get(self, handle: schedule_handles.Handle | Expr | StmtSRef | str) -> Any:
        """Return the object that a handle currently refers to: a `Block`, a `For` (None for a place that is not a
        loop), or a sampled number.

        You can also pass the name of a block or a `StmtSRef`. If the block or loop no longer exists, this raises a
        `ScheduleError` that names the step that removed it.
        """
        if isinstance(handle, str):
            return self._state.block_named(handle).block
        if isinstance(handle, StmtSRef):
            return None if handle.handle is None else self.get(handle.handle)
        for part in schedule_handles.handles_in(handle):
            self._refuse_removed(part)
        if isinstance(handle, Expr):
            return with_numbers(handle, self._numbers)
        node = self._resolve(handle)
        if isinstance(node, schedule_handles.PlaceKey):
            return None
        return node.block if isinstance(node, BlockRealize) else node

    def remove_rv(self, rv: schedule_handles.BlockRV | schedule_handles.LoopRV | schedule_handles.ExprRV) -> None:
        """Forget a handle: using it is an error until a query returns it again. This does not add a step to the trace.

        Raises `ScheduleError` if the handle currently refers to nothing.
        """
        self.get(rv)
        self._removed |= {rv}
        self._waypoint = None

    def get_sref(self, handle: schedule_handles.BlockRV | schedule_handles.LoopRV | Block | For) -> StmtSRef:
        """Return a reference to a block or loop, which also knows the statements around the block or loop (TVM's
        `StmtSRef`).
        """
        return self._state.get_sref(handle if isinstance(handle, Block | For) else self.get(handle))

    # ------------------------------------------------------------------ calling primitives

    def call(self, primitive: Primitive | str, arguments: Mapping[str, Any]) -> Any:
        """Apply a primitive to arguments given by name, as the method of the primitive does. If the call fails, nothing
        changes.

        You may leave out parameters that have defaults.
        """
        primitive = registered(primitive) if isinstance(primitive, str) else primitive
        if self._decide is not None and primitive.decides and arguments.get("decision") is None:
            arguments = {**arguments, "decision": self._decide(self, primitive, arguments)}
        at, self._waypoint = self._waypoint, None  # calls inside this one are not steps of their own
        if at is None:
            return self.call_alone(primitive, arguments)
        result = None
        try:
            result, at = at.tree.call(self, at, primitive, arguments)
        finally:
            self._waypoint = at
        return result

    def call_alone(self, primitive: Primitive, arguments: Mapping[str, Any]) -> Any:
        """Like `call`, but without looking up or sharing steps of other schedules."""
        length = len(self._trace)
        try:
            return self._call(primitive, arguments)
        except BaseException:
            self._trace.truncate(length)  # the queries for handles and names that the call began with
            raise

    def _call(self, primitive: Primitive, arguments: Mapping[str, Any]) -> Any:
        recorded = {name: normal(adopted(value, self._variables)) for name, value in complete(primitive, arguments)}
        arguments = {name: self._with_handles(primitive, name, value) for name, value in recorded.items()}
        existing = self._trace.handle_names()
        for handle in schedule_handles.handles_in(list(arguments.values())):
            self._refuse_removed(handle)
            if handle not in existing:
                introduce(self, handle)
        state = self._fresh_state()
        try:
            nodes = {name: self._to_nodes(state, primitive, name, value) for name, value in arguments.items()}
            self._require_declared(primitive, state)
            result = run(primitive, state, nodes)
            recorded = {name: plain(value) for name, value in arguments.items()}
            require_text(list(recorded.values()))
        except Refused as refused:
            text = self._render(state, primitive, arguments, refused)
            raise ScheduleError(text, refused.requirement.name) from None
        except (TypeMismatch, InputError) as error:
            raise ScheduleError(f"{self._headline(primitive, arguments)}: {error}") from None
        if recorded.get("func_name", "") is None and self._state.func_name != self._first:
            recorded["func_name"] = self._state.func_name  # work_on is not a step, so the trace names the function
        numbers: dict[schedule_handles.ExprRV, int] = {}
        sampled = result if isinstance(result, schedule_handles.Sampled) else None
        outputs = (
            schedule_handles.to_handles(result)
            if sampled is None
            else schedule_handles.numbers_to_handles(sampled.values, numbers)
        )
        if not primitive.query:
            self._commit(state, primitive, arguments, outputs)
        self._numbers.update(numbers)
        self._removed -= set(schedule_handles.handles_in(outputs))
        self._random = state.random.state
        if sampled is not None:
            recorded["decision"] = None  # the instruction holds it
        instruction = Instruction(primitive, recorded, outputs, None if sampled is None else sampled.decision)
        if not primitive.query or not self._trace.repeats(instruction):
            self._trace.append(instruction)
        return outputs

    def _variables(self) -> set[Var]:
        """Return all variables of the scheduled functions: sizes, parameters, iterators and loop variables."""
        return {var for tree in self._state.schedulable_trees() for var in find(tree.func, Var)}

    def _require_declared(self, primitive: Primitive, state: ScheduleState) -> None:
        """Raise `Refused` if, before the first step, some block does not declare what it touches. Every later step
        preserves this property.
        """
        broken = None if primitive.query or self._history else declares_what_it_touches.check(state)
        if broken is not None:
            raise declares_what_it_touches.refuse(broken)

    def _fresh_state(self) -> ScheduleState:
        return ScheduleState(self.mod, self._state.func_name, self._state.trees, self._random)

    def _commit(self, state: ScheduleState, primitive: Primitive, arguments: Mapping[str, Any], outputs: Any) -> None:
        before = self._state
        step = len(self._trace) + 1
        if self._verify:
            verify_step(before.mod, state.mod, state.comparable, self._headline(primitive, arguments), step)
        results = ", ".join(name_of(state, handle) for handle in schedule_handles.handles_in(outputs))
        story = (
            f"{primitive.past} {results} at step {step}" if results else f"is gone since step {step}: {primitive.name}"
        )
        history = self._snapshot()
        for name, func in before.mod.items():
            if state.mod[name] is func or not isinstance(func.body, BlockRealize):
                continue
            state.set_func(state.tree(name), widened(before.tree(name), state.tree(name)))
            verify_if_asked(primitive.name, state.mod[name])
            old, new = before.tree(name), state.tree(name)
            for var in old.loops.keys() - new.loops.keys():
                self._gone[var] = f"loop {var.name} {story}"
            for key in old.blocks.keys() - new.blocks.keys():
                self._gone[key] = f"block {old.blocks[key].block.name} {story}"
        self._history.append(history)
        self._state = ScheduleState(state.mod, before.func_name, state.trees)
        self._state.comparable = state.comparable

    def _with_handles(self, primitive: Primitive, name: str, value: Any) -> Any:
        """Replace block names in an argument by handles. As in TVM, the trace records how each block was found."""
        if not primitive.takes_blocks(name):
            return value
        if isinstance(value, str):
            handle = schedule_handles.BlockRV(self._state.block_named(value).block.id)
            current = handle in self._trace.handle_names() and handle not in self._removed
            return handle if current else self.call("get_block", {"name": value, "func_name": None})
        if isinstance(value, list | tuple):
            return [self._with_handles(primitive, name, item) for item in value]
        return value

    def _refuse_removed(self, handle: schedule_handles.Handle) -> None:
        if handle in self._removed:
            name = handle.key.name if isinstance(handle, schedule_handles.LoopRV) else name_of(self._state, handle)
            raise ScheduleError(f"the handle of {name} was removed from the schedule: remove_rv")

    def _resolve(
        self, handle: Any, state: ScheduleState | None = None
    ) -> BlockRealize | For | schedule_handles.PlaceKey:
        at = state or self._state
        key: Any = handle.key.loop if isinstance(handle.key, schedule_handles.ChosenLoop) else handle.key
        if isinstance(key, schedule_handles.PlaceKey):
            return key
        node = at.block(key) if isinstance(handle, schedule_handles.BlockRV) else at.loop(key)
        if node is not None:
            return node
        raise ScheduleError(self._gone.get(key) or foreign(handle))

    def _to_nodes(self, state: ScheduleState, primitive: Primitive, name: str, value: Any) -> Any:
        """Convert an argument to the form that the primitive's function expects: handles become nodes, and sampled
        numbers become values.
        """
        if not primitive.takes_nodes(name):
            value = with_numbers(value, self._numbers)
        wrong = misfit(primitive, name, value)
        if wrong is not None:
            raise ScheduleError(wrong)
        return self._nodes_in(state, value) if primitive.takes_nodes(name) else value

    def _nodes_in(self, state: ScheduleState, value: Any) -> Any:
        if isinstance(value, list | tuple):
            return type(value)(self._nodes_in(state, item) for item in value)
        return None if value is None else self._resolve(value, state)

    # ------------------------------------------------------------------ what is legal now

    def space(self, *names: str) -> list[PrimitiveCall]:
        """Return all calls that are currently legal, of the primitives in `names` or, by default, of all primitives.

        Tests draw from these calls, and tuners try them.
        """
        return legal_calls(self._chosen(names), self._fresh_state, self._would_take)

    def draw(self, choose: Callable[[int], int], *names: str, tries: int | None = None) -> PrimitiveCall | None:
        """Return one legal call without trying all of them: pick a primitive, and then one of its calls.

        `choose(n)` returns a number below n (`random.randrange`, or a Hypothesis draw); it is called twice. If a call
        is not legal, the calls after it are tried. After `tries` illegal calls in a row, the next primitive is tried
        (by default after 6, if there is another one). Returns None if no legal call was found. `names` works as in
        `space`.
        """
        return draw_call(self._chosen(names), self._fresh_state, self._would_take, choose, tries)

    def _chosen(self, names: Sequence[str]) -> list[Primitive]:
        return [registered(name) for name in names] if names else list(transforms())

    def _would_take(self, primitive: Primitive, arguments: Mapping[str, Any]) -> PrimitiveCall | None:
        """Return a call with `arguments` (nodes), or None if the call is refused or a trace could not record how to
        find the nodes.
        """
        # Some conditions are checked only while a primitive works, so a call is tried on a copy: states are values.
        try:
            self._require_declared(primitive, self._state)
            primitive.run(self._fresh_state(), arguments)
        except (Refused, TypeMismatch, InputError):
            return None
        handles = {name: schedule_handles.to_handles(value) for name, value in arguments.items()}
        if not all(map(self._can_be_found, schedule_handles.handles_in(list(handles.values())))):
            return None
        return PrimitiveCall(primitive, handles, self._headline(primitive, handles))

    def _can_be_found(self, handle: schedule_handles.Handle) -> bool:
        """Return whether a trace can record how to find the node of a handle. A loop is found through a block inside
        it.
        """
        if not isinstance(handle, schedule_handles.LoopRV) or handle in self._trace.handle_names():
            return True
        node = self._state.loop(handle.key)
        return node is not None and bool(self._state.home(node).blocks_in(node))

    def apply(self, call: PrimitiveCall) -> Any:
        """Make a call that was returned by `space` or `draw`."""
        return self.call(call.primitive, call.arguments)

    # ------------------------------------------------------------------ errors

    def _headline(self, primitive: Primitive, arguments: Mapping[str, Any]) -> str:
        return f"{primitive.name}({arguments_text(self._state, primitive, arguments, self._numbers)})"

    def _render(self, state: ScheduleState, primitive: Primitive, arguments: Mapping[str, Any], error: Refused) -> str:
        failure, needed = error.failure, error.requirement
        headline = f"{self._headline(primitive, arguments)}: {needed.name}"
        if self._level == "none":
            return headline
        headline = f"{headline:<79} [step {len(self._trace) + 1} of the trace]"
        program = None
        if self._level == "detail" and failure.spots:
            program = marked_program((self._state, state), failure.spots)
        return report(headline, program=program, wanted=failure.wanted, found=failure.found, tries=failure.tries)

    if not TYPE_CHECKING:  # a type checker should find misspelt names

        def __getattr__(self, name: str) -> Any:
            # Primitives are attributes of the class; only other names come here.
            if name.startswith("_"):
                raise AttributeError(name)
            known = [n for n in dir(type(self)) if not n.startswith("_")]
            raise AttributeError(f"a Schedule has no {name!r}; {nearest(name, known)}", name=name, obj=self)


def _add_method(primitive: Primitive) -> None:
    @functools.wraps(primitive.function)
    def method(self: Schedule, *args: Any, **kwargs: Any) -> Any:
        return self.call(primitive, bind(primitive, args, kwargs))

    method.__signature__ = primitive.signature  # type: ignore[attr-defined]
    method.__doc__ = primitive.document()
    for name in (primitive.name, *(alias for who, alias in primitive.aka.items() if who == "TVM")):
        setattr(Schedule, name, method)


RESERVED.update(name for name in vars(Schedule) if not name.startswith("__"))
on_registration(_add_method)


__all__ = ["PrimitiveCall", "Requirement", "Schedule", "bind"]

"""The record of a schedule's steps. It prints as Python, replays on another function, and is saved as TVM's JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...errors import InputError, ScheduleError
from ...expr import Expr, FloatImm, IntImm, StringImm, Var
from ..index_map import IndexMap
from ..nodes import Buffer
from ..python_text import python
from .handles import BlockRV, ExprRV, Handle, LoopRV, handles_in, map_handles
from .lambdas import IndexLambda
from .registry import Primitive

if TYPE_CHECKING:
    from .schedule import Schedule

DecisionProvider = Callable[["Instruction", Sequence[Any], Sequence[Any], Any], Any]
POSTPROC = "enter_postproc"


# Parameters that TVM keeps among the inputs although they take no block or loop. Those in the first list are lists
# whose items are separate inputs.
_INLINE = ("factors",)
_INPUTS = (*_INLINE, "ann_val", "new_order")


def is_input(primitive: Primitive, name: str) -> bool:
    """Return whether TVM stores the argument `name` among an instruction's inputs; otherwise the argument is an
    attribute.
    """
    return primitive.takes_nodes(name) or name in _INPUTS


def is_inline(primitive: Primitive, name: str) -> bool:
    """Return whether each item of the argument `name` is a separate input."""
    parameter = primitive.signature.parameters[name]
    return parameter.kind is parameter.VAR_POSITIONAL or name in _INLINE


def inputs_of(primitive: Primitive, arguments: Mapping[str, Any]) -> list[Any]:
    """Return the values of the arguments that are inputs, in the primitive's order."""
    inputs: list[Any] = []
    for name in primitive.signature.parameters:
        if is_input(primitive, name):
            value = arguments[name]
            inputs += value if is_inline(primitive, name) else [value]
    return inputs


def attributes_of(primitive: Primitive, arguments: Mapping[str, Any]) -> list[Any]:
    """Return the values of the arguments that are attributes, in the primitive's order. The decision is not
    included.
    """
    names = primitive.signature.parameters
    return [arguments[name] for name in names if name != "decision" and not is_input(primitive, name)]


class InstructionKind(str):
    """The name of a kind of instruction. `kind.name` is the same text, because TVM code uses it."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """The name itself."""
        return str(self)


@dataclass(frozen=True, slots=True, eq=False)
class Instruction:
    """One call of a primitive: its arguments by name (handles, numbers, strings, and lists of them) and its result.

    `decision` is the decision of a sampling primitive, and None for all others. Two instructions are never equal.
    """

    primitive: Primitive
    arguments: Mapping[str, Any]
    result: Any
    decision: Any = None

    @property
    def kind(self) -> InstructionKind:
        """The name of the primitive in TVM's trace format."""
        return InstructionKind(self.primitive.kind)

    @property
    def inputs(self) -> list[Any]:
        """The handles and other inputs in TVM's sense (factors, annotation values), in the primitive's order."""
        return inputs_of(self.primitive, self.arguments)

    @property
    def attrs(self) -> list[Any]:
        """The remaining arguments (attributes in TVM's sense), without the decision."""
        return attributes_of(self.primitive, self.arguments)

    @property
    def outputs(self) -> list[Handle]:
        """The handles in `result`, as a list."""
        return handles_in(self.result)

    def python(self, names: Mapping[Any, str], schedule: str = "sch", brief: bool = False) -> str:
        """Return the call as one line of Python; `names` gives the variable name of each handle.

        If `brief`, the line is as short as a person would write it: required arguments without their names, and no
        argument that has its default value.
        """
        left = ", ".join(names[handle] for handle in self.outputs)
        if isinstance(self.result, list) and len(self.outputs) == 1:
            left += ","  # a list of one is unpacked
        shown: list[str] = []
        for name, parameter in self.primitive.signature.parameters.items():
            value = self.decision if name == "decision" else self.arguments[name]
            required = parameter.default is parameter.empty and parameter.kind is not parameter.KEYWORD_ONLY
            if parameter.kind is parameter.VAR_POSITIONAL:
                shown.extend(_literal(item, names) for item in value)
            elif brief and required:
                shown.append(_literal(value, names))
            elif not brief or isinstance(value, Expr) or value != parameter.default:
                shown.append(f"{name}={_literal(value, names)}")
        call = f"{schedule}.{self.primitive.name}({', '.join(shown)})"
        return f"{left} = {call}" if left else call

    def with_decision(self, decision: Any) -> Instruction:
        """Return the same call with a different decision."""
        return Instruction(self.primitive, self.arguments, self.result, decision)


class Trace:
    """The instructions of a schedule in order. A sampling instruction includes its decision."""

    __slots__ = ("_insts", "_names", "_numbered")

    def __init__(self, insts: Sequence[Instruction] = (), decisions: Mapping[Instruction, Any] | None = None) -> None:
        overrides = decisions or {}
        self._insts = [inst.with_decision(overrides[inst]) if inst in overrides else inst for inst in insts]
        self._names: dict[Handle, str] = {}
        self._numbered = 0  # the number of instructions whose handles are in _names

    @property
    def insts(self) -> Sequence[Instruction]:
        """The instructions in order."""
        return tuple(self._insts)

    @property
    def decisions(self) -> dict[Instruction, Any]:
        """The decision of each sampling instruction."""
        return {inst: inst.decision for inst in self._insts if inst.decision is not None}

    def get_decision(self, inst: Instruction) -> Any:
        """Return the decision of a sampling instruction in this trace; None for any other instruction."""
        return self._insts[self._position(inst)].decision

    def append(self, inst: Instruction, decision: Any = None) -> None:
        """Append an instruction, with `decision` as its decision if given."""
        self._insts.append(inst if decision is None else inst.with_decision(decision))

    def repeats(self, query: Instruction) -> bool:
        """Return whether `query` would repeat a query: the trace ends with queries, and one of them is the same and
        returned the same handles.

        No step has changed the program since that query, so recording `query` as well would add nothing.
        """
        names = self.handle_names()
        if any(handle not in names for handle in query.outputs):
            return False
        for earlier in reversed(self._insts):
            if not earlier.primitive.query:
                return False
            if earlier.primitive is query.primitive and earlier.python(names) == query.python(names):
                return True
        return False

    def pop(self) -> Instruction | None:
        """Remove and return the last instruction; None if the trace is empty."""
        if not self._insts:
            return None
        last = self._insts[-1]
        self.truncate(len(self._insts) - 1)
        return last

    def truncate(self, length: int) -> None:
        """Remove all instructions after the first `length`."""
        del self._insts[length:]
        if self._numbered > length:
            self._names, self._numbered = {}, 0

    def __len__(self) -> int:
        return len(self._insts)

    def __iter__(self) -> Iterator[Instruction]:
        return iter(self._insts)

    def copy(self) -> Trace:
        """Return an independent copy of the trace."""
        copied = Trace(self._insts)
        copied._names, copied._numbered = dict(self._names), self._numbered
        return copied

    def handle_names(self) -> Mapping[Handle, str]:
        """Return the variable name of each handle: b0, l1, v2, ... As in TVM, all kinds share one counter."""
        for inst in self._insts[self._numbered :]:
            for handle in inst.outputs:
                if handle not in self._names:
                    self._names[handle] = f"{_letter(handle)}{len(self._names)}"
        self._numbered = len(self._insts)
        return self._names

    def as_python(self, remove_postproc: bool = False) -> list[str]:
        """Return one line of Python per instruction, for a schedule named `sch`.

        Raises `ScheduleError` if the trace cannot be replayed, like `apply_to_schedule`.
        """
        insts = self._without_postproc(remove_postproc)
        self._require_complete(insts)
        return [inst.python(self.handle_names()) for inst in insts]

    def __str__(self) -> str:
        """Return the text of a function that applies the trace. It can be run after `from minitvm import tir`."""
        names = self.handle_names()
        lines = [inst.python(names) for inst in self._insts] or ["pass"]
        gap = self._gap(self._insts)
        if gap is not None:  # repr never raises; this text does not run
            lines.insert(0, f"# step {gap} cannot be replayed: no step before it gives what it uses")
        return "\n".join(["def apply_trace(sch: tir.Schedule) -> None:", *("  " + line for line in lines)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook displays."""
        from ...notebook import program_html

        return program_html(str(self))

    def show(self, style: str | None = None, black_format: bool | None = None) -> None:
        """Print the trace as Python. The options exist for compatibility with TVM and have no effect."""
        del style, black_format
        print(self)

    # ------------------------------------------------------------------ replay

    def apply_to_schedule(
        self, sch: Schedule, remove_postproc: bool = False, decision_provider: DecisionProvider | None = None
    ) -> None:
        """Replay the instructions on another schedule. If one of them fails, the schedule stays unchanged and a
        `ScheduleError` is raised.

        The error says which step does not fit, and why. If a step uses a handle that no earlier step returns, the trace
        is refused before anything is done. Sampling instructions reuse the recorded decisions. If `decision_provider`
        is given, they use the result of `decision_provider(instruction, inputs, attributes, decision)` instead (None:
        sample again).
        """
        with sch.all_or_nothing():
            for _ in self.replay(sch, remove_postproc, decision_provider):
                pass

    def replay(
        self, sch: Schedule, remove_postproc: bool = False, decision_provider: DecisionProvider | None = None
    ) -> Iterator[Instruction]:
        """Replay the instructions like `apply_to_schedule`, and yield each one as soon as it has been applied.

        If an instruction fails, those before it stay applied.
        """
        mapping: dict[Handle, Any] = {}
        names = self.handle_names()
        steps = self._without_postproc(remove_postproc)
        self._require_complete(steps)
        for step, inst in enumerate(steps, 1):
            try:
                mapping.update(_replayed(inst, sch, mapping, decision_provider))
            except (ScheduleError, InputError) as error:
                line = inst.python(names)
                raise ScheduleError(
                    f"the trace does not fit: step {step} of {len(self)} is refused, {line}\n{error}"
                ) from None
            yield inst

    @staticmethod
    def _gap(insts: Sequence[Instruction]) -> int | None:
        """Return the number of the first step that uses a handle not returned by any earlier step; None if there is
        none.
        """
        defined: set[Handle] = set()
        for step, inst in enumerate(insts, 1):
            if not defined.issuperset(handles_in(list(inst.arguments.values()))):
                return step
            defined.update(inst.outputs)
        return None

    def _require_complete(self, insts: Sequence[Instruction]) -> None:
        step = self._gap(insts)
        if step is None:
            return
        line = insts[step - 1].python(self.handle_names())
        raise ScheduleError(
            f"the trace cannot be replayed: step {step} of {len(insts)} uses what no step before it gives, {line}\n"
            "  try:    the step that gave it (a query, such as get_block or get_loops) in front"
        )

    def _without_postproc(self, remove: bool) -> list[Instruction]:
        if remove:
            for position, inst in enumerate(self._insts):
                if inst.primitive.name == POSTPROC:
                    return self._insts[:position]
        return self._insts

    # ------------------------------------------------------------------ rewriting

    def simplified(self, remove_postproc: bool = False) -> Trace:
        """Return the trace without dead steps, which are queries and sampling steps whose results are not used.

        A query is also dead if it only returns handles that earlier steps already returned. With `remove_postproc`, all
        steps from `enter_postproc` on are removed too.
        """
        insts = self._without_postproc(remove_postproc)
        first: dict[Handle, Instruction] = {}
        for inst in insts:
            for handle in inst.outputs:
                first.setdefault(handle, inst)
        needed: set[Handle] = set()
        kept: list[Instruction] = []
        for inst in reversed(insts):
            used = needed.intersection(inst.outputs)
            if inst.primitive.query and all(first[handle] is not inst for handle in used):
                continue
            needed.update(handles_in(list(inst.arguments.values())))
            kept.append(inst)
        return Trace(kept[::-1])

    def with_decision(self, inst: Instruction, decision: Any, remove_postproc: bool) -> Trace:
        """Return the trace with a different decision for one sampling instruction. Evolutionary search uses this for
        mutation.
        """
        position = self._position(inst)
        if not inst.primitive.decides:
            raise InputError(f"with_decision: {inst.primitive.name} decides nothing")
        insts = list(self._insts)
        insts[position] = inst.with_decision(decision)
        return Trace(Trace(insts)._without_postproc(remove_postproc))

    def _position(self, inst: Instruction) -> int:
        for position, each in enumerate(self._insts):
            if each is inst:
                return position
        raise InputError("the instruction is not one of this trace")

    # ------------------------------------------------------------------ saving

    def as_json(self, remove_postproc: bool = False) -> list[Any]:
        """Return the trace as `[[[kind, inputs, attributes, outputs], ...], [[index, decision], ...]]`, made of lists,
        numbers and strings.

        Raises `ScheduleError` if the trace cannot be replayed, like `apply_to_schedule`.
        """
        from .trace_json import to_json

        insts = self._without_postproc(remove_postproc)
        self._require_complete(insts)
        return to_json(insts, self.handle_names())

    def dumps(self) -> str:
        """Return the result of `as_json` as JSON text."""
        return json.dumps(self.as_json())

    @staticmethod
    def from_json(json_obj: Sequence[Any] | str) -> Trace:
        """Load a saved trace (JSON text or the parsed data); raise `ArtifactError` if the data is not a trace."""
        from .trace_json import from_json

        return from_json(json_obj)

    @staticmethod
    def apply_json_to_schedule(json_obj: Sequence[Any] | str, sch: Schedule) -> None:
        """Replay a saved trace on a schedule.

        Raises `ArtifactError` if the data is not a trace, and otherwise the same errors as `apply_to_schedule`.
        """
        Trace.from_json(json_obj).apply_to_schedule(sch)


def _replayed(
    inst: Instruction, sch: Schedule, mapping: Mapping[Handle, Any], provider: DecisionProvider | None
) -> dict[Handle, Any]:
    """Run one instruction on another schedule; return a map from each recorded result handle to the new one."""
    arguments = {name: map_handles(value, mapping) for name, value in inst.arguments.items()}
    if "decision" in arguments:
        decision = inst.decision
        if provider is not None:
            inputs, attrs = inputs_of(inst.primitive, arguments), attributes_of(inst.primitive, arguments)
            decision = provider(inst, inputs, attrs, decision)
        arguments["decision"] = decision
    recorded, results = inst.outputs, handles_in(sch.call(inst.primitive, arguments))
    if len(recorded) != len(results):
        what = f"{inst.primitive.name} gives {len(results)} results here, {len(recorded)} where it was recorded"
        raise ScheduleError(what)
    return dict(zip(recorded, results, strict=True))


def plain(value: Any) -> Any:
    """Convert an argument to the form stored in a trace: constants become numbers, tuples become lists, and buffers
    become their names.
    """
    if isinstance(value, IntImm):
        return bool(value.value) if value.dtype.is_bool else value.value
    if isinstance(value, FloatImm):
        return float(value.value)
    if isinstance(value, StringImm):
        return value.value
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, Buffer):
        return value.name
    if isinstance(value, IndexMap):
        return IndexLambda.of(value)
    if callable(value) and type(value).__name__ in ("function", "method", "builtin_function_or_method", "partial"):
        return IndexLambda.of(value)
    return value


def _letter(handle: Handle) -> str:
    if isinstance(handle, BlockRV):
        return "b"
    return "l" if isinstance(handle, LoopRV) else "v"


def _literal(value: Any, names: Mapping[Any, str]) -> str:
    if isinstance(value, BlockRV | LoopRV):
        return names.get(value, "<gone>")
    if isinstance(value, Expr):
        return expression_text(value, names)
    if isinstance(value, list | tuple):
        return f"[{', '.join(_literal(item, names) for item in value)}]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k!r}: {_literal(v, names)}" for k, v in value.items()) + "}"
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return f'"{value}"' if isinstance(value, str) and not set('"\\\n') & set(value) else repr(value)


def expression_text(value: Expr, names: Mapping[Any, str]) -> str:
    """Return the text of an expression in which sampled numbers appear by name, for example `v3 * 2`."""
    shown: dict[Handle, Any] = {h: Var(names.get(h, "<gone>")) for h in handles_in(value)}
    return python(map_handles(value, shown))


__all__ = ["ExprRV", "Instruction", "Trace", "expression_text", "plain"]

"""The record of a schedule: it prints as Python, replays on another function, and saves as JSON in TVM's shape."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...errors import ArtifactError
from ...expr import FloatImm, IntImm, StringImm
from .handles import BlockRV, LoopRV, handles_in, map_handles
from .registry import Primitive, lookup

if TYPE_CHECKING:
    from .schedule import Schedule

# A list that TVM's traces hold inline among an instruction's inputs instead of nested.
_INLINE = ("factors",)


@dataclass(frozen=True, slots=True)
class Instruction:
    """One call of a primitive: arguments by name (handles, numbers, strings, lists of them) and what it returned."""

    primitive: Primitive
    arguments: Mapping[str, Any]
    outputs: Any

    def python(self, names: Mapping[Any, str], schedule: str = "sch") -> str:
        """The call as one line of Python; `names` gives each handle its variable."""
        results = handles_in(self.outputs)
        left = ", ".join(names[handle] for handle in results)
        if isinstance(self.outputs, list) and len(results) == 1:
            left += ","  # a list of one is unpacked
        shown: list[str] = []
        for name, parameter in self.primitive.signature.parameters.items():
            value = self.arguments[name]
            if parameter.kind is parameter.VAR_POSITIONAL:
                shown.extend(_literal(item, names) for item in value)
            else:
                shown.append(f"{name}={_literal(value, names)}")
        call = f"{schedule}.{self.primitive.name}({', '.join(shown)})"
        return f"{left} = {call}" if left else call


@dataclass(slots=True)
class Trace:
    """The instructions of a schedule in order, and the decisions of those that sampled."""

    insts: list[Instruction] = field(default_factory=list)
    decisions: dict[int, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.insts)

    def __iter__(self) -> Iterator[Instruction]:
        return iter(self.insts)

    def copy(self) -> Trace:
        """A trace of its own with the same instructions."""
        return Trace(list(self.insts), dict(self.decisions))

    def handle_names(self) -> dict[Any, str]:
        """The variable that each handle gets in print: b0, l1, l2, ... counted together as TVM does."""
        names: dict[Any, str] = {}
        for inst in self.insts:
            for handle in handles_in(inst.outputs):
                if handle not in names:
                    names[handle] = f"{'b' if isinstance(handle, BlockRV) else 'l'}{len(names)}"
        return names

    def as_python(self) -> list[str]:
        """One line of Python an instruction, on a schedule `sch`."""
        names = self.handle_names()
        return [inst.python(names) for inst in self.insts]

    def __str__(self) -> str:
        """A function that applies the trace; the text runs after `from minitvm import tir`."""
        lines = self.as_python() or ["pass"]
        return "\n".join(["def apply_trace(sch: tir.Schedule) -> None:", *("  " + line for line in lines)])

    def show(self) -> None:
        """Print the trace as Python."""
        print(self)

    def apply_to_schedule(self, sch: Schedule, remove_postproc: bool = False, decision_provider: Any = None) -> None:
        """Replay every instruction on another schedule; raises `ScheduleError` at the first that is not legal there."""
        mapping: dict[Any, Any] = {}
        for inst in self.insts:
            outputs = sch.call(inst.primitive, {k: map_handles(v, mapping) for k, v in inst.arguments.items()})
            mapping.update(zip(handles_in(inst.outputs), handles_in(outputs), strict=True))

    def simplified(self, remove_postproc: bool = False) -> Trace:
        """Without queries whose results nothing uses."""
        needed: set[Any] = set()
        kept: list[Instruction] = []
        for inst in reversed(self.insts):
            if inst.primitive.query and not needed.intersection(handles_in(inst.outputs)):
                continue
            needed.update(handles_in(list(inst.arguments.values())))
            kept.append(inst)
        return Trace(kept[::-1])

    def as_json(self) -> list[Any]:
        """`[[[kind, inputs, attributes, outputs], ...], decisions]`; plain lists, numbers and strings."""
        names = self.handle_names()
        return [[_instruction_json(inst, names) for inst in self.insts], []]

    def dumps(self) -> str:
        """The JSON text of `as_json`."""
        return json.dumps(self.as_json())

    @staticmethod
    def apply_json_to_schedule(json_obj: Sequence[Any] | str, sch: Schedule) -> None:
        """Replay a saved trace; raises `ArtifactError` where the data is not one."""
        known: dict[str, Any] = {}
        try:
            loaded: Any = json.loads(json_obj) if isinstance(json_obj, str) else json_obj
            instructions: list[Any] = loaded[0]
            rows = [(lookup(kind), inputs, attrs, outputs) for kind, inputs, attrs, outputs in instructions]
        except (ValueError, TypeError, IndexError, KeyError) as error:
            raise ArtifactError(f"not a saved trace: {error}") from error
        for chosen, inputs, attrs, outputs in rows:
            results = handles_in(sch.call(chosen, _arguments_from_json(chosen, inputs, attrs, known)))
            if len(results) != len(outputs):
                raise ArtifactError(
                    f"{chosen.name} gives {len(results)} results here, {len(outputs)} where it was saved"
                )
            known.update(zip(outputs, results, strict=True))


def plain(value: Any) -> Any:
    """An argument as a trace keeps it: constants as numbers and strings, tuples as lists."""
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
    return value


def _literal(value: Any, names: Mapping[Any, str]) -> str:
    if isinstance(value, BlockRV | LoopRV):
        return names.get(value, "<gone>")
    if isinstance(value, list | tuple):
        return f"[{', '.join(_literal(item, names) for item in value)}]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k!r}: {_literal(v, names)}" for k, v in value.items()) + "}"
    return f'"{value}"' if isinstance(value, str) and not set('"\\\n') & set(value) else repr(value)


def _is_input(primitive: Primitive, name: str) -> bool:
    return primitive.takes_nodes(name) or name in _INLINE


def _instruction_json(inst: Instruction, names: Mapping[Any, str]) -> list[Any]:
    inputs: list[Any] = []
    attrs: list[Any] = []
    for name, parameter in inst.primitive.signature.parameters.items():
        value = inst.arguments[name]
        if not _is_input(inst.primitive, name):
            attrs.append(value)
        elif parameter.kind is parameter.VAR_POSITIONAL or name in _INLINE:
            inputs.extend(_input_json(item, names) for item in value)
        else:
            inputs.append(_input_json(value, names))
    return [inst.primitive.kind, inputs, attrs, [names[handle] for handle in handles_in(inst.outputs)]]


def _input_json(value: Any, names: Mapping[Any, str]) -> Any:
    if isinstance(value, list | tuple):
        return [_input_json(item, names) for item in value]
    if isinstance(value, BlockRV | LoopRV):
        return names[value]
    # As in TVM: a string that is not the name of a handle is written with quotes around it.
    return f'"{value}"' if isinstance(value, str) else "None" if value is None else value


def _input_from_json(value: Any, known: Mapping[str, Any]) -> Any:
    if isinstance(value, list):
        return [_input_from_json(item, known) for item in value]
    if not isinstance(value, str):
        return value
    if value == "None":
        return None
    if value.startswith('"'):
        return value[1:-1]
    if value not in known:
        raise ArtifactError(f"not a saved trace: {value} is used before it is defined")
    return known[value]


def _arguments_from_json(primitive: Primitive, inputs: Any, attrs: Any, known: Mapping[str, Any]) -> dict[str, Any]:
    values = [_input_from_json(item, known) for item in inputs]
    rest = list(attrs)
    arguments: dict[str, Any] = {}
    try:
        for name, parameter in primitive.signature.parameters.items():
            if not _is_input(primitive, name):
                arguments[name] = rest.pop(0)
            elif parameter.kind is parameter.VAR_POSITIONAL or name in _INLINE:
                arguments[name], values = values, []
            else:
                arguments[name] = values.pop(0)
    except IndexError:
        raise ArtifactError(f"not a saved trace: {primitive.name} lacks an argument") from None
    return arguments

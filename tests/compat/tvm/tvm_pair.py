"""The same schedule step in minitvm and in a real TVM, and what may be said of the two results.

both accept      both results are run and compared with the program before; a difference is a fault of whose it is
we refuse        what TVM makes of it is run: other values are a miscompile of TVM's, the same an over-strict refusal
TVM refuses      listed
both refuse      nothing to say
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from minitvm.compat.tvm.bridge import (
    IndexMapSource,
    RealTVM,
    RemoteSchedule,
    ScheduleStep,
    TVMCrash,
    TVMRefusal,
    function_from,
    method_of,
    step_of,
)
from minitvm.compat.tvm.bridge import arguments_of as remote_arguments
from minitvm.errors import ExecutionError, InputError, MinitvmError, ScheduleError, Unsupported
from minitvm.expr import Call, structural_equal
from minitvm.reference import check, random_inputs
from minitvm.reference.judging.programs import execute
from minitvm.tir.nodes import BufferStore, PrimFunc
from minitvm.tir.schedule import PRIMITIVES, Schedule

from .tvm_calls import SPREAD, Tuple

# What a difference is about, by how its text begins.
_CAUSES = (
    "out of bounds", "conflicting accesses", "the programs differ", "the parameters", "uninitialised", "never written",
    "runs outside its domain",
)  # fmt: skip

AGREE, BOTH_REFUSE, TVM_REFUSES, OVER_STRICT = "both accept", "both refuse", "TVM refuses", "we refuse"
TVM_WRONG, WE_ARE_WRONG, TVM_CRASHES, WE_CRASH = (
    "TVM miscompiles",
    "minitvm miscompiles",
    "TVM crashes",
    "minitvm crashes",
)
TVM_INCONSISTENT = "TVM contradicts itself"
OTHER_RESULTS, UNREADABLE, UNDECIDED = "other results", "unreadable here", "not decided"
OUR_FAULTS = (WE_ARE_WRONG, WE_CRASH, UNREADABLE)
FINDINGS = (TVM_WRONG, TVM_CRASHES, TVM_INCONSISTENT, OTHER_RESULTS, *OUR_FAULTS)


@dataclass(frozen=True)
class Outcome:
    """What became of a step: `kind` is one of the constants above.

    `key` says why, the same for the same cause: a requirement of ours, the first line of an error of TVM's.
    """

    kind: str
    primitive: str
    key: str = ""
    detail: str = ""
    same_text: bool = False  # both accept: the results are equal up to names

    @property
    def signature(self) -> tuple[str, str, str]:
        """What makes two outcomes the same finding."""
        return self.kind, self.primitive, self.key


class Pair:
    """A schedule in minitvm and one in TVM, in step."""

    def __init__(self, func: PrimFunc, real: RealTVM, debug: bool = False) -> None:
        """`debug` lets TVM check after each step that what it remembers of the program is still true."""
        self.func = func
        self.ours = Schedule(func, seed=1, error_render_level="none")
        self.theirs: RemoteSchedule = real.open(func, debug_mask="all" if debug else "none")
        self.steps: list[ScheduleStep] = []  # that TVM was given
        self.after: PrimFunc | None = None  # TVM's last result

    def step(self, primitive: str, arguments: Mapping[str, Any]) -> Outcome:
        """Try a call in both. After any outcome but the first two the schedules are not in step any more."""
        known = len(self.ours.trace)
        about = about_call(self.ours, primitive, arguments)
        refusal, fault = "", ""
        if primitive in PRIMITIVES:
            try:
                self.ours.call(primitive, _ours(primitive, arguments))
            except ScheduleError as error:
                refusal = _requirement(str(error))
            except Exception as error:  # whatever it is, it is a fault of ours
                refusal, fault = "crash", f"{type(error).__name__}: {error}"
        else:
            refusal = "not in minitvm"
        self._introduce(arguments)  # our own refusals may come before that
        if fault:
            return Outcome(WE_CRASH, primitive, re.sub(r"\d+", "N", fault.split("\n")[0])[:100], fault)
        names = self.ours.trace.handle_names()
        fresh = list(self.ours.trace)[known:]
        queries = fresh if refusal else fresh[:-1]
        try:
            for instruction in queries:
                self._call(step_of(instruction, names))
            step = step_of(fresh[-1], names) if not refusal else self._refused_step(primitive, arguments, names)
            text = self._call(step)
        except TVMRefusal as error:
            if error.kind == "InternalError" and "Wrong" in error.message:
                return Outcome(TVM_INCONSISTENT, primitive, _tvm_reason(error.message), error.message)
            if refusal:
                return Outcome(BOTH_REFUSE, primitive, refusal, error.message)
            return self._ours_alone(primitive, error)
        except InputError as error:
            # It is for an earlier step to answer for, where a query shows it.
            changed = [s.method for s in self.steps if not s.method.startswith("get_")]
            return Outcome(OTHER_RESULTS, changed[-1] if changed else primitive, str(error).split("\n")[0], str(error))
        except TVMCrash as crash:
            return Outcome(TVM_CRASHES, primitive, crash.signal, str(crash))
        try:
            self.after = function_from(text)
        except MinitvmError as error:
            return Outcome(UNREADABLE, primitive, str(error).split("\n")[0], f"{error}\n{text}")
        return self._compared(primitive, refusal, about)

    def _call(self, step: ScheduleStep) -> str:
        self.steps.append(step)
        return self.theirs.call(step)

    def _introduce(self, arguments: Mapping[str, Any]) -> None:
        """Let the trace find the blocks and loops that a call of a primitive that we do not have takes."""
        from minitvm.tir.schedule.handles import handles_in

        for handle in handles_in([a for a in arguments.values() if not isinstance(a, IndexMapSource | Tuple)]):
            if handle not in self.ours.trace.handle_names():
                self.ours._introduce(handle)

    def _refused_step(self, primitive: str, arguments: Mapping[str, Any], names: Mapping[Any, str]) -> ScheduleStep:
        given = {name: tuple(value.items) if isinstance(value, Tuple) else value for name, value in arguments.items()}
        spread = SPREAD.get(primitive, "")
        args = tuple(remote_arguments(given.pop(spread), names)) if spread else ()
        return ScheduleStep(method_of(primitive), args, {k: remote_arguments(v, names) for k, v in given.items()}, None)

    def _ours_alone(self, primitive: str, error: TVMRefusal) -> Outcome:
        wrong = self._difference(self.ours.func)
        if wrong:
            return Outcome(WE_ARE_WRONG, primitive, f"{_cause(wrong)} (TVM refuses)", wrong)
        return Outcome(TVM_REFUSES, primitive, _tvm_reason(error.message), error.message)

    def _compared(self, primitive: str, refusal: str, about: str) -> Outcome:
        assert self.after is not None
        same = not refusal and structural_equal(self.ours.func, self.after)
        if not refusal:
            wrong = self._difference(self.ours.func)
            if wrong:
                return Outcome(WE_ARE_WRONG, primitive, _cause(wrong), wrong)
        try:
            wrong = "" if same else self._difference(self.after, seeds=(0, 1, 2))
        except Unsupported as reason:
            return Outcome(UNDECIDED, primitive, str(reason).split("\n")[0], str(reason))
        if wrong:
            return Outcome(TVM_WRONG, primitive, f"{_cause(wrong)}{about}", wrong)
        return Outcome(OVER_STRICT if refusal else AGREE, primitive, refusal, same_text=same)

    def _difference(self, after: PrimFunc, seeds: Sequence[int] = (0,)) -> str:
        """How a result differs from the program before all steps; empty where it does not, for the data of any seed."""
        for seed in seeds:
            try:
                verdict = check(self.func, after, seed=seed)
            except InputError as error:  # other parameters
                return str(error)
            if not verdict:
                return str(verdict)
        return ""

    def python(self) -> str:
        """The program and the steps as a file that runs under TVM and shows the result."""
        return script_for_tvm(self.func, self.steps)


def script_for_tvm(func: PrimFunc, steps: Sequence[ScheduleStep]) -> str:
    """A file that runs under TVM 0.27: the program, the steps, and the result printed."""
    lines = ["from tvm.s_tir import Schedule", "from tvm.script import tirx as T", "", ""]
    lines += [func.script(dialect="tvm-0.27", with_header=False), "", f"sch = Schedule({func.name})"]
    return "\n".join([*lines, *(step.python() for step in steps), "print(sch.mod.script())"])


def runs(func: PrimFunc) -> bool:
    """Whether a program has a meaning to compare with: it reads nothing that it has not written."""
    try:
        execute(func, random_inputs(func))
    except (ExecutionError, Unsupported):
        return False
    return True


def about_call(sch: Schedule, primitive: str, arguments: Mapping[str, Any]) -> str:
    """What tells calls of one primitive apart, where one fault must not hide another."""
    if primitive != "fuse_reduction_epilogue":
        return ""
    store = sch.get(arguments["epilogue_block"]).body
    value = store.value if isinstance(store, BufferStore) else None
    return f", epilogue {value.op if isinstance(value, Call) else type(value).__name__}"


def _cause(difference: str) -> str:
    return next((cause for cause in _CAUSES if cause in difference.split("\n")[0]), difference.split("\n")[0][:60])


def _ours(primitive: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments for our own primitive: index maps as functions, defaults filled in."""
    signature = PRIMITIVES[primitive].signature
    given: dict[str, Any] = {}
    for name, value in arguments.items():
        if isinstance(value, IndexMapSource):
            given[name] = eval(value.text)
        else:
            given[name] = value.items if isinstance(value, Tuple) else value
    for name, parameter in signature.parameters.items():
        if name not in given and parameter.default is not parameter.empty:
            given[name] = parameter.default
    return {name: given[name] for name in signature.parameters}


def _requirement(message: str) -> str:
    """The name of the requirement in a refusal of ours."""
    found = re.search(r"\): (\w+)$", message.split("\n")[0])
    return found.group(1) if found else message.split("\n")[0]


def _tvm_reason(message: str) -> str:
    """The heart of a refusal of TVM's, without names and numbers of this one program."""
    lines = [line.strip() for line in message.strip().splitlines() if line.strip()]
    told = next((line for line in lines if line.startswith("Error message:")), lines[-1] if lines else "")
    told = told.removeprefix("Error message:").strip()
    return re.sub(r"0x[0-9a-f]+|\b\d+\b", "N", told.partition(" (")[0])[:100]

"""A real Apache TVM 0.27 in a process of its own: programs and schedule steps go there, programs, refusals come back.

    with RealTVM() as real:
        assert real.roundtrip(func) == func            # up to names: expr.structural_equal
        schedule = real.open(func)
        text = schedule.call(Step("split", (), {"loop": Result("l0"), "factors": [None, 4]}, ("l1", "l2")))

The process may be another interpreter than this one (MINITVM_TVM_PYTHON names it), so that TVM's packages and minitvm's
need not go together. What kills TVM, or hangs it, is a `TVMCrash` here and nothing worse: the next request starts it
again.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from ...errors import InputError, MinitvmError, missing_extra
from ...expr import Expr
from ...tir.nodes import IRModule, PrimFunc
from ...tir.schedule import Trace
from ...tir.schedule.handles import BlockRV, ExprRV, LoopRV, handles_in
from ...tir.schedule.lambdas import IndexLambda
from ...tir.schedule.trace import Instruction, plain
from ...tir.script.source import from_source

PYTHON_VARIABLE = "MINITVM_TVM_PYTHON"
SERIES = "0.27."
_WORKER = Path(__file__).with_name("worker.py")
# Where the two differ in a method's name.
_METHODS = {"get_block": "get_sblock"}
_KINDS = {"GetBlock": "GetSBlock"}  # the same, in JSON
_SHOWN_LINES = 30  # of what a crashed process wrote


class TVMRefusal(MinitvmError):
    """TVM refused a program or a step; `kind` is the class of its error, the text is TVM's own."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message


class TVMCrash(MinitvmError):
    """TVM's process ended, killed by `signal` ("SIGABRT"), or did not answer in time (`signal` is "timeout")."""

    def __init__(self, signal_name: str, message: str) -> None:
        super().__init__(message)
        self.signal = signal_name


@dataclass(frozen=True, slots=True)
class StepResult:
    """What an earlier step gave, by name."""

    name: str


@dataclass(frozen=True, slots=True)
class ScheduleStep:
    """One call of a schedule's method: TVM's name, arguments in which a `StepResult` is what an earlier step gave.

    `outputs` names the results, in order; None where nobody asks for them.
    """

    method: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    outputs: tuple[str, ...] | None = ()

    def python(self, schedule: str = "sch") -> str:
        """The call as a line of Python that runs under TVM."""
        arguments = [_source(a) for a in self.args] + [f"{k}={_source(v)}" for k, v in self.kwargs.items()]
        call = f"{schedule}.{self.method}({', '.join(arguments)})"
        if not self.outputs:
            return call
        names = ", ".join(self.outputs)
        several = self.method in ("get_loops", "split", "loop_partition", "get_child_blocks", "get_consumers",
                                  "get_producers", "get_output_blocks", "cache_index", "cache_inplace",
                                  "sample_perfect_tile", "sample_partitioned_tile")  # fmt: skip
        return f"{names}{',' if several and len(self.outputs) == 1 else ''} = {call}"


@dataclass(frozen=True, slots=True)
class IndexMapSource:
    """A function over indices as the source of a Python lambda, for arguments that are index maps."""

    text: str


class RealTVM:
    """A process with TVM in it. Raises `MissingExtra` where there is none, `InputError` where it is another version.

    `python` is the interpreter to run (default: MINITVM_TVM_PYTHON, then this one); `timeout` is in seconds a request.
    """

    def __init__(self, python: str | None = None, timeout: float = 60.0) -> None:
        self._python = python or _interpreter()
        self._timeout = timeout
        self._process: subprocess.Popen[bytes] | None = None
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as this object
        self._pending = b""
        self._starts = 0
        try:
            self._start()
        except MinitvmError:
            self.close()
            raise

    # ---- programs ----------------------------------------------------------------------------------------------

    def script(self, program: PrimFunc | IRModule | str) -> str:
        """A program as TVM prints it, after parsing what we print. Raises `TVMRefusal` where it does not parse."""
        return str(self._ask("script", text=text_of(program))["text"])

    def roundtrip(self, program: PrimFunc | IRModule) -> PrimFunc | IRModule:
        """A program handed to TVM and read back from what TVM prints; a function comes back as a function."""
        return self._as(program, self.script(program))

    def equal(self, program: PrimFunc | IRModule | str, other: PrimFunc | IRModule | str) -> bool:
        """Whether TVM takes two programs for the same, up to names."""
        return bool(self._ask("equal", text=text_of(program), other=text_of(other))["equal"])

    # ---- schedules ---------------------------------------------------------------------------------------------

    def open(self, program: PrimFunc | IRModule, debug_mask: str = "none") -> RemoteSchedule:
        """A schedule over there; it lasts until the next is opened. `debug_mask="all"` has it check itself."""
        number = self._ask("open", text=text_of(program), debug_mask=debug_mask)["schedule"]
        return RemoteSchedule(self, number, self._starts)

    def schedule(self, program: PrimFunc | IRModule, steps: Trace | Sequence[ScheduleStep]) -> IRModule:
        """The module after all steps. Raises `TVMRefusal` at the first that TVM refuses."""
        remote = self.open(program)
        text = ""
        for step in steps_of(steps) if isinstance(steps, Trace) else steps:
            text = remote.call(step)
        return module_from(text) if text else as_module(program)

    def replay(self, program: PrimFunc | IRModule, trace: Trace | Sequence[Any]) -> tuple[IRModule, list[Any]]:
        """A trace, as its JSON, applied over there: the module after it, and the trace as TVM writes it."""
        rows = json_of(trace, working_name(program)) if isinstance(trace, Trace) else list(trace)
        answer = self._ask("replay", text=text_of(program), trace=rows)
        return module_from(answer["text"]), answer["json"]

    # ---- the process -------------------------------------------------------------------------------------------

    @property
    def primitives(self) -> list[str]:
        """The names of the methods of TVM's schedules."""
        return list(self._about["primitives"])

    @property
    def version(self) -> str:
        """TVM's version, "0.27.0.post1"."""
        return str(self._about["version"])

    def close(self) -> None:
        """End the process."""
        self._end()
        self._said.close()

    def __enter__(self) -> RealTVM:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def _start(self) -> None:
        self._said.truncate(0)
        self._pending = b""
        self._process = subprocess.Popen(
            [self._python, str(_WORKER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said
        )
        self._starts += 1
        try:
            self._about = self._request({"do": "version"})
        except TVMCrash as crash:
            if "No module named" in str(crash):
                raise missing_extra("Apache TVM", "tvm") from None
            raise
        if not str(self._about["version"]).startswith(SERIES):
            version = self._about["version"]
            raise InputError(f"the TVM of {self._python} is another\n  wanted: {SERIES}x\n  found:  {version}")

    def _ask(self, what: str, **details: Any) -> dict[str, Any]:
        if self._process is None or self._process.poll() is not None:
            self._end()
            self._start()
        answer = self._request({"do": what, **details})
        if answer.pop("ok"):
            return answer
        raise TVMRefusal(answer["error"], answer["message"])

    def _request(self, request: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process is not None and self._process.stdin is not None  # both set by _start
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            line = self._line()
        except BrokenPipeError:
            line = b""
        if not line:
            raise self._crash(request)
        return dict(json.loads(line))

    def _line(self) -> bytes:
        """The next line of an answer; empty where the process ended, or did not answer in time and was ended."""
        assert self._process is not None and self._process.stdout is not None
        end = time.monotonic() + self._timeout
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._pending:
                if not selector.select(max(0.0, end - time.monotonic())):
                    raise self._timed_out()
                more = os.read(self._process.stdout.fileno(), 1 << 16)
                if not more:
                    return b""
                self._pending += more
        line, _, self._pending = self._pending.partition(b"\n")
        return line

    def _timed_out(self) -> TVMCrash:
        self._end()
        return TVMCrash("timeout", f"TVM did not answer within {self._timeout:g} seconds{self._last_words()}")

    def _crash(self, request: Mapping[str, Any]) -> TVMCrash:
        assert self._process is not None
        status = self._process.wait()
        name = signal.Signals(-status).name if status < 0 else f"status {status}"
        self._end()
        return TVMCrash(name, f"TVM's process ended with {name} at `{request['do']}`{self._last_words()}")

    def _end(self) -> None:
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):  # a request that it did not read
                    pipe.close()
        self._process = None

    def _last_words(self) -> str:
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").strip().splitlines()[-_SHOWN_LINES:]
        return "".join("\n    " + line for line in lines)

    @staticmethod
    def _as(program: PrimFunc | IRModule, text: str) -> PrimFunc | IRModule:
        if isinstance(program, PrimFunc):
            return function_from(text)
        module = module_from(text)
        # TVM's modules have an order of their own.
        return IRModule({name: module[name] for name in program.functions if name in module}, module.attrs)


class RemoteSchedule:
    """A schedule in TVM's process."""

    def __init__(self, real: RealTVM, number: int, start: int) -> None:
        self._real = real
        self._number = number
        self._start = start

    def call(self, step: ScheduleStep) -> str:
        """Take a step; the text of the module after it. Raises `TVMRefusal`, after which the schedule is as before.

        Raises `InputError` where the step gave another number of results than it names.
        """
        answer = self._ask(
            "call",
            method=step.method,
            args=[encoded(a) for a in step.args],
            kwargs={name: encoded(value) for name, value in step.kwargs.items()},
            outputs=list(step.outputs or ()),
        )
        if step.outputs is not None and answer["results"] != len(step.outputs):
            raise InputError(
                f"{step.method} gives another number of results in TVM\n"
                f"  wanted: {len(step.outputs)}\n  found:  {answer['results']}"
            )
        return str(answer["text"])

    def trace(self) -> list[Any]:
        """The trace so far, in TVM's JSON."""
        return list(self._ask("trace")["json"])

    def _ask(self, what: str, **details: Any) -> dict[str, Any]:
        if self._real._starts != self._start:
            raise TVMCrash("gone", "the schedule went with the process that held it")
        return self._real._ask(what, schedule=self._number, **details)


# ---- texts and arguments -------------------------------------------------------------------------------------------


def reason_missing() -> str:
    """Why there is no TVM to talk to, in a sentence; empty where its package is there."""
    if os.environ.get(PYTHON_VARIABLE) or importlib.util.find_spec("tvm") is not None:
        return ""
    return f"Apache TVM is not installed (pip install 'minitvm[tvm]', or {PYTHON_VARIABLE}=/path/to/python)"


def text_of(program: PrimFunc | IRModule | str) -> str:
    """A program in TVM 0.27's spelling."""
    return program if isinstance(program, str) else program.script(dialect="tvm-0.27")


def as_module(program: PrimFunc | IRModule) -> IRModule:
    """A function as a module of its own."""
    return program if isinstance(program, IRModule) else IRModule.from_expr(program)


def module_from(text: str) -> IRModule:
    """What TVM printed, as a module; raises `ParseError`."""
    parsed = from_source(text)
    return as_module(parsed)


def function_from(text: str) -> PrimFunc:
    """What TVM printed, as its only function."""
    module = module_from(text)
    if len(module.functions) != 1:
        raise InputError(f"wanted one function, found {', '.join(module.functions) or 'none'}")
    return next(iter(module.functions.values()))


def steps_of(trace: Trace) -> Iterator[ScheduleStep]:
    """The instructions of one of our traces as steps for TVM."""
    names = trace.handle_names()
    for instruction in trace:
        yield step_of(instruction, names)


def json_of(trace: Trace, func_name: str = "main") -> list[Any]:
    """A trace as JSON that TVM 0.27 loads, where a block is an "SBlock", and found in a function by name."""
    rows, decisions = trace.as_json()
    converted = []
    for kind, inputs, attrs, outputs in rows:
        if kind == "GetBlock":
            attrs = [attrs[0], attrs[1] or func_name]
        converted.append([_KINDS.get(kind, kind), _inputs(kind, inputs), attrs, outputs])
    return [converted, decisions]


def working_name(program: PrimFunc | IRModule) -> str:
    """The function of a program that a schedule works on."""
    names = list(as_module(program).functions)
    return "main" if "main" in names else names[0]


def _inputs(kind: str, inputs: list[Any]) -> list[Any]:
    """Where all consumers are meant, TVM has an empty list of them."""
    return [[] if item == "None" else item for item in inputs] if kind in ("CacheRead", "CacheWrite") else inputs


def step_of(instruction: Instruction, names: Mapping[Any, str]) -> ScheduleStep:
    """One instruction as a step; `names` names every handle that it takes or gives."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    primitive = instruction.primitive
    for name, parameter in primitive.signature.parameters.items():
        argument = instruction.decision if name == "decision" else instruction.arguments[name]
        value = arguments_of(argument, names)
        if parameter.kind is parameter.VAR_POSITIONAL:
            args.extend(value)
        else:
            kwargs[name] = value
    outputs = tuple(names[handle] for handle in handles_in(instruction.outputs))
    return ScheduleStep(method_of(primitive.name), tuple(args), kwargs, outputs)


def method_of(primitive: str) -> str:
    """TVM 0.27's name for a primitive."""
    return _METHODS.get(primitive, primitive)


def arguments_of(value: Any, names: Mapping[Any, str]) -> Any:
    """An argument with its handles as the results that they are."""
    if isinstance(value, BlockRV | LoopRV | ExprRV):
        return StepResult(names[value])
    if isinstance(value, IndexLambda):
        return IndexMapSource(repr(IndexLambda(value.parameters, value.results)))
    if isinstance(value, list) and len(value) == 2 and value[0] in ("read", "write"):
        return tuple(value)  # a buffer by its place: a trace keeps tuples as lists
    if isinstance(value, list | tuple):
        return type(value)(arguments_of(item, names) for item in value)
    if isinstance(value, Mapping):
        return {key: arguments_of(item, names) for key, item in value.items()}
    return value


def encoded(value: Any) -> Any:
    """An argument as JSON; raises `InputError` for what has none."""
    if isinstance(value, tuple):
        return {"tuple": [encoded(item) for item in value]}
    if isinstance(value, list):
        return [encoded(item) for item in value]
    value = plain(value)
    if isinstance(value, StepResult):
        return {"rv": value.name}
    if isinstance(value, IndexMapSource):
        return {"index_map": value.text}
    if isinstance(value, dict):
        return {str(key): encoded(item) for key, item in value.items()}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    what = f"the expression {value}" if isinstance(value, Expr) else repr(value)
    raise InputError(f"{what} cannot be handed to TVM as an argument")


def _source(value: Any) -> str:
    if isinstance(value, StepResult):
        return value.name
    if isinstance(value, IndexMapSource):
        return value.text
    if isinstance(value, tuple):
        return f"({''.join(_source(item) + ', ' for item in value)})"
    if isinstance(value, list):
        return f"[{', '.join(map(_source, value))}]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k!r}: {_source(v)}" for k, v in value.items()) + "}"
    return json.dumps(value) if isinstance(value, str) else repr(plain(value))


def _interpreter() -> str:
    setting = os.environ.get(PYTHON_VARIABLE)
    if setting:
        return setting
    if importlib.util.find_spec("tvm") is None:
        raise missing_extra("Apache TVM", "tvm")
    return sys.executable

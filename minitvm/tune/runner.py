"""The process that runs candidates. It loads the runtime once, and forks a child for each measurement.

If a child crashes, hangs or uses too much memory, only this child is lost: its parent reports the signal that ended it,
and its output. Opening a device takes longer than measuring, so a child that has opened a device serves further
measurements until a candidate makes it crash; any damage to the device's state ends with the child.

The process is started as a plain program (`python -m minitvm.tune.runner`). Requests and replies are JSON messages
(`workers.process`). A request has these fields:

    artifacts   paths of modules to run: one, or two that take turns
    key         the key that signs the modules, as hex
    kept        positions of the arguments that are the same in each run
    zeros       positions of the arguments that are indices, or count iterations: zeros, so that they are in bounds
    expected    the file of results to compare with, or "" if this run must write its results to `results`
    runs, least timed runs of each: at least `least`, and more than `runs` only until the fastest time repeats
    hopeless    give up an artifact after `least` runs if its fastest is this many times as slow as the other; 0: never
    seconds     of all runs together, roughly
    between     bytes of other arguments that runs use before they use the same ones again
    limit       seconds after which the child counts as hung
    memory      bytes of memory that the child may use; 0 for any number
    device      the kind of target whose device the child keeps open; "" for a child that measures once

The reply has an outcome of `records`, `seconds` of each run of each artifact, and a message. A request with `open`
opens a device of that kind, and its reply has the device's `name` and `architectures`. A request with `operators` runs
builds of a network: see `in_network`.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import json
import os
import resource
import select
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..executable.nodes import Input, ScalarSpec
from ..workers.process import LENGTH, read_message, write_message

OK, WRONG, CRASHED, HUNG, MEMORY, REFUSED = "ok", "wrong", "crashed", "hung", "memory", "refused"
TOLERANCE = 1e-4  # of the largest value: small integers are summed exactly, functions such as exp are not
REPEATS, NEAR = 3, 1.05  # runs that take no longer than so many times the fastest one: it was undisturbed
LONGER = 4  # times the seconds of a measurement, until they are waited for
_PDEATHSIG = 1
_COPIES = 16  # of the arguments, at most
_TAIL = 200  # characters of the last line that a child wrote


def main() -> None:
    """Serve until the parent closes the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    from ..backend import own
    from ..runtime import load  # noqa: F401  (loaded once, for all children)
    from . import in_network  # noqa: F401

    for backend in own():
        if backend.kind == "cpu":
            backend.part("program"), backend.part("machine_code")
    children: dict[str, Child] = {}
    while (message := read_message(sys.stdin.buffer)) is not None:
        request = json.loads(message)
        reply = on_a_device(request, children) if request["device"] else in_a_child(request)
        write_message(replies, json.dumps(reply).encode())


def in_a_child(request: Mapping[str, Any]) -> dict[str, Any]:
    """Measure in a new child process and return its reply, or how the process ended."""
    child = Child(request["memory"])
    try:
        return child.ask(request)
    finally:
        child.end()


def on_a_device(request: Mapping[str, Any], children: dict[str, Child]) -> dict[str, Any]:
    """Measure in the process of `children` that has the device open; if it has ended, or there is none, start a new
    one.
    """
    child = children.get(request["device"])
    if child is None or child.has_ended:
        if child is not None:
            child.end()
        child = children[request["device"]] = Child(request["memory"])
    return child.ask(request)


class Child:
    """A process that measures one request after the other, until one crashes or hangs. Its output is kept."""

    def __init__(self, memory: int) -> None:
        asking, self._requests = os.pipe()
        self._replies, answering = os.pipe()
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 (`end` closes it)
        self._status: int | None = None  # as `waitpid` has it, once the process has ended
        self._number = os.fork()
        if self._number == 0:
            os.close(self._requests)
            _child(asking, answering, self._said.fileno(), memory)
        os.close(asking)
        os.close(answering)

    @property
    def has_ended(self) -> bool:
        """Return whether the process has ended."""
        if self._status is None:
            number, status = os.waitpid(self._number, os.WNOHANG)
            self._status = status if number else None
        return self._status is not None

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the reply to a request, or a report of how the process ended. In that case, ask it nothing more."""
        begin = self._said.seek(0, os.SEEK_END)
        with contextlib.suppress(BrokenPipeError), os.fdopen(os.dup(self._requests), "wb") as pipe:
            write_message(pipe, json.dumps(request).encode())
        data, in_time = _read_reply(self._replies, request["limit"])
        if data is not None:
            reply: dict[str, Any] = json.loads(data)
            return reply
        if not in_time:
            os.kill(self._number, signal.SIGKILL)
        status = self._waited()
        self._said.seek(begin)
        text = self._said.read().decode(errors="replace").strip()
        self.end()
        if not in_time:
            return {"outcome": HUNG, "message": f"no end after {request['limit']:.3g} s", "seconds": []}
        how = _signal_name(os.WTERMSIG(status)) if os.WIFSIGNALED(status) else f"exit status {os.WEXITSTATUS(status)}"
        return {"outcome": CRASHED, "message": _with_tail(how, text), "seconds": []}

    def end(self) -> None:
        """End the process and wait until it has ended."""
        if not self._said.closed:
            os.close(self._requests)
            os.close(self._replies)
            self._said.close()
        self._waited()

    def _waited(self) -> int:
        """Wait for the process, and return its status as `waitpid` does."""
        if self._status is None:
            _, self._status = os.waitpid(self._number, 0)
        return self._status


def _child(asking: int, answering: int, said: int, memory: int) -> None:
    """Serve requests in the forked child; never returns."""
    code = 1
    try:
        with contextlib.suppress(OSError):
            ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL)  # not to outlive the one who waits
        os.dup2(said, 1)
        os.dup2(said, 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if memory:
            resource.setrlimit(resource.RLIMIT_AS, (int(memory),) * 2)
        with os.fdopen(asking, "rb") as requests, os.fdopen(answering, "wb") as replies:
            while (message := read_message(requests)) is not None:
                request = json.loads(message)
                write_message(replies, json.dumps(answered(request)).encode())
        code = 0
    except BaseException as error:
        summary = traceback.format_exception_only(error)[-1].splitlines()[0]  # some errors have several lines
        os.write(2, f"{traceback.format_exc()}{summary}\n".encode())
    finally:
        os._exit(code)


def answered(request: Mapping[str, Any]) -> dict[str, Any]:
    """Do a request in this process and return the reply."""
    if "open" in request:
        return opened(request["open"])
    if "operators" in request:
        from .in_network import measured as measured_in_network

        return measured_in_network(request)
    return measured(request)


def opened(kind: str) -> dict[str, Any]:
    """Open the device of a kind of target in this process, and return the reply that describes it."""
    from ..backend import get
    from ..errors import TargetError

    try:
        device = get(kind).part("opened")()
    except TargetError as error:
        return {"outcome": REFUSED, "message": str(error)}
    return {"outcome": OK, "message": "", "name": device.name, "architectures": [device.arch] if device.arch else []}


def measured(request: Mapping[str, Any]) -> dict[str, Any]:
    """Run the artifacts of a request in this process; the module's docstring describes the request and the reply."""
    from ..errors import TargetError
    from ..runtime import load

    try:
        functions: list[Any] = [load(path, key=bytes.fromhex(request["key"])) for path in request["artifacts"]]
        copies = _arguments(functions[0], request["zeros"], request["between"], request["kept"])
        copies = [[_there(functions[0], value) for value in arguments] for arguments in copies]
        for function in functions:  # the first run also finds out whether it is right
            function(*copies[0])
            fault = _compared(function, copies[0], request["expected"], request["results"])
            if fault:
                return {"outcome": WRONG, "message": fault, "seconds": []}
        clocks = [function.clock(copies) or HostClock(function, copies) for function in functions]
    except MemoryError:
        return {"outcome": MEMORY, "message": f"more than {request['memory'] / 1e9:.3g} GB", "seconds": []}
    except TargetError as error:  # a limit of the device, which another kind of error would leave unusable
        return {"outcome": REFUSED, "message": " ".join(str(error).split()), "seconds": []}
    return {"outcome": OK, "message": "", "seconds": _timed(clocks, request)}


class HostClock:
    """Times calls of a function by the host's clock; call after call uses the next of `copies` of the arguments."""

    def __init__(self, function: Any, copies: Sequence[Sequence[Any]]) -> None:
        self.function, self.copies = function, copies

    def __call__(self, number: int) -> float:
        """Return the seconds of call `number`."""
        arguments = self.copies[number % len(self.copies)]
        start = time.perf_counter()
        self.function(*arguments)
        return time.perf_counter() - start


def _timed(clocks: Sequence[Callable[[int], float]], request: Mapping[str, Any]) -> list[list[float]]:
    """Time runs by each clock in turn, and return the seconds of each; there are more runs until the fastest time
    repeats.
    """
    seconds: list[list[float]] = [[] for _ in clocks]
    begin, number = time.perf_counter(), 0
    while True:
        for timed, times in zip(clocks, seconds, strict=True):
            times.append(timed(number))
            number += 1
        count, elapsed = len(seconds[0]), time.perf_counter() - begin
        if count < min(request["least"], request["runs"]):
            continue
        if request["hopeless"] and min(seconds[0]) > request["hopeless"] * min(seconds[-1]):
            break
        is_enough = count >= request["runs"] or elapsed > request["seconds"]
        if is_enough and (elapsed > LONGER * request["seconds"] or all(map(_is_settled, seconds))):
            break
    return seconds


def _is_settled(seconds: Sequence[float]) -> bool:
    """Return whether the fastest time has repeated, so that another run would hardly be faster."""
    return sum(one <= NEAR * min(seconds) for one in seconds) >= REPEATS


def _arguments(function: Any, zeros: Sequence[int], between: int, kept: Sequence[int]) -> list[list[Any]]:
    """Return several sets of arguments of small integers, enough to touch `between` bytes before one set is used again.

    The arguments at the positions `kept` are the same in each set.
    """
    generator = np.random.default_rng(0)
    first = [_argument(generator, spec, position in zeros) for position, (spec, _) in enumerate(_parameters(function))]
    changing = [p for p, a in enumerate(first) if isinstance(a, np.ndarray) and p not in kept]
    nbytes = max(1, sum(a.nbytes for a in first if isinstance(a, np.ndarray)))
    count = min(_COPIES, 1 + -(-between // nbytes)) if changing else 1
    again = [[a.copy() if p in changing else a for p, a in enumerate(first)] for _ in range(count - 1)]
    return [first, *again]


def _there(function: Any, value: Any) -> Any:
    """Return the argument as the function uses it in place: an array is moved to its device."""
    return function.to_device(value) if isinstance(value, np.ndarray) else value


def _parameters(function: Any) -> list[tuple[Any, bool]]:
    """Return the specification of each parameter, and whether the function writes it."""
    x = function.executable
    return [
        (x.inputs[place.index], False) if isinstance(place, Input) else (x.outputs[place.index], True)
        for place in x.calling_order
    ]


def _argument(generator: np.random.Generator, spec: Any, zero: bool) -> Any:
    if isinstance(spec, ScalarSpec):
        return 0 if zero else 1
    shape, dtype = tuple(int(dim) for dim in spec.shape), spec.dtype.numpy
    if zero:
        return np.zeros(shape, dtype)
    low, high = (0, 2) if np.dtype(dtype).kind == "b" else (0, 8) if np.dtype(dtype).kind in "iu" else (-3, 4)
    return generator.integers(low, high, shape).astype(dtype)


def _compared(function: Any, arguments: Sequence[Any], expected: str, results: str) -> str:
    """Compare the results in these arguments with the expected ones; return the difference as a line, "" if there is
    none.

    If there are no expected results yet, store these.
    """
    written = [_here(a) for a, (_, one) in zip(arguments, _parameters(function), strict=True) if one]
    if not expected:
        partial = f"{results}.partial"  # who is killed here leaves no file that looks like results
        with open(partial, "wb") as file:
            np.savez(file, *[_plain(a) for a in written])
        os.replace(partial, results)
        return ""
    with np.load(expected) as file:
        for number, found in enumerate(written):
            wanted, found = file[f"arr_{number}"], _plain(found)
            if wanted.shape != found.shape or wanted.dtype != found.dtype:
                return f"result {number} is {found.dtype}{list(found.shape)}, wanted {wanted.dtype}{list(wanted.shape)}"
            apart = _difference(wanted, found)
            if not apart <= (TOLERANCE if wanted.dtype.kind == "f" else 0):
                return f"result {number} is {apart:.3g} of its largest value from that of the untuned program"
    return ""


def _here(array: Any) -> Any:
    """Return the array in the host's memory."""
    return array if isinstance(array, np.ndarray) else array.numpy()


def _plain(array: Any) -> Any:
    """Convert 16-bit floats to float32, which files can hold."""
    return array.astype(np.float32) if array.dtype.kind == "V" or array.dtype.itemsize == 2 else array


def _difference(wanted: Any, found: Any) -> float:
    """Return the largest difference, relative to the largest finite value; infinity if NaN or infinities differ."""
    if wanted.dtype.kind != "f":
        return float(np.any(wanted != found))
    finite = np.isfinite(wanted)
    if not np.array_equal(wanted[~finite], found[~finite], equal_nan=True) or not np.isfinite(found[finite]).all():
        return float("inf")
    if not finite.any():
        return 0.0
    scale = float(np.abs(wanted[finite]).max()) or 1.0
    return float(np.abs(wanted[finite].astype(np.float64) - found[finite]).max()) / scale


def _read_reply(replies: int, seconds: float) -> tuple[bytes | None, bool]:
    """Read a child's message; return it and whether it came in time. It is None if the child ended or was too late."""
    data, end = b"", time.monotonic() + seconds
    while True:
        ready, _, _ = select.select([replies], [], [], max(0.0, end - time.monotonic()))
        if not ready:
            return None, False
        part = os.read(replies, 1 << 16)
        data += part
        if not part or len(data) >= LENGTH.size + LENGTH.unpack(data[: LENGTH.size].ljust(LENGTH.size, b"\xff"))[0]:
            return read_message(io.BytesIO(data)), True


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _with_tail(what: str, text: str) -> str:
    last = text.splitlines()[-1][:_TAIL] if text else ""
    return f"{what}: {last}" if last else what


if __name__ == "__main__":
    # A process that forks must not have other threads.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    main()

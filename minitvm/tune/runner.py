"""The process that runs candidates. It loads the runtime once; each measurement is a child that it forks.

A child that crashes, hangs or takes too much memory is that child alone: its parent says by which signal it ended, and
what it wrote. Started as a plain program (`python -m minitvm.tune.runner`); requests and replies are messages of JSON
(`workers.process`). A request:

    artifacts   paths of modules to run: one, or two that take turns
    key         with which they are signed, as hex
    zeros       positions of the arguments that are indices, or count iterations: zeros, so that they are in bounds
    expected    a file of results: what is compared with, or "" where this run is to write it to `results`
    runs, least timed runs of each, at most; after two, one is given up whose fastest took longer than `hopeless`
    seconds     of all runs together, roughly
    between     bytes of other arguments that a run touches before it sees the same ones again
    limit       seconds after which the child has hung
    memory      bytes of memory that the child may use

The reply: an outcome of `records`, `seconds` of each run of each artifact, and a message.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..executable.nodes import Input, ScalarSpec
from ..workers.process import read_message, write_message

OK, WRONG, CRASHED, HUNG, MEMORY = "ok", "wrong", "crashed", "hung", "memory"
TOLERANCE = 1e-4  # of the largest value: small integers are summed exactly, functions such as exp are not
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

    for backend in own():
        if backend.kind == "cpu":
            backend.part("program"), backend.part("machine_code")
    while (request := read_message(sys.stdin.buffer)) is not None:
        reply = in_a_child(json.loads(request))
        write_message(replies, json.dumps(reply).encode())


def in_a_child(request: Mapping[str, Any]) -> dict[str, Any]:
    """Measure in a process of its own; says how that ended."""
    reading, writing = os.pipe()
    with tempfile.TemporaryFile() as said:
        child = os.fork()
        if child == 0:
            _child(request, writing, said.fileno())
        os.close(writing)
        try:
            data, in_time = _read_all(reading, request["limit"])
        finally:
            os.close(reading)
            if not in_time:
                os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
        said.seek(0)
        text = said.read().decode(errors="replace").strip()
    if not in_time:
        return {"outcome": HUNG, "message": f"no end after {request['limit']:.3g} s", "seconds": []}
    if os.WIFSIGNALED(status):
        return {"outcome": CRASHED, "message": _with_tail(_signal_name(os.WTERMSIG(status)), text), "seconds": []}
    try:
        reply: dict[str, Any] = json.loads(data)
        return reply
    except ValueError:
        code = os.WEXITSTATUS(status)
        return {"outcome": CRASHED, "message": _with_tail(f"exit status {code}", text), "seconds": []}


def _child(request: Mapping[str, Any], writing: int, said: int) -> None:
    """Never returns."""
    code = 1
    try:
        with contextlib.suppress(OSError):
            ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL)  # not to outlive the one who waits
        os.dup2(said, 1)
        os.dup2(said, 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if request["memory"]:
            resource.setrlimit(resource.RLIMIT_AS, (int(request["memory"]),) * 2)
        reply = measured(request)
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(json.dumps(reply).encode())
        code = 0
    except BaseException as error:
        summary = traceback.format_exception_only(error)[-1].splitlines()[0]  # some errors have several lines
        os.write(2, f"{traceback.format_exc()}{summary}\n".encode())
    finally:
        os._exit(code)


def measured(request: Mapping[str, Any]) -> dict[str, Any]:
    """Run the artifacts of a request in this process; see the module for what is asked and answered."""
    from ..runtime import load

    try:
        functions = [load(path, key=bytes.fromhex(request["key"])) for path in request["artifacts"]]
        copies = _arguments(functions[0], request["zeros"], request["between"])
        for function in functions:  # the first run also finds out whether it is right
            function(*copies[0])
            fault = _compared(function, copies[0], request["expected"], request["results"])
            if fault:
                return {"outcome": WRONG, "message": fault, "seconds": []}
    except MemoryError:
        return {"outcome": MEMORY, "message": f"more than {request['memory'] / 1e9:.3g} GB", "seconds": []}
    return {"outcome": OK, "message": "", "seconds": _timed(functions, copies, request)}


def _timed(functions: Sequence[Any], copies: Sequence[Any], request: Mapping[str, Any]) -> list[list[float]]:
    """Seconds of the runs of each function, in turn; arguments in turn as well."""
    seconds: list[list[float]] = [[] for _ in functions]
    clock, number = time.perf_counter, 0
    end = clock() + request["seconds"]
    while len(seconds[0]) < request["runs"]:
        for function, times in zip(functions, seconds, strict=True):
            arguments = copies[number % len(copies)]
            number += 1
            start = clock()
            function(*arguments)
            times.append(clock() - start)
        done = len(seconds[0])
        if done == 2 and request["hopeless"] and min(seconds[0]) > request["hopeless"]:
            break
        if done >= request["least"] and clock() > end:
            break
    return seconds


def _arguments(function: Any, zeros: Sequence[int], between: int) -> list[list[Any]]:
    """Arguments of small integers, several times, so that `between` bytes are touched before one is used again."""
    generator = np.random.default_rng(0)
    first = [_argument(generator, spec, position in zeros) for position, (spec, _) in enumerate(_parameters(function))]
    nbytes = max(1, sum(a.nbytes for a in first if isinstance(a, np.ndarray)))
    count = min(_COPIES, 1 + -(-between // nbytes))
    again = [[a.copy() if isinstance(a, np.ndarray) else a for a in first] for _ in range(count - 1)]
    return [first, *again]


def _parameters(function: Any) -> list[tuple[Any, bool]]:
    """The specification of each parameter, and whether it is written."""
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
    """What is wrong with the results in these arguments, on one line; writes them down where there is nothing to
    compare with."""
    written = [a for a, (_, one) in zip(arguments, _parameters(function), strict=True) if one]
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


def _plain(array: Any) -> Any:
    """Floats of 16 bits as float32, which files can hold."""
    return array.astype(np.float32) if array.dtype.kind == "V" or array.dtype.itemsize == 2 else array


def _difference(wanted: Any, found: Any) -> float:
    """The largest difference, as a part of the largest finite value; infinity where NaN or infinities differ."""
    if wanted.dtype.kind != "f":
        return float(np.any(wanted != found))
    finite = np.isfinite(wanted)
    if not np.array_equal(wanted[~finite], found[~finite], equal_nan=True) or not np.isfinite(found[finite]).all():
        return float("inf")
    if not finite.any():
        return 0.0
    scale = float(np.abs(wanted[finite]).max()) or 1.0
    return float(np.abs(wanted[finite].astype(np.float64) - found[finite]).max()) / scale


def _read_all(reading: int, seconds: float) -> tuple[bytes, bool]:
    """What a child writes until it closes the pipe, and whether it did so in time."""
    data, end = b"", time.monotonic() + seconds
    while True:
        ready, _, _ = select.select([reading], [], [], max(0.0, end - time.monotonic()))
        if not ready:
            return data, False
        part = os.read(reading, 1 << 16)
        if not part:
            return data, True
        data += part


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _with_tail(what: str, text: str) -> str:
    last = text.splitlines()[-1][-_TAIL:] if text else ""
    return f"{what}: {last}" if last else what


if __name__ == "__main__":
    # A process that forks must have no threads of its own.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    main()

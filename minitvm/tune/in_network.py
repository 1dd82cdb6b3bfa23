"""Run builds of a network in turn, with time stamps between their operators: the runner's part of `confirm`.

In a request, `artifacts` are the builds, signed with `key`, and `operators` gives, for each build, the group of each
operator to be timed. The reply has, for each build, the seconds of each of its runs by group; the group "" is the whole
network. On a device the data stay in its memory, and each operator ends before the next begins.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import InputError, MinitvmError
from ..executable import Barrier, Executable, ScalarSpec, evaluate
from ..expr import Var, free_vars
from ..records.record import OK, REFUSED

ROUNDS, LEAST_ROUNDS = 60, 12  # runs of each build: at most, and at least in spite of the time
SECONDS = 4.0  # of all runs together, roughly
# Values to try for open sizes; the first one that the network accepts is used. Operators with open sizes are not tuned,
# and the others do the same work for any value.
SIZES = (8, 32, 1, 256)


def measured(request: Mapping[str, Any]) -> dict[str, Any]:
    """Run the builds of a request in this process and return the reply; the module's docstring describes both."""
    from ..runtime import load

    modules: list[Any] = [load(path, key=bytes.fromhex(request["key"])) for path in request["artifacts"]]
    fault = "it has no inputs of any size"
    for inputs in arguments(modules[0].executable):
        try:
            for module in modules:
                module.stamped(**inputs, out="device")
        except InputError as error:
            fault = str(error).splitlines()[0]
            continue
        except MinitvmError as error:  # what a back end cannot do: stamps, or so much memory
            return {"outcome": REFUSED, "message": " ".join(str(error).split()), "seconds": [], "groups": []}
        here = {name: modules[0].to_device(value) for name, value in inputs.items()}
        return {"outcome": OK, "message": "", "seconds": [], "groups": in_turn(modules, here, request["operators"])}
    return {"outcome": REFUSED, "message": fault, "seconds": [], "groups": []}


def arguments(executable: Executable) -> Iterator[dict[str, Any]]:
    """Yield inputs to run a network with, one set for each size in SIZES: normal floats, and zeros for integers that
    may be indices.
    """
    tensors = [spec for spec in executable.inputs if not isinstance(spec, ScalarSpec)]
    variables: list[Var] = [spec.var for spec in executable.inputs if isinstance(spec, ScalarSpec)]
    variables += [var for spec in tensors for dim in spec.shape if not isinstance(dim, int) for var in free_vars(dim)]
    for size in SIZES if variables else SIZES[:1]:
        generator, env = np.random.default_rng(0), dict.fromkeys(variables, size)
        values = dict[str, Any]()
        for spec in executable.inputs:
            if isinstance(spec, ScalarSpec):
                values[spec.name] = size
                continue
            shape, kind = [int(evaluate(dim, env)) for dim in spec.shape], np.dtype(spec.dtype.numpy)
            drawn = generator.standard_normal(shape) if kind.kind in "fV" else np.zeros(shape)
            values[spec.name] = drawn.astype(kind)
        yield values


def in_turn(
    modules: Sequence[Any], inputs: Mapping[str, Any], operators: Sequence[Mapping[str, str]]
) -> list[dict[str, list[float]]]:  # fmt: skip
    """Run the modules in turn. Return, for each module, the seconds of each of its runs by group of operators."""
    outputs = [outputs_of(module, inputs) for module in modules]
    groups = [steps_of(module.executable, own) for module, own in zip(modules, operators, strict=True)]
    seconds: list[dict[str, list[float]]] = [{key: [] for key in (*group, "")} for group in groups]
    begin = time.monotonic()
    for number in range(ROUNDS):
        if number >= LEAST_ROUNDS and time.monotonic() - begin > SECONDS:
            break
        for module, out, group, times in zip(modules, outputs, groups, seconds, strict=True):
            stamps = module.stamped(**inputs, out=out).times[0] * 1e-9
            taken = np.diff(stamps)
            times[""].append(float(stamps[-1] - stamps[0]))
            for key, steps in group.items():
                times[key].append(float(taken[steps].sum()))
    return seconds


def outputs_of(module: Any, inputs: Mapping[str, Any]) -> Any:
    """Return the value to pass as `out` in all runs: the result arrays of a first run, because memory that is new to a
    process is slow. If data decide the shapes of the results, the runs allocate new arrays instead.
    """
    results = module.stamped(**inputs, out="device").outputs
    try:
        module.stamped(**inputs, out=results)
    except InputError:
        return "device"
    return results


def steps_of(executable: Executable, operators: Mapping[str, str]) -> dict[str, list[int]]:
    """Return the step numbers of each group of operators; a barrier belongs to the operator before it."""
    found: dict[str, list[int]] = {key: [] for key in operators.values()}
    operator = ""
    for number, step in enumerate(executable.steps):
        if not isinstance(step, Barrier):
            operator = getattr(step, "operator", "")
        if operator in operators:
            found[operators[operator]].append(number)
    return found

"""The inputs of the test of a C program, and the outputs that minitvm computes from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import InputError, MinitvmError, report
from ...executable import Executable, ScalarSpec, evaluate
from ...expr import Var
from ...runtime.random_arrays import bounds_of, random_array
from .interface import Interface

Array = np.ndarray[Any, Any]
_SIZES = (4, 2, 3, 1, 8, 16, 32, 64, 128)  # of open dimensions, in the order in which they are tried
_RUNS_WITH_STATES = 2


@dataclass(frozen=True)
class CheckData:
    """Inputs with the outputs of one run after the other, and the sizes. `tolerance` is relative; 0: equal bits."""

    sizes: dict[Var, int]
    inputs: tuple[Array, ...]
    runs: tuple[tuple[Array, ...], ...]
    tolerance: float


def computed(
    api: Interface, module: Any, inputs: Mapping[str, Any] | None, tolerance: float = 0.0, positive: bool = False
) -> CheckData:
    """Return an example whose outputs `module` computes from the given inputs, or from random ones.

    Random floats are not negative if `positive`, for programs that cast them to unsigned integers.

    Raises `InputError` if the program takes no random inputs.
    """
    failure: MinitvmError | None = None
    for sizes, arrays in _candidates(api, inputs, positive):
        try:
            runs = _runs(api, module, arrays)
        except MinitvmError as error:
            if inputs is not None:
                raise
            failure = failure or error
            continue
        return CheckData(sizes, tuple(arrays), runs, tolerance)
    raise InputError(
        report(
            f"{api.executable.name} as C",
            wanted="inputs for the test of the program",
            found=f"random inputs are refused: {failure}",
            tries=["inputs={name: array} (--input FILE.npz)"],
        )
    )


def _runs(api: Interface, module: Any, arrays: list[Array]) -> tuple[tuple[Array, ...], ...]:
    runs = []
    for _ in range(_RUNS_WITH_STATES if api.states else 1):
        results = module(*arrays)
        runs.append(tuple(results) if isinstance(results, tuple) else (results,))
    if api.states:
        module.reset()
    return tuple(runs)


def _candidates(
    api: Interface, inputs: Mapping[str, Any] | None, positive: bool
) -> Iterator[tuple[dict[Var, int], list[Array]]]:
    if inputs is not None:
        arrays = _in_order(api.executable, inputs)
        yield _sizes_of(api, arrays), arrays
        return
    for size in _SIZES if api.sizes else (0,):
        sizes = dict.fromkeys(api.sizes, size)
        arrays = [_random(api.executable, number, sizes) for number in range(len(api.inputs))]
        if positive:
            floats = [t.spec.dtype.is_float for t in api.inputs]
            arrays = [np.asarray(np.abs(a)) if is_float else a for a, is_float in zip(arrays, floats, strict=True)]
        yield sizes, arrays


def _in_order(x: Executable, inputs: Mapping[str, Any]) -> list[Array]:
    names = [spec.name for spec in x.inputs]
    if not isinstance(inputs, Mapping):
        raise InputError(f"{x.name} as C: wanted inputs={{name: array}}, found {type(inputs).__name__}")
    if sorted(map(str, inputs)) != sorted(names):
        raise InputError(
            f"{x.name} as C: wanted inputs {', '.join(names)}, found {', '.join(map(str, inputs)) or 'none'}"
        )
    return [np.asarray(inputs[name], order="C") for name in names]


def _sizes_of(api: Interface, arrays: list[Array]) -> dict[Var, int]:
    from ...runtime.shapes import bind_dims

    pairs = list(zip(api.executable.inputs, arrays, strict=True))
    scalars = [(spec, array.item()) for spec, array in pairs if isinstance(spec, ScalarSpec)]
    tensors = [(spec, array.shape) for spec, array in pairs if not isinstance(spec, ScalarSpec)]
    env = bind_dims(f"{api.executable.name} as C", tensors, scalars)
    return {var: int(env[var]) for var in api.sizes}


def _random(x: Executable, number: int, sizes: Mapping[Var, int]) -> Array:
    """Return a random array for an input, with integers within the bounds of the input."""
    spec = x.inputs[number]
    shape = () if isinstance(spec, ScalarSpec) else tuple(int(evaluate(d, sizes)) for d in spec.shape)
    return random_array(np.random.default_rng([0, number]), shape, spec.dtype, bounds_of(x, number, sizes))

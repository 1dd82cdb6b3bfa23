"""The states of a module: values that a run leaves for the next run. You can read and set them by name."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import InputError, Unsupported, nearest, report
from ..executable import Bound, Executable, State, beginning, evaluate
from ..executable.alignment import aligned_copy, zeroed
from ..executable.evaluation import Number
from ..expr import Var
from .arguments import Array, checked_array
from .shapes import check_fixed_dims


def first_values(executable: Executable) -> list[Array]:
    """Return new memory for the states of an executable, as before the first run: aligned, dense arrays."""
    arrays = []
    for spec in executable.states:
        if spec.first is not None:
            arrays.append(aligned_copy(beginning(executable, spec)))
            continue
        shape = tuple(dim for dim in spec.shape if isinstance(dim, int))
        zeros = zeroed(int(np.prod(shape, dtype=np.int64)) * spec.dtype.bytes)
        arrays.append(zeros.view(spec.dtype.numpy).reshape(shape))
    return arrays


def memory_of(executable: Executable, program: Any) -> Sequence[Any]:
    """Return the memory of a program's states. Raises `Unsupported` if the back end does not support states."""
    memory: Sequence[Any] = getattr(program, "states", ())
    if len(memory) != len(executable.states):
        raise Unsupported(f"the back end {executable.target} keeps no states: its programs have no memory for them")
    return memory


class States(Mapping[str, Array]):
    """The states of a module, by name.

    `module.state["k0"]` is a copy, which later runs do not change. `module.state["k0"] = array` copies the array into
    the module. `update` sets several states, or none of them if one of the arrays does not fit.
    """

    def __init__(self, executable: Executable, memory: Sequence[Any], lock: threading.RLock) -> None:
        self._executable, self._what, self._lock = executable, executable.name, lock
        self._specs = {spec.name: spec for spec in executable.states}
        self._memory = dict(zip(self._specs, memory, strict=True))

    def __getitem__(self, name: str) -> Array:
        self._require(name)
        with self._lock:
            array: Array = self._memory[name].copy()
            return array

    def __setitem__(self, name: str, array: Any) -> None:
        self.update({name: array})

    def __iter__(self) -> Iterator[str]:
        return iter(self._specs)

    def __len__(self) -> int:
        return len(self._specs)

    def __contains__(self, name: object) -> bool:
        return name in self._specs

    def __repr__(self) -> str:
        rows = (f"{s.name}: {s.dtype}[{', '.join(map(str, s.shape))}]" for s in self._specs.values())
        return f"States({', '.join(rows)})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle or copy the states as a dictionary of copies, because the originals live in the memory of one
        module.
        """
        return dict, (dict(self),)

    def update(self, arrays: Mapping[str, Any]) -> None:
        """Copy the arrays into the states, by name. `arrays` may be the `state` of another module.

        Raises `InputError` for an unknown name, or for a wrong dtype or shape; in that case no state changes.
        """
        checked = {name: self._checked(name, array) for name, array in arrays.items()}
        with self._lock:
            for name, array in checked.items():
                self._memory[name][...] = array

    def reset(self) -> None:
        """Give all states their first values again: zeros, unless the model sets another value."""
        with self._lock:
            for name, memory in self._memory.items():
                memory[...] = beginning(self._executable, self._specs[name])

    def memory_in(self, other: States) -> list[Any]:
        """Return the memory of another module's states, in the order of these.

        Raises `InputError` unless both have the same names and types.
        """
        specs, theirs = ({s.name: (s.dtype, tuple(s.shape)) for s in x._specs.values()} for x in (self, other))
        if specs != theirs:
            name = next(name for name in (*specs, *theirs) if specs.get(name) != theirs.get(name))
            raise InputError(
                report(
                    f"{self._what} and {other._what} have different states, so they cannot share them",
                    wanted=f"{name}: {_text(specs, name)}",
                    found=f"{name}: {_text(theirs, name)}",
                )
            )
        return [other._memory[name] for name in specs]

    def share(self, other: States) -> None:
        """Read and set the memory of another module's states from now on."""
        self._memory, self._lock = {name: other._memory[name] for name in self._specs}, other._lock

    def _require(self, name: str) -> None:
        if name not in self._specs:
            raise InputError(f"{self._what} has no state {name!r}; {nearest(str(name), list(self._specs))}")

    def _checked(self, name: str, array: Any) -> Array:
        self._require(name)
        spec = self._specs[name]
        given = checked_array(self._what, spec, array)
        check_fixed_dims(self._what, spec, given.shape)
        return given


def _text(specs: Mapping[str, tuple[Any, tuple[Any, ...]]], name: str) -> str:
    if name not in specs:
        return "no such state"
    dtype, shape = specs[name]
    return f"{dtype}[{', '.join(map(str, shape))}]"


def check_bounds(
    executable: Executable, arrays: Sequence[Any], states: Sequence[Any], sizes: Mapping[Var, Number]
) -> None:
    """Raise `InputError` if an element of an input or state is outside the bounds that the program relies on."""
    for bound in executable.bounds:
        array = (states if isinstance(bound.place, State) else arrays)[bound.place.index]
        if not isinstance(array, np.ndarray):  # it is on a device
            array = array.copy()
        if array.size == 1:
            element = array.item()
            low = high = element
        elif array.size:
            low, high = int(array.min()), int(array.max())
        else:
            continue
        least, most = evaluate(bound.low, sizes), evaluate(bound.high, sizes)
        if low < least or high > most:
            raise _out_of_bounds(executable, bound, f"from {least} to {most}", low if low < least else high)


def _out_of_bounds(executable: Executable, bound: Bound, wanted: str, element: int) -> InputError:
    specs = executable.states if isinstance(bound.place, State) else executable.inputs
    name = specs[bound.place.index].name
    return InputError(
        f"{executable.name}: {bound.where}\n  wanted: {name} {wanted}\n  found:  {element}\n  nothing was changed"
    )

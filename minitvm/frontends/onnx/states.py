"""Find the inputs and outputs of a model that are states: caches that one run leaves for the next."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ...errors import InputError, nearest
from ...graph.nodes import Dim

# As exporters name them: past_key_values.0.key and present.0.key, past_key_0 and present_key_0.
_PAST = re.compile(r"^past(_key_values)?(?=[^a-z]|$)", re.IGNORECASE)
_PRESENT = re.compile(r"^present(_key_values)?(?=[^a-z]|$)", re.IGNORECASE)


def state_names(
    states: Mapping[str, str] | bool | None, inputs: Sequence[str], outputs: Sequence[str]
) -> dict[str, str]:
    """Return the output for each input that is a state. With True, states are the inputs "past..." with outputs
    "present...".

    Raises `InputError` for names that the model does not have, or if there are no such pairs.
    """
    if not states:
        return {}
    if states is True:
        left = {_PRESENT.sub("", name): name for name in outputs if _PRESENT.search(name)}
        pairs = {
            name: left[_PAST.sub("", name)] for name in inputs if _PAST.search(name) and _PAST.sub("", name) in left
        }
        if not pairs:
            raise InputError(
                "states=True: no input past... has an output present... of the same name\n"
                f"  found:  inputs {', '.join(inputs)}; outputs {', '.join(outputs)}\n"
                "  try:    states={input: output}"
            )
        return pairs
    for name, output in states.items():
        if name not in inputs:
            raise InputError(f"states: the model has no input {name}; {nearest(name, list(inputs))}")
        if output not in outputs:
            raise InputError(f"states: the model has no output {output}; {nearest(output, list(outputs))}")
    twice = [output for output in states.values() if list(states.values()).count(output) > 1]
    if twice:
        raise InputError(f"states: the output {twice[0]} belongs to two states")
    return dict(states)


def state_shape(
    name: str, declared: Sequence[int | str], symbols: Mapping[str, Dim], max_length: int | None
) -> tuple[int, ...]:
    """Return the shape of a state: its declared shape with `symbols` replaced, and the open dimension set to
    `max_length`.

    Raises `InputError` if more than one dimension is open, or if there is no `max_length` for it.
    """
    shape = [dim if isinstance(dim, int) else symbols.get(dim, dim) for dim in declared]
    unknown = [axis for axis, dim in enumerate(shape) if not isinstance(dim, int)]
    text = ", ".join(str(dim) or "?" for dim in declared)
    if len(unknown) > 1:
        names = ", ".join(str(declared[axis]) or "?" for axis in unknown)
        raise InputError(
            f"the state {name} ({text}) has {len(unknown)} open dimensions: {names}\n"
            f"  try:    shapes={{...}}, which gives all but the length of the context a size"
        )
    if unknown and max_length is None:
        raise InputError(
            f"the state {name} ({text}) is as long as the context, {shape[unknown[0]]}\n"
            "  try:    max_length=2048: a bound for the context, for which the memory is reserved"
        )
    return tuple(dim if isinstance(dim, int) else int(max_length or 0) for dim in shape)

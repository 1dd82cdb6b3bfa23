"""The states of a graph as attributes of a Relax function: `states` and `first`.

    R.func_attr({"states": [[1, 1], [2, 2]], "first": ["", "[5, 7]"]})

Each entry of `states` is the index of an input and that of the output that replaces it in the next run. Each entry of
`first` is the value of this input in the first run, as JSON text: a list, one number if all elements are equal, or ""
for zeros.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...errors import InputError, report
from ...graph import Graph, GraphState
from ...graph.verify import states_fit


def attributes(graph: Graph) -> dict[str, Any]:
    """Return the attributes of a function that describe the states of a graph."""
    if not graph.states:
        return {}
    pairs = [[state.input, state.output] for state in graph.states]
    firsts = [_text(state.first) for state in graph.states]
    return {"states": pairs, "first": firsts} if any(firsts) else {"states": pairs}


def read(attrs: Mapping[str, Any], graph: Graph) -> tuple[GraphState, ...]:
    """Return the states that the attributes of a function describe. Raises `InputError` for a wrong description."""
    pairs = attrs.get("states", ())
    firsts = attrs.get("first", [""] * len(pairs))
    try:
        states = tuple(
            GraphState(old, new, _array(text, graph, old)) for (old, new), text in zip(pairs, firsts, strict=True)
        )
        finding = next(states_fit(Graph(graph.inputs, (), (), graph.outputs, states=states)), None)
    except (TypeError, ValueError, IndexError, OverflowError) as error:
        finding = (graph, str(error))
    if finding is not None:
        raise InputError(
            report(
                "the states of a function",
                wanted='{"states": [[input, output], ...], "first": [text, ...]}',
                found=finding[1],
            )
        )
    return states


def _text(first: np.ndarray | None) -> str:
    if first is None:
        return ""
    numbers = first if first.dtype.kind in "biu" else first.astype(np.float64)  # float64 holds all floats
    is_uniform = first.size and len({element.tobytes() for element in first.reshape(-1)}) == 1
    return json.dumps(numbers.reshape(-1)[0].item() if is_uniform else numbers.tolist())


def _array(text: str, graph: Graph, number: int) -> np.ndarray | None:
    if not text:
        return None
    value = graph.inputs[number]
    shape = tuple(dim for dim in value.shape if isinstance(dim, int))
    array = np.array(json.loads(text))
    return np.array(np.broadcast_to(array, shape)).astype(value.dtype.numpy, casting="unsafe")

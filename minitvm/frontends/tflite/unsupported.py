"""List all unsupported operators of a model at once."""

from __future__ import annotations

from collections.abc import Iterator

from ...errors import UnsupportedOperator, report
from .context import label
from .loading import OperatorNode, Subgraph, TFLiteModel
from .registry import converters, refusal

LONGEST = 12  # lines of an error


def refuse_unsupported(model: TFLiteModel, number: int) -> None:
    """Raise `UnsupportedOperator` if a subgraph, or one that it calls, has operators without a converter."""
    missing: dict[tuple[str, bool], list[str]] = {}
    for graph, node in _nodes(model, number):
        if node.custom or node.name not in converters():
            missing.setdefault((node.name, node.custom), []).append(label(graph, node))
    if not missing:
        return
    lines = [_described(name, custom, places) for (name, custom), places in missing.items()]
    tries = []
    if any(custom for _, custom in missing):
        tries.append("a model without custom operators: they exist only in the runtime that defines them")
    if any(name.startswith("Flex") for name, _ in missing):
        tries.append(
            "converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS], without TensorFlow's operators"
        )
    if not tries:
        tries.append("the same model as ONNX (tf2onnx), if its operators differ there")
    if len(lines) == 1:
        raise UnsupportedOperator(report(lines[0], tries=tries))
    left_out = [f"and {len(lines) - LONGEST} more"] if len(lines) > LONGEST else []
    shown = "\n".join([*lines[:LONGEST], *left_out])
    raise UnsupportedOperator(report(f"{len(lines)} operators are not supported", program=shown, tries=tries))


def _described(name: str, custom: bool, places: list[str]) -> str:
    more = f" and {len(places) - 1} more" if len(places) > 1 else ""
    reason = "it is a custom operator" if custom else refusal(name)
    return f"{places[0]}{more} is not supported" + (f": {reason}" if reason else "")


def _nodes(model: TFLiteModel, number: int) -> Iterator[tuple[Subgraph, OperatorNode]]:
    """Yield the operators of a subgraph, and of the subgraphs that it calls, each once."""
    seen, waiting = set(), [number]
    while waiting:
        number = waiting.pop()
        if number in seen or not 0 <= number < len(model.subgraphs):
            continue
        seen.add(number)
        graph = model.subgraphs[number]
        for node in graph.operators:
            yield graph, node
            waiting.extend(
                getattr(node.options, name)() for name in dir(node.options) if name.endswith("SubgraphIndex")
            )
